"""The GitHub Action does what it says: its steps run here as a runner would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("action")]
EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which `python -m pip` installs elsewhere than into this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    constraints = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return os.environ | constraints | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def installed(environment, tmp_path_factory):
    """The same environment after the first step: offbook is installed from the tree of the action."""
    run_step("Install offbook", {"extras": "redis"}, environment, tmp_path_factory.mktemp("install")).check_returncode()
    return environment


@pytest.fixture
def project(tmp_path):
    offbook = Path(sys.executable).parent / "offbook"
    subprocess.run([offbook, "init", "refunds", "--sdk", "openai"], cwd=tmp_path, check=True)
    return tmp_path / "refunds"


def values_of(inputs):
    unknown = inputs.keys() - ACTION["inputs"].keys()
    assert not unknown
    given = {name: inputs.get(name, each.get("default", "")) for name, each in ACTION["inputs"].items()}
    return {"github.action_path": str(ROOT)} | {f"inputs.{name}": value for name, value in given.items()}


def run_step(name, inputs, environment, folder):
    """Run the step with this name, as `bash` does on a runner."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == name]
    values = values_of(inputs)
    fill = lambda text: EXPRESSION.sub(lambda found: values[found[1]], text)  # noqa: E731
    assert not EXPRESSION.search(step["run"]), "an input in a script could be run as a command"
    variables = {key: fill(value) for key, value in step["env"].items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder / fill(step.get("working-directory", ".")),
        env=environment | variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_commands_run_with_the_offbook_of_the_action(installed, project):
    inputs = {
        "run": "offbook recording show recordings/*.json > shown.txt\ncommand -v offbook",
        "recordings": "recordings/*.json",
    }
    assert "no problem" in run_step("Check the recordings", inputs, installed, project).stdout
    ran = run_step("Run", inputs, installed, project)
    assert ran.returncode == 0
    assert ran.stdout.startswith(installed["PATH"].split(os.pathsep)[0])
    assert "gpt" in (project / "shown.txt").read_text()


def test_the_first_command_that_fails_ends_the_step(installed, project):
    ran = run_step("Run", {"run": "offbook recording check missing.json | cat\ntouch after"}, installed, project)
    assert ran.returncode == 2
    assert not (project / "after").exists()


def test_commands_run_in_the_folder_that_is_given(installed, project):
    inputs = {"run": "ls", "working-directory": "recordings"}
    assert "json" in run_step("Run", inputs, installed, project).stdout


@pytest.mark.parametrize(
    ("pattern", "text", "says", "code"),
    [
        ("recordings/*.jsn", None, "no recording matches recordings/*.jsn", 2),
        ("recordings/$(touch pwned)", None, "no such recording", 2),
        ("recordings/leak.json", '{"_version": 2, "a": {"content": "ghp_%s"}}' % ("aB3" * 12), "secret", 1),
    ],
)
def test_recordings_that_are_missing_or_hold_a_secret_fail(installed, project, pattern, text, says, code):
    if text is not None:
        (project / "recordings/leak.json").write_text(text)
    ran = run_step("Check the recordings", {"run": "true", "recordings": pattern}, installed, project)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert says in ran.stdout + ran.stderr
    assert not (project / "pwned").exists()


def test_a_version_that_does_not_exist_is_said(environment, tmp_path):
    ran = run_step("Install offbook", {"version": "0.0.0.dev999"}, environment, tmp_path)
    assert ran.returncode != 0
    assert "offbook==0.0.0.dev999" in ran.stderr
