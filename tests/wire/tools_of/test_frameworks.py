"""The tools of frameworks are recorded as they run, and replayed without running: each framework in its environment.

Environments are made by `make works-with`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from offbook.subjects.program.guest import frameworks as guest
from offbook.subjects.program.guest.take_over import HOOKED
from tests.wire.documented_table import DocumentedTable

from .catalog import FRAMEWORKS, TRIED
from .standin import Recorded, answering

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
SITE = ROOT / "src/offbook/subjects/program/guest/site"
BY_NAME = {each.name: each for each in TRIED if (PROGRAMS / f"with_{each.name}.py").exists()}


def run(python: Path, program: Path, recorded: Recorded, folder: Path, **variables: str) -> tuple[Any, list[Any]]:
    """Run a program; returns what it printed, and the calls of tools that ran for real."""
    ledger = folder / "ledger"
    ledger.write_text("")
    with answering(recorded) as url:
        environment = (
            os.environ | {"OFFBOOK_TOOLS_URL": url, "PYTHONPATH": str(SITE), "LEDGER": str(ledger)} | variables
        )
        command = [python, program]
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.splitlines()[-1]), [json.loads(line) for line in ledger.read_text().splitlines()]


def in_order(calls: list[Any]) -> list[Any]:
    return sorted(calls, key=json.dumps)


IN_PROCESS = ("fastmcp", "mcp1", "mcp2")
"""Programs that call the tools of a server by a client of the same process."""


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        *((name, {}) for name in BY_NAME),
        *(pytest.param(name, {"OFFBOOK_MCP_CONFIG": "mcp.json"}, id=f"{name} with --mcp") for name in IN_PROCESS),
    ],
)
def test_tools_are_recorded_once_and_replayed_without_running(
    name: str, variables: dict[str, str], tmp_path: Path
) -> None:
    framework = BY_NAME[name]
    python, program = framework.python, PROGRAMS / f"with_{name}.py"
    if not framework.is_installed:
        pytest.skip(f"{framework.package} is not installed: make works-with")
    recorded = Recorded()
    printed, ran = run(python, program, recorded, tmp_path, **variables)
    assert [note for note in recorded.notes if "problem" in note] == []
    assert framework.package in {note.get("framework") for note in recorded.notes}
    assert in_order([[call["tool"], call["arguments"]] for call in recorded.calls]) == in_order(ran)
    assert len(ran) > 2

    recorded.is_replayed = True
    printed_again, ran_again = run(python, program, recorded, tmp_path, **variables)
    assert recorded.unanswered == []
    assert ran_again == []
    assert printed_again == printed
    assert all(call.get("is_used") for call in recorded.calls)


def run_with_framework(folder: Path, module: str, source: str, program: str) -> tuple[Any, Recorded]:
    """Run a program with a framework that is only a module; returns what it printed and what was recorded."""
    path = folder.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for package in path.relative_to(folder).parents[:-1]:
        (folder / package / "__init__.py").touch()  # a package, and not one that the environment may have
    path.write_text(dedent(source))
    (folder / "program.py").write_text(dedent(program))
    recorded = Recorded()
    printed, _ = run(Path(sys.executable), folder / "program.py", recorded, folder)
    return printed, recorded


def test_a_framework_of_an_unknown_shape_is_noted_and_left_alone(tmp_path: Path) -> None:
    printed, recorded = run_with_framework(
        tmp_path,
        "smolagents.tools",
        """
        class Tool:
            pass

        def tool(fn):
            return fn
        """,
        """
        from smolagents.tools import tool

        @tool
        def refund(order):
            return order

        print(refund(3))
        """,
    )
    assert (printed, recorded.calls) == (3, [])
    problem = "TypeError: tool has no parameter tool_function"
    assert recorded.notes == [{"framework": "smolagents", "version": "", "problem": problem}]


def test_a_tool_that_cannot_be_taken_over_is_noted_and_runs(tmp_path: Path) -> None:
    printed, recorded = run_with_framework(
        tmp_path,
        "dspy",
        """
        class Tool:
            def __init__(self, func, name=None):
                self.func = func
        """,
        """
        from dspy import Tool

        def stream(order):
            yield order

        print(list(Tool(stream, "look").func(3)))
        """,
    )
    assert (printed, recorded.calls) == ([3], [])
    problem = "__main__:stream is a generator, or no function"
    assert {"tool": "look", "problem": problem} in recorded.notes


def test_the_hooked_modules_are_those_that_can_be_taken_over() -> None:
    assert set(HOOKED) == guest.FRAMEWORKS.keys()


@pytest.mark.parametrize("module", HOOKED)
def test_each_framework_without_what_is_hooked_is_noted_when_it_is_loaded(module: str, tmp_path: Path) -> None:
    program = f"import importlib\nimportlib.import_module({module!r})\nprint(1)\n"
    _, recorded = run_with_framework(tmp_path, module, "", program)
    (note,) = recorded.notes
    assert note["framework"] == guest.FRAMEWORKS[module][0]
    assert note["problem"].startswith("AttributeError")


def test_every_hooked_package_is_in_the_table() -> None:
    packages = {package for package, _ in guest.FRAMEWORKS.values()}
    assert packages == {each.package for each in FRAMEWORKS}


def test_the_page_names_the_frameworks_and_versions_that_are_tried() -> None:
    columns = DocumentedTable("wire/tools.md", "## Frameworks").read()
    assert columns["package"] == {each.title: each.package for each in FRAMEWORKS}
    assert columns["version tested"] == {each.title: each.version for each in FRAMEWORKS}
