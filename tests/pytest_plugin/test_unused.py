"""Entries, and whole recordings, that no test used."""

import pytest

from tests.pytest_plugin.conftest import told

GREETS = """
def test_greets(offbook):
    greet(offbook)
"""
STALE = '{"_version": 2, "greet": {"content": "Hello"}, "farewell": [{"content": "Bye"}, {"content": "Bye!"}]}'


@pytest.fixture
def stale(project):
    """A project with a test that leaves two entries of its recording."""
    project.test(GREETS)
    project.write("recordings/test_it/test_greets.json", STALE)
    return project


def test_entries_left_unused_are_told_at_the_end(stale):
    result = stale.run()
    result.assert_outcomes(passed=1)
    assert "not used in recordings/test_it/test_greets.json: farewell[0], farewell[1]" in told(result)


def test_of_a_failed_test_nothing_is_told_to_be_unused(stale):
    stale.test(GREETS + "    assert False\n")
    result = stale.run("--offbook-strict-unused")
    result.assert_outcomes(failed=1)
    assert "not used" not in told(result)


@pytest.mark.parametrize(
    ("mark", "option"), [("", "--offbook-strict-unused"), ('@pytest.mark.offbook(unused="error")', "")]
)
def test_entries_left_unused_fail_the_test_if_asked_for(stale, mark, option):
    stale.test(mark + GREETS)
    result = stale.run(*filter(None, [option]))
    result.assert_outcomes(failed=1)
    assert "2 entries not used: farewell[0], farewell[1]" in told(result)
    assert "Traceback" not in told(result)


def test_a_test_that_uses_everything_passes_strictly(project):
    project.test(GREETS)
    project.write("recordings/test_it/test_greets.json", '{"_version": 2, "greet": {"content": "Hello"}}')
    project.run("--offbook-strict-unused").assert_outcomes(passed=1)


@pytest.fixture
def leftover(project):
    """A project with a recording whose test is gone, one whose test is skipped, and files that are none of ours."""
    project.test(GREETS + "\n@pytest.mark.skip\ndef test_skipped(offbook):\n    pass\n")
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
    assert "1 call served" in told(result)
    assert unused(result) == []


def test_recordings_are_not_listed_where_the_run_was_cut_short(leftover):
    leftover.test("def test_bad():\n    assert False\n" + GREETS)
    assert unused(leftover.run("--offbook-report-unused", "-x")) == []
    leftover.test("def test_bad():\n    raise KeyboardInterrupt\n" + GREETS)
    assert unused(leftover.run_apart("--offbook-report-unused")) == []
