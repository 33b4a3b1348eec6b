"""The public API: what `offbook` offers, and what importing it costs."""

import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path

import pytest

import offbook
from offbook.recording import replay

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


def test_all_names_resolve_and_are_sorted():
    assert offbook.__all__ == sorted(offbook.__all__)
    assert len(set(offbook.__all__)) == len(offbook.__all__)
    for name in set(offbook.__all__) - {"__version__"}:
        assert getattr(offbook, name).__name__ == name


def test_dir_shows_what_there_is():
    assert dir(offbook) == offbook.__all__


def test_a_star_import_brings_all_names():
    namespace = {}
    exec("from offbook import *", namespace)
    assert set(offbook.__all__) <= namespace.keys()


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'offbook' has no attribute 'MockProvidr'"):
        _ = offbook.MockProvidr
    with pytest.raises(ImportError, match="MockProvidr"):
        exec("from offbook import MockProvidr")


def test_a_name_is_the_same_object_every_time():
    assert offbook.MockProvider is offbook.MockProvider
    assert offbook.MockProvider is replay.MockProvider


def test_a_bare_import_loads_nothing_heavy():
    loaded = loaded_by("import offbook")
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    own = {name for name in loaded if name.startswith("offbook")}
    assert own == {"offbook", "offbook.lazy_names"}
    assert len(loaded) < 30


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
