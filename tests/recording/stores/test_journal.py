"""The journal beside a JSON recording."""

import fcntl
import os

import pytest

from offbook.recording.stores.journal import Journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.json.journal"


@pytest.fixture
def open_journal(path):
    """Opens journals at the path, and closes them after the test."""
    opened = []

    def open_journal(**options):
        opened.append(Journal(path, beside=path.with_name("run.json"), **options))
        return opened[-1]

    yield open_journal
    for journal in opened:
        journal.close()


def test_nothing_is_made_before_the_first_line(open_journal, path):
    open_journal()
    assert not path.exists()


def test_each_line_stands_behind_the_one_before_whoever_wrote_it(open_journal, path):
    one, other = open_journal(), open_journal()
    one.append(b"1")
    other.append(b"2")
    one.append(b"3")
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_line_after_a_torn_one_stands_by_itself(open_journal, path):
    path.write_bytes(b"whole\nto")
    journal = open_journal()
    journal.append(b"1")
    assert path.read_bytes() == b"whole\nto\n1\n"
    with path.open("ab") as file:
        file.write(b"torn aga")
    journal.append(b"2")
    journal.append(b"3")
    assert path.read_bytes() == b"whole\nto\n1\ntorn aga\n2\n3\n"


def test_a_removed_journal_is_made_anew_by_who_appends_next(open_journal, path):
    one, other = open_journal(), open_journal()
    one.append(b"1")
    other.append(b"2")
    with one.locked():
        assert one.read_locked() == b"1\n2\n"
        one.remove_locked()
    assert not path.exists()
    other.append(b"3")
    one.append(b"4")
    assert path.read_bytes() == b"3\n4\n"


def test_a_closed_journal_opens_again_when_needed(open_journal, path):
    journal = open_journal()
    journal.append(b"1")
    journal.close()
    journal.close()
    journal.append(b"2")
    assert path.read_bytes() == b"1\n2\n"


def test_one_who_does_not_wait_is_told_that_another_has_the_lock(open_journal):
    one, other = open_journal(), open_journal()
    with one.locked(), pytest.raises(BlockingIOError), other.locked(wait=False):
        pass
    with other.locked(wait=False):
        other.write_locked(b"1")
        assert other.read_locked() == b"1\n"


def test_who_only_reads_makes_nothing_and_may_read_beside_another(open_journal, path):
    one, other = open_journal(read_only=True), open_journal(read_only=True)
    with pytest.raises(FileNotFoundError), one.locked():
        pass
    assert not path.exists()
    open_journal().append(b"1")
    with one.locked(), other.locked(wait=False):
        assert one.read_locked() == other.read_locked() == b"1\n"
        with pytest.raises(BlockingIOError), open_journal().locked(wait=False):
            pass


def test_the_lock_is_let_go_of_whatever_happens_under_it(open_journal, path):
    journal = open_journal()
    with pytest.raises(ZeroDivisionError), journal.locked():
        raise ZeroDivisionError
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_line_of_many_megabytes_is_kept_whole(open_journal):
    journal, line = open_journal(), b"x" * 4_000_000
    journal.append(line)
    journal.append(b"1")
    with journal.locked():
        assert journal.read_locked() == line + b"\n1\n"


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o444, 0o644)])
def test_a_journal_is_as_readable_as_the_file_it_stands_beside(open_journal, path, mode, expected):
    path.with_name("run.json").write_bytes(b"{}")
    path.with_name("run.json").chmod(mode)
    before = os.umask(0o022)
    try:
        open_journal().append(b"1")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == expected
