"""Running the command in-process, and recordings for it to work on."""

import sys

import pytest

import offbook
from offbook import MockProvider, RecordingProvider
from offbook.cli.main import main
from offbook.vendors import VENDORS
from tests.cli import flows


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `offbook …`: gives the exit code, what it printed, and what it complained of."""
    return lambda *arguments: run_captured(arguments, capsys, monkeypatch)


@pytest.fixture
def run_programs(capfd, monkeypatch):
    """Run `offbook …` like `run`, and capture also what the programs print that it starts."""
    return lambda *arguments: run_captured(arguments, capfd, monkeypatch)


def run_captured(arguments, capture, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["offbook", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0, *capture.readouterr()


@pytest.fixture(autouse=True)
def _runs_elsewhere(tmp_path_factory, monkeypatch):
    """Keep runs out of the folder that tests are run in."""
    monkeypatch.setenv("OFFBOOK_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))


@pytest.fixture
def record(tmp_path):
    """Record one call for each given answer: `record("run.json", greet="Hello!")`."""

    def record(name, *, question="Hi", **answers):
        path = str(tmp_path / name) if "://" not in name else name
        responses = {step: {"content": content, "model": "demo"} for step, content in answers.items()}

        async def work():
            async with RecordingProvider(MockProvider(responses=responses), path) as recorder:
                for step in answers:
                    await recorder.complete([{"role": "user", "content": question}], model="demo", step_id=step)

        offbook.run(work())
        return path

    return record


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the folder that the command runs in: `write("flow.yaml", text)`."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def greet(write):
    """The workflow `flow.yaml` of two model calls, and `run.json`, which answers them."""
    write("run.json", flows.recording(flows.ANSWERS))
    return write("flow.yaml", flows.GREET)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """No key and no address of a model's vendor is in the environment."""
    for vendor in VENDORS.values():
        for name in (*vendor.key_variables, *vendor.address_variables):
            monkeypatch.delenv(name, raising=False)
