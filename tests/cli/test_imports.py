"""What a command imports: what it needs, and nothing that makes it start slowly."""

import json
import subprocess
import sys

import pytest

from offbook.cli.app import MainGroup, RecordingGroup
from tests.cli import flows

RUN_EACH = """
import json, os, sys
from offbook.cli.main import main

for name, arguments in json.loads(sys.argv[1]).items():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["offbook", *arguments]
        try:
            main()
        except BaseException as end:
            code = getattr(end, "code", repr(end))
        with os.fdopen(writing, "w") as pipe:
            json.dump({"code": code, "modules": sorted(sys.modules)}, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        print(json.dumps([name, json.load(pipe)]), flush=True)
    os.wait()
"""
"""Runs each command in a fork of a process that has imported the command line alone."""

FOREIGN = {"httpx", "httpx2", "jsonschema", "prompt_toolkit", "starlette", "uvicorn"}
TESTING = {"offbook.config", "offbook.explore", "offbook.scenarios", "offbook.subjects", "offbook.pytest_plugin"}
PANELS = {"rich.console", "rich.panel", "typer.rich_utils"}
ALWAYS = FOREIGN | TESTING | PANELS | {"offbook.wire"}
LIGHT = ALWAYS | {"asyncio", "offbook.agent.runner", "offbook.gateway", "offbook.workflow", "pydantic", "sqlite3"}
FILES = ALWAYS | {"asyncio", "offbook.agent.runner", "offbook.pipeline", "pydantic", "sqlite3"}
RUNS = ALWAYS | {"offbook.agent.rescue.scan", "pydantic", "sqlite3"}
REPLAYS = RUNS | {"offbook.providers.http", "offbook.recording.match.mismatch", "offbook.session.recording_provider"}

COMMANDS = {
    "help": (["--help"], LIGHT | {"msgspec", "orjson", "offbook.cli.options"}, 0),
    "recording help": (["recording", "--help"], LIGHT | {"msgspec", "orjson", "offbook.cli.options"}, 0),
    "recording show": (["recording", "show", "run.json"], LIGHT, 0),
    "recording check": (["recording", "check", "run.json"], LIGHT, 0),
    "recording diff": (["recording", "diff", "run.json", "run.json"], LIGHT, 0),
    "init": (["init", "project"], LIGHT, 0),
    "runs": (["runs"], ALWAYS | {"offbook.agent.runner", "sqlite3"}, 0),
    "validate": (["validate", "flow.yaml"], FILES, 0),
    "schema": (["schema", "workflow"], FILES - {"pydantic"}, 0),
    "replay": (["replay", "flow.yaml", "--recording", "run.json"], REPLAYS, 0),
    "run": (["run", "flow.yaml", "--mock-responses", "run.json"], RUNS, 0),
    "exec": (
        ["exec", "--replay", "run.json", "-o", "time_limit=60", "-o", "latency_model=constant", "--", "true"],
        TESTING | {"jsonschema", "offbook.workflow", "pydantic", "uvicorn"},
        3,
    ),
    "prompts": (["prompts"], FOREIGN | PANELS | {"offbook.subjects", "offbook.wire"}, 0),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The modules that each command imports, by its name."""
    folder = tmp_path_factory.mktemp("imports")
    (folder / "flow.yaml").write_text(flows.GREET)
    (folder / "run.json").write_text(flows.recording(flows.ANSWERS))
    lines = {name: arguments for name, (arguments, _, _) in COMMANDS.items()}
    script = [sys.executable, "-c", RUN_EACH, json.dumps(lines)]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(imported, name):
    _, unwanted, code = COMMANDS[name]
    assert imported[name]["code"] == code
    assert sorted(unwanted & set(imported[name]["modules"])) == []


MOST_MODULES = {"help": 165, "validate": 235, "recording show": 251, "replay": 379}
"""How many modules a command may import: with a little room above what it needs."""


@pytest.mark.parametrize("name", MOST_MODULES)
def test_a_command_imports_few_modules(imported, name):
    assert len(imported[name]["modules"]) <= MOST_MODULES[name]


def test_the_module_of_another_command_is_not_imported(imported):
    modules = {name for name in imported["replay"]["modules"] if name.startswith("offbook.cli.commands.")}
    assert modules == {"offbook.cli.commands.replay"}


@pytest.mark.parametrize("group", [MainGroup, RecordingGroup])
def test_the_listed_help_is_the_first_line_of_the_command(group):
    for name, command in group.table.items():
        assert command.load(name).help.splitlines()[0] == command.help
        assert len(command.help) <= 63  # what a line of 80 columns has room for
