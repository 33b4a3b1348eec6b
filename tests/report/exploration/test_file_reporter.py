"""Reports of explorations in files, from their first moment to their end."""

import json

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.report.exploration import exploration_reporter_of
from tests.report.exploration import explorations


def reporter_at(path):
    return exploration_reporter_of(f"json={path}", reproduce=explorations.reproduce)


def begun(exploration):
    return replace(exploration, explored=(), left=0)


def told_in(path):
    told = json.loads(path.read_bytes())
    return len(told["explored"]), told["is_complete"]


def test_the_file_is_there_when_the_exploration_begins_and_nothing_of_an_earlier_one(tmp_path):
    path = tmp_path / "e.json"
    path.write_text("old")
    reporter_at(path).begin(begun(explorations.naive()), 6)
    assert told_in(path) == (0, False)


def test_an_exploration_that_is_killed_leaves_at_least_half_of_what_had_ended(tmp_path):
    path = tmp_path / "e.json"
    exploration = explorations.large()
    reporter, written = reporter_at(path), set()
    reporter.begin(begun(exploration), 100)
    for ended, each in enumerate(exploration.explored[:100], 1):
        reporter.told(each)
        kept, is_complete = told_in(path)
        written.add(kept)
        assert kept * 2 >= ended
        assert not is_complete
    assert len(written) < 10


def test_the_whole_is_what_stays(tmp_path):
    path = tmp_path / "e.json"
    reporter = reporter_at(path)
    reporter.begin(begun(explorations.naive()), 6)
    reporter.finish(explorations.naive())
    assert told_in(path) == (6, True)


def test_what_was_cut_off_is_told_as_such(tmp_path):
    path = tmp_path / "e.json"
    reporter_at(path).finish(explorations.naive(), is_complete=False)
    assert told_in(path) == (6, False)


def test_a_path_that_cannot_be_written_is_found_when_the_exploration_begins(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Not a directory|File exists"):
        reporter_at(tmp_path / "file" / "e.json").begin(begun(explorations.naive()), 6)
