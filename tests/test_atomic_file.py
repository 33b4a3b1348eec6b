"""A file is replaced as a whole, with the permissions that were asked for."""

import stat
from pathlib import Path

import pytest

from offbook.atomic_file import next_path, replace_file, write_next


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    replace_file(path, b"old")
    replace_file(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_crash_left_behind_lends_neither_its_content_nor_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    next_path(path).write_bytes(b"a longer, torn content")
    next_path(path).chmod(0o644)
    following = write_next(path, b"new", mode=0o600, durable=True)
    assert (following.read_bytes(), stat.S_IMODE(following.stat().st_mode)) == (b"new", 0o600)
    assert not path.exists()


def test_the_old_file_stays_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    next_path(path).mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
