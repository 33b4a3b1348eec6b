"""Runs example scripts and `offbook` commands in this process, offline."""

import runpy
import sys
from pathlib import Path

import pytest

from offbook.cli.main import main
from offbook.config import import_from

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    """Unset the keys and base URLs of models, and keep the runs of workflows out of the tree."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OFFBOOK_RUNS_DIR", str(tmp_path / "runs"))


@pytest.fixture
def command(monkeypatch, capfd):
    """Run `offbook …` in a folder; returns the exit code, stdout and stderr, also of the programs it starts."""

    def command(*arguments, folder):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["offbook", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capfd.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    return command


@pytest.fixture
def script(monkeypatch, capfd):
    """Run an example as a script; returns its stdout."""

    def script(name, *arguments):
        path = str(EXAMPLES / name)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        with import_from([EXAMPLES]):
            runpy.run_path(path, run_name="__main__")
        return capfd.readouterr().out

    return script
