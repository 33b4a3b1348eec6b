"""The tutorials, followed word for word: every command with its output, every edit, for each SDK."""

import re
import shutil

import pytest

from offbook.view.library import RunLibrary
from tests.docs.test_pages import GATE, NODE_SDKS, TUTORIALS, empty_folder, run_examples
from tests.servers.foreign import skip_or_fail

__all__ = ["empty_folder"]


def skip_without_node(page):
    if page.stem == "node" and not (shutil.which("npm") and NODE_SDKS.exists()):
        skip_or_fail("needs Node and 'make node-sdks'", "NODE")


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed_to_its_end(page, capfd):
    skip_without_node(page)
    assert run_examples(page, capfd) > 10
    library = RunLibrary(["."])
    shown = [(run.id, run.kind) for run in library.listed(library.find())]
    assert sorted(shown) == [
        ("answers.json", "recording"),
        ("recordings/agent.json", "recording"),
        ("report-after.json", "exploration"),
        ("report-before.json", "exploration"),
    ]  # the page says what 'offbook view' lists


@pytest.mark.usefixtures("empty_folder")
def test_the_way_from_90_findings_to_a_gate_can_be_followed_to_its_end(capfd):
    assert run_examples(GATE, capfd) > 10


def test_tutorials_take_the_same_steps():
    python, node = (re.findall("^## [0-9].*", page.read_text(), re.MULTILINE) for page in TUTORIALS)
    assert python == node
