"""What becomes of recordings: by mode, and by whether the test passes."""

import json

import pytest

from tests.pytest_plugin.conftest import told

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    greet(offbook)
"""
SAYS_TWO = """
def test_greets(offbook):
    offbook.live(Echo)
    assert greet(offbook) == "old"
    assert greet(offbook, "Eve", step="second") == "Hello Eve"
"""
OLD = {"_version": 2, "greet": {"content": "old"}, "other": {"content": "kept"}}


@pytest.fixture
def recording(project):
    return project.write("recordings/test_it/test_greets.json", json.dumps(OLD))


def contents(file):
    """What is recorded, by key: a text, or a list of texts."""
    entries = {key: entry for key, entry in json.loads(file.read_text()).items() if not key.startswith("_")}
    return {
        key: [each["content"] for each in entry] if isinstance(entry, list) else entry["content"]
        for key, entry in entries.items()
    }


@pytest.mark.parametrize(
    ("mode", "text", "left"),
    [
        ("none", GREETS, {"greet": "old", "other": "kept"}),
        ("once", GREETS, {"greet": "old", "other": "kept"}),
        ("new", SAYS_TWO, {"greet": "old", "other": "kept", "second": "Hello Eve"}),
        ("append", GREETS, {"greet": ["old", "Hello Ada"], "other": "kept"}),
        ("all", GREETS, {"greet": "Hello Ada", "other": "kept"}),
        ("fresh", GREETS, {"greet": "Hello Ada"}),
    ],
)
def test_a_mode_says_what_is_asked_live_and_what_is_kept(project, recording, mode, text, left):
    project.test(text)
    project.run(f"--offbook-record={mode}").assert_outcomes(passed=1)
    assert contents(recording) == left


def test_what_a_recording_answers_while_others_are_recorded_is_counted(project, recording):
    project.test(SAYS_TWO)
    assert "1 call served from recordings, 1 recorded live, 0 missed" in told(project.run("--offbook-record=new"))


def test_a_marker_sets_the_mode_and_the_command_line_overrules_it(project, recording):
    project.test('pytestmark = pytest.mark.offbook(record="all")\n' + GREETS)
    project.run("--offbook-record=none").assert_outcomes(passed=1)
    assert contents(recording)["greet"] == "old"
    project.run().assert_outcomes(passed=1)
    assert contents(recording)["greet"] == "Hello Ada"


@pytest.mark.parametrize("mode", ["once", "new", "append", "all", "fresh"])
def test_what_a_failed_test_recorded_is_not_kept(project, mode):
    project.test(GREETS + "    assert False\n")
    result = project.run(f"--offbook-record={mode}")
    result.assert_outcomes(failed=1)
    assert project.recordings() == []
    assert "0 recorded live" in told(result)
    assert "1 call of failed tests not kept; --offbook-keep-failed keeps them" in told(result)


@pytest.mark.parametrize("mode", ["new", "append", "all", "fresh"])
def test_a_failed_test_leaves_a_recording_that_was_there_as_it_was(project, recording, mode):
    before = recording.read_bytes()
    project.test(GREETS + "    greet(offbook, 'Eve', step='second')\n    assert False\n")
    project.run(f"--offbook-record={mode}").assert_outcomes(failed=1)
    assert recording.read_bytes() == before
    assert project.recordings() == ["test_it/test_greets.json"]


def test_what_a_failed_test_recorded_is_kept_if_asked_for(project):
    project.test(GREETS + "    assert False\n")
    project.record("--offbook-keep-failed").assert_outcomes(failed=1)
    assert project.recordings() == ["test_it/test_greets.json"]


def test_a_test_that_fails_as_expected_or_whose_fixtures_fail_keeps_nothing(project):
    project.test(
        """
@pytest.mark.xfail(strict=True)
def test_known_bug(offbook):
    offbook.live(Echo)
    greet(offbook)
    assert False

@pytest.fixture
def broken(offbook):
    offbook.live(Echo)
    greet(offbook)
    raise RuntimeError("no database")

def test_never_runs(broken):
    pass
"""
    )
    project.record().assert_outcomes(xfailed=1, errors=1)
    assert project.recordings() == []


def test_recording_all_again_keeps_what_other_tests_of_the_same_run_recorded(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    project.test(mark + GREETS + GREETS.replace("test_greets", "test_again"))
    shared = project.write("shared.json", json.dumps(OLD))
    project.run("--offbook-record=all").assert_outcomes(passed=2)
    assert contents(shared) == {"greet": ["Hello Ada", "Hello Ada"], "other": "kept"}


def test_tests_that_share_a_recording_begin_it_afresh_once(project):
    mark = 'pytestmark = pytest.mark.offbook(recording="shared.json")\n'
    late = GREETS.replace("test_greets", "test_late").replace("greet(offbook)", "greet(offbook, 'Eve', step='late')")
    project.test(mark + GREETS + late + "\ndef test_asks_nothing(offbook):\n    offbook.provider\n")
    shared = project.write("shared.json", json.dumps(OLD | {"_tools": {"get": [{"result": "old"}]}}))
    for _ in range(2):
        project.run("--offbook-record=fresh").assert_outcomes(passed=3)
        assert contents(shared) == {"greet": "Hello Ada", "late": "Hello Eve"}
        assert "_tools" not in json.loads(shared.read_text())


def test_something_else_at_the_place_of_a_recording_is_refused(project):
    file = project.write("recordings/test_it/test_greets.json", "notes")
    project.test(GREETS)
    for mode in ("none", "new", "append"):
        result = project.run(f"--offbook-record={mode}")
        result.assert_outcomes(failed=1)
        assert "RecordingFormatError" in told(result)
    assert file.read_text() == "notes"
