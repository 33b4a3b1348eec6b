"""What people install: the wheel without the source tree, the hook of pre-commit, the image, and the skill."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
pytestmark = pytest.mark.timeout(600)
SCRIPTS = Path(sys.executable).parent
TREE = ["src", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"]


def run(*command, folder, environment=ENVIRONMENT):
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is packed, so that nothing is built into the source tree."""
    folder = tmp_path_factory.mktemp("tree")
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def wheel_environment(tree, tmp_path_factory):
    """A new environment with the built wheel, and nothing of ours beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), ".", folder=tree
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("offbook-*.whl")
    run(sys.executable, "-m", "venv", "venv", folder=folder).check_returncode()
    python = folder / "venv/bin/python"
    installed = run(python, "-m", "pip", "install", "--quiet", str(wheel), folder=folder)
    assert installed.returncode == 0, installed.stderr
    return ENVIRONMENT | {"PATH": f"{folder / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"}


def test_the_wheel_runs_the_demo_and_a_new_project(wheel_environment, tmp_path):
    demo = run("offbook", "demo", folder=tmp_path, environment=wheel_environment)
    assert demo.returncode == 0, demo.stderr
    assert (tmp_path / "report.html").exists()
    (start,) = re.findall(r"^(offbook init .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    started = run("bash", "-ec", start, folder=tmp_path, environment=wheel_environment)
    assert started.returncode == 0, started.stdout + started.stderr
    assert "passed" in started.stdout


def test_pre_commit_refuses_a_recording_with_a_secret(tree, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    repository = tmp_path / "hooks"
    shutil.copytree(tree, repository)
    project = tmp_path / "project"
    (project / "tests/recordings").mkdir(parents=True)
    (project / "tests/recordings/good.json").write_text('{"_version": 2, "greet": {"content": "Hello!"}}')
    (project / "other.json").write_text("[]")
    for folder in (repository, project):
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "files"]):
            run(*git, *command, folder=folder).check_returncode()
    environment = ENVIRONMENT | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    check = [sys.executable, "-m", "pre_commit", "try-repo", str(repository), "offbook-recording-check", "--all-files"]
    passed = run(*check, folder=project, environment=environment)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "Passed" in passed.stdout
    (project / "tests/recordings/leak.json").write_text('{"_version": 2, "a": {"content": "ghp_%s"}}' % ("aB3" * 12))
    run(*git, "add", "-A", folder=project).check_returncode()
    failed = run(*check, folder=project, environment=environment)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "leak.json" in failed.stdout


def test_the_dockerfile_has_no_lint():
    ran = run(SCRIPTS / "hadolint", "Dockerfile", folder=ROOT)
    assert ran.returncode == 0
    assert ran.stdout == ""


def test_the_image_is_made_of_what_it_copies():
    copied = re.findall(r"^COPY ((?!--from).+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = {name for line in copied for name in line.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert names == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in names)


SKILL = (ROOT / "skills/offbook/SKILL.md").read_text()


@pytest.mark.parametrize(
    "command", sorted({each for each in re.findall(r"`(offbook [^`]+)`", SKILL) if "COMMAND" not in each})
)
def test_the_skill_names_commands_and_options_that_exist(command):
    words = shlex.split(command.split(" -- ")[0])[1:]
    path = words[: 2 if words[0] in ("recording", "mcp") else 1]
    shown = run(SCRIPTS / "offbook", *path, "--help", folder=ROOT)
    assert shown.returncode == 0
    assert [word for word in words if word.startswith("--") and word not in shown.stdout] == []


def test_the_skill_has_the_fields_that_agents_look_for():
    fields = yaml.safe_load(SKILL.split("---")[1])
    assert fields["name"] == "offbook"
    assert len(fields["description"]) <= 1024
