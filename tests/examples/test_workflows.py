"""Every workflow of the examples runs, offline, on the recording that is committed with it."""

import json
from pathlib import Path

import pytest

from offbook import RecordingMismatchError, run
from offbook.pipeline import Replay, open_pipeline
from offbook.workflow import WorkflowEngine, load_workflow, parse_workflow

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "examples" / "workflows"
RECORDINGS = WORKFLOWS / "recordings"
PACKAGE = ROOT / "src" / "offbook" / "cli"
RESULTS = {
    "chain": ("title", "Hot Water, Long Nights"),
    "fan_out": ("verdict", "Open it, and sell coffee too."),
    "loop": ("labels", ["defect", "delivery"]),
    "router": ("letter", "Dear customer,\nA new kettle is on its way.\nYours, Tea & Co."),
    "subworkflow": ("card", "* Good morning * Guten Morgen * Bonjour *"),
    "support": ("response", "Choose 'Forgot password' and use the link within an hour."),
    "tool_loop": ("advice", "In Bergen, where it rains. In Oslo the sun shines."),
}


def replayed(name, definition=None):
    """The result of a strict replay, and the unused entries of its recording."""
    definition = definition or load_workflow(WORKFLOWS / f"{name}.yaml")

    async def work():
        async with open_pipeline(definition.config, Replay(str(RECORDINGS / f"{name}.json"))) as session:
            engine = WorkflowEngine(definition, session.gateway, wrap_tools=session.wrap_tools, folder=WORKFLOWS)
            return await engine.run(), session.unused()

    return run(work(), virtual_time=True)


def test_every_workflow_has_a_recording():
    names = {path.stem for path in WORKFLOWS.glob("*.yaml")}
    assert names == RESULTS.keys()
    assert {path.stem for path in RECORDINGS.iterdir()} == RESULTS.keys()


@pytest.mark.parametrize("name", RESULTS)
def test_a_workflow_replays_strictly_and_uses_all_of_its_recording(name):
    result, unused = replayed(name)
    key, value = RESULTS[name]
    assert result.succeeded
    assert result.state[key] == value
    assert unused == []


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_workflow_begins_with_what_it_shows_and_the_command_that_runs_it(path):
    comment = path.read_text().partition("name: ")[0]
    assert all(line.startswith("#") for line in comment.splitlines())
    words = next(line for line in comment.splitlines() if "offbook re" in line or "offbook run" in line).split()
    assert words[3] == str(path.relative_to(ROOT))
    assert all((ROOT / word).exists() for word in words if word.startswith("examples/"))


def exchanges(path):
    """A recording, without the version of the package that made it. Parallel steps end in any order."""
    document = json.loads(path.read_text())
    assert list(document.pop("_meta")) == ["created_by"]
    return document


def test_recording_anew_gives_the_same(script, tmp_path):
    script("make_recordings.py", folder := tmp_path / "recordings")
    of_package = [PACKAGE / "templates/yaml/recordings/flow.json", PACKAGE / "demo/recordings/refund.json"]
    committed = [*RECORDINGS.iterdir(), *of_package]
    anew = {path.name: exchanges(path) for path in folder.iterdir()}
    assert anew == {path.name: exchanges(path) for path in committed}


def test_an_example_whose_prompt_has_changed_is_refused():
    text = (WORKFLOWS / "chain.yaml").read_text().replace("List three facts", "List four facts")
    with pytest.raises(RecordingMismatchError, match="List four facts") as caught:
        replayed("chain", parse_workflow(text))
    assert caught.value.kind == "drifted"


@pytest.mark.parametrize("name", ["support.yaml", "support_tools.py", "recordings/support.json"])
def test_the_demo_plays_the_support_example_as_it_is(name):
    assert (PACKAGE / "demo" / name).read_bytes() == (WORKFLOWS / name).read_bytes()
