"""Running the command in-process, and recordings for it to work on."""

import sys

import pytest

import understudy
from understudy import MockProvider, RecordingProvider
from understudy.cli.main import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `understudy …`: gives the exit code, what it printed, and what it complained of."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["understudy", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def record(tmp_path):
    """Record one call for each given answer: `record("run.json", greet="Hello!")`."""

    def record(name, *, asked="Hi", **answers):
        path = str(tmp_path / name) if "://" not in name else name
        responses = {step: {"content": content, "model": "demo"} for step, content in answers.items()}

        async def work():
            async with RecordingProvider(MockProvider(responses=responses), path) as recorder:
                for step in answers:
                    await recorder.complete([{"role": "user", "content": asked}], model="demo", step_id=step)

        understudy.run(work())
        return path

    return record
