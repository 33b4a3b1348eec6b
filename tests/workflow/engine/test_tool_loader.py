"""Tools that a workflow declares: found beside it or anywhere, and told in one line where they cannot be."""

import importlib
import os
import sys
import threading

import pytest

from offbook import ToolCall, run
from offbook.errors import InputError, WorkflowError
from offbook.tools import run_tool
from offbook.workflow import load_workflow, parse_workflow
from offbook.workflow.engine.tool_loader import load_tools

FLOW = """\
name: flow
tools:
{tools}
steps:
  - {{id: a, type: tool, tool: first}}
"""


def declared(**tools):
    """Declared tools, each as it is spelled in YAML."""
    lines = [f"  {name}: {spelled}" for name, spelled in {"first": "m:f", **tools}.items()]
    definitions = dict(parse_workflow(FLOW.format(tools="\n".join(lines))).tools)
    if "first" not in tools:
        del definitions["first"]
    return definitions


def loaded(folder, spelled, *, name="work"):
    return load_tools(declared(**{name: spelled}), folder=folder)[name]


def result_of(tool, **args):
    return run(run_tool(tool, ToolCall(tool.name, args)), virtual_time=True).value


def write(folder, **modules):
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)


@pytest.fixture(autouse=True)
def modules_as_before():
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


def test_a_function_beside_the_workflow_becomes_a_tool_of_the_declared_name(tmp_path):
    write(tmp_path, my_tools='def add(a: int, b: int = 1):\n    """Add numbers."""\n    return a + b\n')
    path = list(sys.path)
    tool = loaded(tmp_path, "my_tools:add", name="plus")
    assert tool.name == "plus"
    assert tool.spec.name == "plus"
    assert tool.spec.description == "Add numbers."
    assert result_of(tool, a="2") == 3
    assert sys.path == path


def test_a_function_of_an_installed_module_becomes_a_tool(tmp_path):
    assert result_of(loaded(tmp_path, "textwrap:shorten"), text="a b c", width=100) == "a b c"


def test_modules_may_be_in_packages_and_folders(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("from pack.inner import f as whole\n")
    (tmp_path / "pack/inner.py").write_text("from . import other\ndef f(): return other.X\n")
    (tmp_path / "pack/other.py").write_text("X = 'inner'\n")
    (tmp_path / "bare_folder").mkdir()
    (tmp_path / "bare_folder/deep.py").write_text("def f(): return 'deep'\n")
    assert result_of(loaded(tmp_path, "pack:whole")) == "inner"
    assert result_of(loaded(tmp_path, "pack.inner:f")) == "inner"
    assert result_of(loaded(tmp_path, "bare_folder.deep:f")) == "deep"


def test_what_is_a_tool_already_keeps_its_options_and_takes_the_declared_name(tmp_path):
    write(
        tmp_path,
        ready="""\
from offbook.tools import ToolDef, ToolSpec, tool

@tool(name="old", description="Look.", timeout_s=3, side_effect=True, repeatable=True, prerequisites=["x"])
def look(at: str):
    return at

full = ToolDef(ToolSpec("old", "Full.", {"type": "object", "properties": {"a": {}}}), lambda a: a, timeout_s=4)
""",
    )
    look, full = loaded(tmp_path, "ready:look", name="see"), loaded(tmp_path, "ready:full", name="whole")
    assert look.name == "see"
    assert look.spec.description == "Look."
    assert look.timeout_s == 3
    assert look.prerequisites == ["x"]
    assert look.side_effect
    assert look.repeatable
    assert result_of(look, at="here") == "here"
    assert full.name == "whole"
    assert full.spec.description == "Full."
    assert full.timeout_s == 4
    assert full.spec.function["function"]["name"] == "whole"
    assert result_of(full, a=1) == 1


def test_tools_that_are_given_are_not_even_imported(tmp_path):
    tools = declared(gone="no_such_module:f", there="textwrap:dedent")
    assert list(load_tools(tools, folder=tmp_path, given={"gone"})) == ["there"]


def test_reading_and_checking_a_workflow_imports_nothing(tmp_path):
    write(tmp_path, trap="raise RuntimeError('imported')")
    (tmp_path / "flow.yaml").write_text(FLOW.format(tools='  first: "trap:f"'))
    load_workflow(tmp_path / "flow.yaml")
    assert "trap" not in sys.modules


def test_equal_names_beside_two_workflows_are_two_modules(tmp_path):
    source = "import helper_module\nfrom helper_module import NAME\ndef f(): return NAME\n"
    for name in ("one", "two"):
        write(tmp_path / name, same_tools=source, helper_module=f"NAME = {name!r}\n")
    folders = [tmp_path / name for name in ("one", "two", "one")]
    assert [result_of(loaded(folder, "same_tools:f")) for folder in folders] == ["one", "two", "one"]


def test_modules_of_one_workflow_are_loaded_once(tmp_path):
    shared = "COUNT = []\n"
    user = "from shared_state import COUNT\ndef f():\n    COUNT.append(1)\n    return len(COUNT)\n"
    write(tmp_path / "one", shared_state=shared, user_a=user, user_b=user)
    write(tmp_path / "two", shared_state=shared, user_a=user)
    places = [("one", "user_a"), ("two", "user_a"), ("one", "user_b"), ("one", "user_a"), ("two", "user_a")]
    counts = [result_of(loaded(tmp_path / folder, f"{module}:f")) for folder, module in places]
    assert counts == [1, 1, 2, 3, 2]


def test_a_loaded_module_of_the_same_name_is_neither_taken_nor_disturbed(tmp_path, monkeypatch):
    write(tmp_path / "program", busy_name="WHERE = 'program'\n")
    write(tmp_path / "flow", busy_name="def f(): return 'flow'\n")
    monkeypatch.syspath_prepend(tmp_path / "program")
    ours = importlib.import_module("busy_name")
    assert result_of(loaded(tmp_path / "flow", "busy_name:f")) == "flow"
    assert sys.modules["busy_name"] is ours
    assert result_of(loaded(tmp_path / "flow", "busy_name:f")) == "flow"


def test_a_package_of_the_same_name_is_not_mixed_with_the_loaded_one(tmp_path, monkeypatch):
    for name in ("program", "flow"):
        (tmp_path / name / "packed").mkdir(parents=True)
        (tmp_path / name / "packed/__init__.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "packed/part.py").write_text("from packed import NAME\ndef f(): return NAME\n")
    monkeypatch.syspath_prepend(tmp_path / "program")
    ours = importlib.import_module("packed")
    assert result_of(loaded(tmp_path / "flow", "packed.part:f")) == "flow"
    assert importlib.import_module("packed.part").f() == "program"
    assert sys.modules["packed"] is ours


def test_a_module_that_the_program_has_loaded_from_that_very_file_is_the_same(tmp_path, monkeypatch):
    write(tmp_path, one_and_only="STATE = []\ndef f(): return list(STATE)\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("one_and_only").STATE.append("patched")
    assert result_of(loaded(tmp_path, "one_and_only:f")) == ["patched"]


def test_types_of_a_module_are_its_own_even_if_another_has_its_name(tmp_path):
    source = """\
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Inner:
    {field}: int

@dataclass
class Outer:
    inner: Inner

def f(outer: Outer):
    return outer.inner.{field}
"""
    for field in ("apples", "pears"):
        write(tmp_path / field, typed_tools=source.format(field=field))
        tool = loaded(tmp_path / field, "typed_tools:f")
        assert list(tool.spec.schema["$defs"]["Inner"]["properties"]) == [field]
        assert result_of(tool, outer={"inner": {field: 3}}) == 3


def test_a_module_may_tidy_the_import_path_itself(tmp_path):
    write(tmp_path, tidy="import sys\nsys.path.pop(0)\ndef f(): return 'here'\n")
    path = list(sys.path)
    assert result_of(loaded(tmp_path, "tidy:f")) == "here"
    assert sys.path == path


def test_tools_can_be_loaded_in_several_threads(tmp_path):
    for name in ("one", "two"):
        write(
            tmp_path / name,
            threaded="import threaded_helper as h\ndef f(): return h.X\n",
            threaded_helper=f"X = {name!r}",
        )
    results = {}

    def load(name):
        results[name] = result_of(loaded(tmp_path / name, "threaded:f"))

    threads = [threading.Thread(target=load, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"one": "one", "two": "two"}


def refusal(folder, spelled):
    with pytest.raises(InputError) as caught:
        loaded(folder, spelled, name="search")
    assert caught.value.source == "tools.search"
    return str(caught.value)


def test_a_module_that_is_not_there_is_reported_with_a_near_one(tmp_path):
    write(tmp_path, my_tools="", other="")
    assert refusal(tmp_path, "my_tolls:f") == (
        "tools.search: there is no module 'my_tolls'\n  hint: did you mean 'my_tools'?"
    )
    assert refusal(tmp_path, "x:f").endswith("hint: modules next to the workflow: my_tools, other")


def test_a_module_that_was_not_there_a_moment_ago_is_found(tmp_path):
    refusal(tmp_path, "late_module:f")
    looked_at = tmp_path.stat()
    write(tmp_path, late_module="def f(): return 'here'\n")
    os.utime(tmp_path, ns=(looked_at.st_atime_ns, looked_at.st_mtime_ns))
    assert result_of(loaded(tmp_path, "late_module:f")) == "here"


def test_a_module_in_a_package_that_is_not_there_is_reported_with_a_near_one(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").touch()
    (tmp_path / "pack/searching.py").touch()
    assert "there is no module 'pack.serching'\n  hint: did you mean 'pack.searching'?" in refusal(
        tmp_path, "pack.serching:f"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("\nimport no_such_library\n", "in broken.py, line 2: ModuleNotFoundError: No module named 'no_such_library'"),
        ("x = 1\ny = x / 0\n", "in broken.py, line 2: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')\n", "in broken.py, line 2: JSONDecodeError: Expecting property name"),
        ("x = (\n", "in broken.py, line 1: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(3)\n", "in broken.py, line 2: SystemExit: 3"),
    ],
)
def test_a_module_that_fails_is_reported_with_its_error_and_line(tmp_path, source, reason):
    write(tmp_path, broken=source)
    path = list(sys.path)
    message = refusal(tmp_path, "broken:f")
    assert message.startswith(f"tools.search: importing broken fails, {reason}")
    assert sys.path == path


def test_the_error_of_a_module_is_the_cause_of_ours(tmp_path):
    write(tmp_path, broken="raise LookupError('x')")
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, "broken:f")
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_failure_of_an_installed_module_names_its_last_line(tmp_path, monkeypatch):
    write(tmp_path / "installed", far_away="\n\nraise ValueError('far')\n")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    (tmp_path / "flow").mkdir()
    assert "in far_away.py, line 3: ValueError: far" in refusal(tmp_path / "flow", "far_away:f")


def test_a_function_that_is_not_there_is_reported_with_a_near_one(tmp_path):
    write(tmp_path, my_tools="def search_docs(): ...\ndef _hidden(): ...\nX = 1\n")
    assert refusal(tmp_path, "my_tools:search_doc") == (
        "tools.search: there is no 'search_doc' in my_tools\n  hint: did you mean 'search_docs'?"
    )
    assert refusal(tmp_path, "my_tools:zzz").endswith("hint: functions: search_docs")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("f = 3", "tools.search: expected a function, got int"),
        ("def f(*args): ...", "tools.search: *args: a model passes arguments by name\n  hint: take a list"),
        ("def f(a: 'Nowhere'): ...", "tools.search: a: its hint cannot be resolved: name 'Nowhere' is not defined"),
        ("class C:\n    def f(self): ...\nf = C.f", "tools.search: the function is an unbound method"),
    ],
)
def test_what_cannot_be_a_tool_is_reported(tmp_path, source, reason):
    write(tmp_path, unfit=source)
    assert refusal(tmp_path, "unfit:f").startswith(reason)


def test_built_in_tools_are_loaded_with_their_options(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.txt").write_text("hello")
    tools = load_tools(
        declared(
            fetch="{builtin: http_get, allow: [example.com], timeout_s: 7}",
            read="{builtin: read_file, root: ./data}",
            run="{builtin: shell, allow: [cat], timeout_s: 8}",
        ),
        folder=tmp_path,
    )
    assert {name: tool.timeout_s for name, tool in tools.items()} == {"fetch": 7, "read": None, "run": 8}
    assert all(name == tool.name for name, tool in tools.items())
    assert result_of(tools["read"], path="x.txt") == "hello"
    assert result_of(tools["run"], command="cat data/x.txt") == "hello"


@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        ("{builtin: http_get, allow: ['http://x.com/']}", "expected a host like 'example.com', '*.example.com' or"),
        ("{builtin: http_get, allow: ['*']}", "expected a host like 'example.com'"),
        ("{builtin: shell, allow: [/bin/ls]}", "expected the bare name of a command, got '/bin/ls'"),
        ("{builtin: shell, allow: []}", "expected a value, got an empty one"),
    ],
)
def test_options_that_are_wrong_are_reported_when_the_workflow_is_read(spelled, reason):
    with pytest.raises(WorkflowError) as caught:
        declared(work=spelled)
    assert reason in str(caught.value)
    assert caught.value.problems[0].place.startswith("tools.work.allow")
