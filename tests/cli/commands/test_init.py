"""offbook init."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offbook.cli.commands.init import KINDS
from tests.every_case import EVERY_CASE, sampled

SDK_KINDS = sampled(["openai", "anthropic"])
SOME_CASES = () if EVERY_CASE else ("-k", "not always")
SETTINGS = Path(__file__).parents[3] / "pyproject.toml"
RUFF = [sys.executable, "-m", "ruff"]
AS_OURS = ["--no-cache", "--config", str(SETTINGS), "--config", 'src = ["."]', "."]
SDK_FILES = [
    *(".github/workflows/test.yml", ".gitignore", "README.md", "agent.py"),
    *("offbook.toml", "recordings/agent.json", "requirements.txt", "test_agent.py"),
]


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def finished(*command):
    """Run a command of a project, with the plugin of pytest that its user has."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_a_fresh_workflow_validates_replays_and_passes_its_tests_at_once(run, tmp_path, monkeypatch):
    assert run("init", tmp_path / "new", "--sdk", "yaml")[0] == 0
    monkeypatch.chdir(tmp_path / "new")
    assert run("validate", "flow.yaml")[0] == 0
    assert run("recording", "check", "recordings/flow.json")[0] == 0
    assert run("replay", "flow.yaml", "--recording", "recordings/flow.json", "--strict-unused")[0] == 0
    code, output = finished(sys.executable, "-m", "pytest", "-q")
    assert code == 0, output
    assert "2 passed" in output


def test_a_project_below_settings_of_pytest_has_its_own_unless_it_has_some_already(run, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--no-such-option'\n")
    assert run("init", tmp_path / "a" / "new", "--sdk", "yaml")[0] == 0
    monkeypatch.chdir(tmp_path / "a" / "new")
    code, output = finished(sys.executable, "-m", "pytest", "-q")
    assert code == 0, output
    assert "2 passed" in output
    assert run("init", tmp_path, "--sdk", "yaml")[0] == 0
    assert run("init", tmp_path / "node", "--sdk", "node")[0] == 0
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("pytest.ini")] == ["a/new/pytest.ini"]


def test_fresh_scenarios_pass_at_once(run, tmp_path, monkeypatch):
    assert run("init", tmp_path / "new", "--sdk", "scenario")[0] == 0
    monkeypatch.chdir(tmp_path / "new")
    code, out, _ = run("test", "--replay", "recordings/")
    assert code == 0
    assert "1 of 1 scenario passed" in out


@pytest.mark.parametrize("kind", SDK_KINDS)
def test_a_fresh_agent_passes_its_tests_at_once_without_a_key(run, tmp_path, monkeypatch, kind):
    assert run("init", tmp_path / "new", "--sdk", kind)[0] == 0
    assert files_in(tmp_path / "new") == SDK_FILES
    monkeypatch.chdir(tmp_path / "new")
    code, output = finished(sys.executable, "-m", "pytest", "-q", *SOME_CASES)
    assert code == 0, output
    assert "missed" in output
    assert "0 recorded live, 0 missed" in output


@pytest.mark.parametrize("kind", KINDS)
def test_every_recording_of_a_project_holds_no_secret_and_can_be_replayed(run, tmp_path, kind):
    assert run("init", tmp_path / "new", "--sdk", kind)[0] == 0
    recordings = [str(file) for file in (tmp_path / "new" / "recordings").iterdir()]
    assert recordings
    assert run("recording", "check", *recordings)[0] == 0
    requirements = (tmp_path / "new" / "requirements.txt").read_text()
    assert "<" not in requirements
    assert all(package in requirements for package in KINDS[kind].packages)


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_of_a_project_is_linted_and_formatted_as_ours(run, tmp_path, monkeypatch, kind):
    assert run("init", tmp_path / "new", "--sdk", kind)[0] == 0
    assert [name for name in files_in(tmp_path / "new") if name.endswith("-tpl")] == []
    monkeypatch.chdir(tmp_path / "new")
    code, output = finished(*RUFF, "check", "--ignore", "ANN,INP,T20", *AS_OURS)
    assert code == 0, output
    code, output = finished(*RUFF, "format", "--check", *AS_OURS)
    assert code == 0, output


def test_the_files_are_listed_with_what_to_do_next(run, tmp_path):
    code, out, err = run("init", tmp_path / "my agent")
    assert code == 0
    assert err == ""
    assert files_in(tmp_path / "my agent") == SDK_FILES
    assert all(f"  {name}\n" in out for name in SDK_FILES)
    assert f"cd '{tmp_path}/my agent'" in out
    assert "python -m pytest" in out


def test_without_a_folder_nothing_is_written(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("init")
    assert code == 2
    assert "offbook init my-agent" in err
    assert files_in(tmp_path) == []
    assert run("init", ".")[0] == 0
    assert files_in(tmp_path) == SDK_FILES


def test_a_kind_that_there_is_not_is_bad_input_with_the_nearest_one(run, tmp_path):
    code, _, err = run("init", tmp_path / "new", "--sdk", "opnai")
    assert code == 2
    assert "did you mean 'openai'?" in err
    assert not (tmp_path / "new").exists()


def test_an_editable_install_stays_editable(run, tmp_path):
    assert run("init", tmp_path / "new")[0] == 0
    assert "--editable file://" in (tmp_path / "new" / "requirements.txt").read_text()


def test_files_that_are_there_are_listed_and_nothing_is_written(run, tmp_path):
    (tmp_path / "recordings").mkdir()
    for name in ("agent.py", "recordings/agent.json"):
        (tmp_path / name).write_text("mine")
    code, _, err = run("init", tmp_path)
    assert code == 2
    assert "already there: agent.py, recordings/agent.json" in err
    assert "--force" in err
    assert files_in(tmp_path) == ["agent.py", "recordings/agent.json"]
    assert (tmp_path / "agent.py").read_text() == "mine"


def test_force_overwrites_what_is_there_and_leaves_the_rest(run, tmp_path):
    for name in ("agent.py", "mine.py"):
        (tmp_path / name).write_text("mine")
    assert run("init", tmp_path, "--force")[0] == 0
    assert "refund" in (tmp_path / "agent.py").read_text()
    assert (tmp_path / "mine.py").read_text() == "mine"


@pytest.mark.parametrize("options", [[], ["--force"]])
@pytest.mark.parametrize("name", ["recordings", "agent.py"])
def test_a_link_that_leads_out_of_the_folder_is_refused(run, tmp_path, name, options):
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / name).symlink_to(tmp_path / "outside" / name)
    code, _, err = run("init", tmp_path / "inside", *options)
    assert code == 2
    assert "out of the folder" in err
    assert not list((tmp_path / "outside").iterdir())
    assert files_in(tmp_path / "inside") in ([], [name])


def test_a_file_in_the_place_of_the_folder_is_bad_input(run, tmp_path):
    (tmp_path / "taken").write_text("mine")
    code, _, err = run("init", tmp_path / "taken")
    assert code == 2
    assert "not a folder" in err


def test_a_file_in_the_place_of_a_folder_inside_is_bad_input(run, tmp_path):
    (tmp_path / "recordings").write_text("mine")
    code, _, err = run("init", tmp_path)
    assert code == 2
    assert "cannot write recordings/agent.json" in err
