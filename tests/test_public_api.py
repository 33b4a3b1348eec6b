"""The public API: what `offbook` offers, and what importing it costs."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

import offbook
from offbook.errors import InputError
from offbook.lazy_names import PUBLIC_MODULES, public_names
from offbook.session import provider

HEAVY = {
    "msgspec",
    "orjson",
    "httpx2",
    "httpx",
    "asyncio",
    "typer",
    "rich",
    "sqlite3",
    "ssl",
    "redis",
    "pydantic",
    "yaml",
}


def loaded_by(statement):
    """The modules that a fresh interpreter loads for a statement."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def names_in_stub(package):
    """The names that type checkers see in a package, read with Python's own parser; None without a stub."""
    stub = Path(import_module(package).__file__).with_suffix(".pyi")
    if not stub.is_file():
        return None
    body = ast.parse(stub.read_text()).body
    imported = {alias.asname for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


@pytest.fixture(params=["offbook", *PUBLIC_MODULES])
def module(request):
    return import_module(request.param)


def test_every_public_name_can_be_imported(module):
    for name in public_names(module.__name__):
        namespace = {}
        exec(f"from {module.__name__} import {name}", namespace)
        assert not isinstance(namespace[name], ModuleType), f"{name} is hidden by a module"


def test_a_star_import_brings_all_names(module):
    namespace = {}
    exec(f"from {module.__name__} import *", namespace)
    assert set(public_names(module.__name__)) <= namespace.keys()


def test_a_package_lists_what_type_checkers_see(module):
    stub = names_in_stub(module.__name__)
    if stub is not None:
        assert module.__all__ == sorted(stub)
        assert dir(module) == module.__all__


def test_every_package_with_a_stub_is_public():
    root = Path(offbook.__file__).parent
    stubs = {".".join(stub.parent.relative_to(root.parent).parts) for stub in root.rglob("__init__.pyi")}
    assert stubs <= {"offbook", *PUBLIC_MODULES}


def test_the_top_level_offers_what_first_pages_need():
    assert len(offbook.__all__) <= 65


def test_every_name_of_the_top_level_is_offered_by_a_public_module():
    """The pages of the reference are those of the modules."""
    offered = {name for module in PUBLIC_MODULES for name in public_names(module)}
    assert {*offbook.__all__} - offered == {"__version__"}


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("StreamTruncate", "offbook.faults"),
        ("ToolArgumentsError", "offbook.errors"),
        ("MaxIterationsError", "offbook.agent"),
        ("StreamRestart", "offbook.messages"),
        ("PriceTable", "offbook.providers"),
        ("match_trajectory", "offbook.scenarios"),
    ],
)
def test_a_name_of_another_module_is_an_error_that_says_where_it_is(name, home):
    text = f"^{name} moved: from {home} import {name}$"
    with pytest.raises(AttributeError, match=text):
        getattr(offbook, name)
    with pytest.raises(ImportError, match=text):
        exec(f"from offbook import {name}")
    exec(f"from {home} import {name}")


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'offbook' has no attribute 'MockProvidr'"):
        _ = offbook.MockProvidr
    with pytest.raises(ImportError, match="MockProvidr"):
        exec("from offbook import MockProvidr")


def test_a_name_that_a_module_only_imports_is_unknown():
    assert not hasattr(offbook, "Mapping")


def test_a_name_is_the_same_object_every_time():
    assert offbook.MockProvider is offbook.MockProvider
    assert offbook.MockProvider is provider.MockProvider


def test_a_bare_import_loads_nothing_heavy():
    loaded = loaded_by("import offbook")
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    own = {name for name in loaded if name.startswith("offbook")}
    assert own == {"offbook", "offbook.lazy_names"}
    assert len(loaded) < 30


def test_a_module_of_the_package_is_imported_alone():
    loaded = loaded_by("from offbook import events")
    assert {name for name in loaded if name.startswith("offbook")} == {
        "offbook",
        "offbook.lazy_names",
        "offbook.events",
    }


@pytest.mark.parametrize("name", ["MockProvider", "RecordingProvider", "Redactor", "ProviderError"])
def test_recording_and_replay_do_not_load_the_http_client(name):
    loaded = loaded_by(f"from offbook import {name}")
    assert {name.partition(".")[0] for name in loaded} & {"httpx2", "httpx", "typer", "rich"} == set()


def test_the_version_and_the_types_are_there():
    assert offbook.__version__.count(".") == 2
    assert files("offbook").joinpath("py.typed").is_file()


_IMPORT = re.compile(r"^(?:from (offbook[\w.]*) import (\([^)]*\)|.*)|import (offbook[\w.]*))", re.MULTILINE)


def imports_at_module_level():
    """The modules that each module of the package imports when it is loaded: not those inside functions."""
    root = Path(offbook.__file__).parent
    names = {file: ".".join(file.relative_to(root.parent).with_suffix("").parts) for file in root.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for file, name in names.items()}
    graph = {}
    for module, file in modules.items():
        graph[module] = set()
        for package, imported, whole in _IMPORT.findall(file.read_text()):
            inner = {f"{package}.{name}" for name in re.findall(r"\w+", imported)} & modules.keys()
            graph[module] |= (inner or {package or whole}) & modules.keys()
    return graph


def test_no_two_modules_import_each_other_when_they_are_loaded():
    """Any of them can be the first that is imported, as pytest imports the plugin."""
    graph = imports_at_module_level()
    assert len(graph) > 300
    assert "offbook.errors" in graph["offbook.pytest_plugin.fixture"]
    TopologicalSorter(graph).prepare()  # raises CycleError, with the modules of the cycle


def test_an_option_that_serving_does_not_have_is_refused_with_the_one_that_is_meant():
    with pytest.raises(InputError) as caught:
        offbook.serving(upstream="https://api.openai.com")
    assert caught.value.reason == "there is no option 'upstream'"
    assert "did you mean 'upstreams'?" in caught.value.hint
