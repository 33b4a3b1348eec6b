"""offbook init."""

import subprocess
import sys

import pytest

from offbook.cli.commands.init import FILES


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_a_fresh_project_validates_replays_and_passes_its_tests_at_once(run, tmp_path, monkeypatch):
    assert run("init", tmp_path / "new")[0] == 0
    monkeypatch.chdir(tmp_path / "new")
    assert run("validate", "flow.yaml")[0] == 0
    assert run("recording", "check", "recordings/flow.json")[0] == 0
    assert run("replay", "flow.yaml", "--recording", "recordings/flow.json", "--strict-unused")[0] == 0
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], capture_output=True, text=True, check=False)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_files_are_listed_with_what_to_do_next(run, tmp_path):
    code, out, err = run("init", tmp_path / "my agent")
    assert (code, err) == (0, "")
    assert files_in(tmp_path / "my agent") == sorted(FILES)
    assert all(f"  {name}\n" in out for name in FILES)
    assert f"cd '{tmp_path}/my agent'" in out
    assert "offbook replay flow.yaml --recording recordings/flow.json" in out


def test_without_a_folder_the_project_goes_where_one_is(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("init")
    assert code == 0
    assert files_in(tmp_path) == sorted(FILES)
    assert "cd " not in out


def test_files_that_are_there_are_listed_and_nothing_is_written(run, tmp_path):
    (tmp_path / "tests").mkdir()
    for name in ("tools.py", "tests/test_flow.py"):
        (tmp_path / name).write_text("mine")
    code, _, err = run("init", tmp_path)
    assert code == 2
    assert "already there: tools.py, tests/test_flow.py" in err
    assert "--force" in err
    assert files_in(tmp_path) == ["tests/test_flow.py", "tools.py"]
    assert (tmp_path / "tools.py").read_text() == "mine"


def test_force_overwrites_what_is_there_and_leaves_the_rest(run, tmp_path):
    for name in ("tools.py", "mine.py"):
        (tmp_path / name).write_text("mine")
    assert run("init", tmp_path, "--force")[0] == 0
    assert "search_docs" in (tmp_path / "tools.py").read_text()
    assert (tmp_path / "mine.py").read_text() == "mine"


@pytest.mark.parametrize("options", [[], ["--force"]])
@pytest.mark.parametrize("name", ["tests", "tools.py"])
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
    assert "cannot write recordings/flow.json" in err
