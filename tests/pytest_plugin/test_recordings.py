"""Where the recordings of tests are, and which files and entries no test used."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.pytest_plugin.recordings import default_recording, file_name, resolve_recording
from offbook.recording.stores.locate import open_store
from tests.pytest_plugin.conftest import printed_output

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    greet(offbook)
"""


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("test_greets", "test_greets"),
        ("TestShop.test_greets", "TestShop.test_greets"),
        ("test_greets[gpt-4o]", "test_greets-gpt-4o"),
        ("test_greets[two words]", "test_greets-two-words"),
        ("test_greets[a/b]", "test_greets-a-b-1befc7"),
    ],
)
def test_a_recording_is_beside_its_test_under_a_name_fit_for_files(name, file):
    assert default_recording(Path("/tests/test_it.py"), name) == Path(f"/tests/recordings/test_it/{file}.json")


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_name_is_fit_for_a_file_and_unlike_others(one, other):
    names = [file_name(f"test_x[{each}]") for each in (one, other)]
    assert all(name.isascii() and not set(name) & set('/\\:*?"<>| \n') and len(name) < 120 for name in names)
    if one.replace(" ", "-") != other.replace(" ", "-"):
        assert names[0] != names[1]


def test_a_marker_names_a_recording_relative_to_the_folder_of_the_test():
    folder = Path("/tests")
    assert resolve_recording("x.json", folder) == "/tests/x.json"
    assert resolve_recording("/elsewhere/x.json", folder) == "/elsewhere/x.json"
    assert resolve_recording("sqlite:///runs/x.db", folder) == "sqlite:////tests/runs/x.db"


def test_parametrised_tests_and_methods_have_recordings_of_their_own(project):
    project.test(
        """
class TestShop:
    @pytest.mark.parametrize("name", ["Ada", "Eve"])
    def test_greets(self, offbook, name):
        offbook.live(Echo)
        assert greet(offbook, name) == f"Hello {name}"
""",
        path="shop/test_shop.py",
    )
    project.record().assert_outcomes(passed=2)
    folder = project.folder / "shop/recordings/test_shop"
    assert sorted(file.name for file in folder.iterdir()) == [
        "TestShop.test_greets-Ada.json",
        "TestShop.test_greets-Eve.json",
    ]
    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize("recording", ["x.json", "sqlite:///runs/x.db"])
def test_a_marked_recording_is_used_wherever_it_is(project, recording):
    project.test(f"pytestmark = pytest.mark.offbook(recording={recording!r})\n{GREETS}")
    project.record().assert_outcomes(passed=1)
    assert (project.folder / recording.rpartition(":///")[2]).is_file()
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "1 call served" in printed_output(result)


def test_tests_may_share_a_recording_from_the_first_time_on(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    project.test(mark + GREETS + GREETS.replace("test_greets", "test_again").replace("live(Echo)", "live(Echo())"))
    project.record().assert_outcomes(passed=2)
    assert len(json.loads((project.folder / "shared.json").read_text())["greet"]) == 2
    project.run().assert_outcomes(passed=2)


USES_ONE_ENTRY = """
def test_greets(offbook):
    greet(offbook)
"""
STALE = '{"_version": 2, "greet": {"content": "Hello"}, "farewell": [{"content": "Bye"}, {"content": "Bye!"}]}'


@pytest.fixture
def stale(project):
    """A project with a test that leaves two entries of its recording."""
    project.test(USES_ONE_ENTRY)
    project.write("recordings/test_it/test_greets.json", STALE)
    return project


def test_entries_left_unused_are_reported_at_the_end(stale):
    result = stale.run()
    result.assert_outcomes(passed=1)
    assert "not used in recordings/test_it/test_greets.json: farewell[0], farewell[1]" in printed_output(result)


def test_of_a_failed_test_nothing_is_reported_as_unused(stale):
    stale.test(USES_ONE_ENTRY + "    assert False\n")
    result = stale.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "not used" not in printed_output(result)


@pytest.mark.parametrize(
    ("mark", "option"), [("", "--offbook-strict-unused"), ('@pytest.mark.offbook(unused="error")', "")]
)
def test_entries_left_unused_fail_the_test_if_asked_for(stale, mark, option):
    stale.test(mark + USES_ONE_ENTRY)
    result = stale.run(*filter(None, [option]))
    result.assert_outcomes(failed=1)
    assert "2 entries not used: farewell[0], farewell[1]" in printed_output(result)
    assert "Traceback" not in printed_output(result)


def test_a_test_that_uses_everything_passes_strictly(project):
    project.test(USES_ONE_ENTRY)
    project.write("recordings/test_it/test_greets.json", '{"_version": 2, "greet": {"content": "Hello"}}')
    project.run("--offbook-strict-unused").assert_outcomes(passed=1)


@pytest.fixture
def leftover(project):
    """A project with a recording whose test is gone, one whose test is skipped, and files that are none of ours."""
    project.test(USES_ONE_ENTRY + "\n@pytest.mark.skip\ndef test_skipped(offbook):\n    pass\n")
    for path in ("recordings/test_it/test_greets.json", "recordings/test_it/test_skipped.json"):
        project.write(path, '{"_version": 2, "greet": {"content": "Hello"}}')
    project.write("shop/recordings/test_shop/test_gone.json", "{}")
    project.write("node_modules/recordings/x.json", "{}")
    project.write("data/x.json", "{}")
    return project


def unused(result):
    return [line.removeprefix("no test used ") for line in result.outlines if line.startswith("no test used ")]


def test_recordings_that_no_test_used_are_listed_if_asked_for(leftover):
    assert unused(leftover.run("--offbook-report-unused")) == ["shop/recordings/test_shop/test_gone.json"]
    assert unused(leftover.run()) == []


@pytest.mark.parametrize("some", [["test_it.py"], ["-k", "greets"], ["--deselect", "test_it.py::test_skipped"]])
def test_recordings_are_not_listed_where_only_some_tests_ran(leftover, some):
    result = leftover.run("--offbook-report-unused", *some)
    assert "1 call served" in printed_output(result)
    assert unused(result) == []


def test_recordings_are_not_listed_where_the_run_was_cut_short(leftover):
    leftover.test("def test_bad():\n    assert False\n" + USES_ONE_ENTRY)
    assert unused(leftover.run("--offbook-report-unused", "-x")) == []
    leftover.test("def test_bad():\n    raise KeyboardInterrupt\n" + USES_ONE_ENTRY)
    assert unused(leftover.run("--offbook-report-unused")) == []


@pytest.mark.parametrize("mode", ["all", "fresh", "append"])
def test_a_call_that_fails_costs_no_recorded_answer_even_if_its_test_swallows_it(project, mode):
    answering = "from model import Echo, greet\n\ndef test_it(offbook):\n    offbook.live(Echo())\n    greet(offbook)\n"
    failing = (
        "from model import Echo, greet\nfrom offbook import ProviderError\n\n"
        "class Down(Echo):\n    async def send(self, request):\n"
        "        raise ProviderError('down', status_code=500)\n\n"
        "def test_it(offbook):\n    offbook.live(Down())\n"
        "    try:\n        greet(offbook)\n    except ProviderError:\n        pass\n"
    )
    project.test(answering)
    project.run("--offbook-record=once").assert_outcomes(passed=1)
    project.test(failing)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=1)
    recorded = open_store(project.folder / "recordings/test_it/test_it.json").load()
    assert recorded.exchanges("greet")[0].content == "Hello Ada"
    assert mode == "append" or len(recorded.exchanges("greet")) == 1
