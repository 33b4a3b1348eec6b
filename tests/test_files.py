"""A file is replaced as a whole, with the permissions that were asked for."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from offbook import FaultPlan, InputError, load_workflow
from offbook.cli.parse import parse_state
from offbook.config.file import load_config
from offbook.files import next_path, open_output, read_file, read_regular, replace_file, write_next, write_output
from offbook.observe.json_lines import open_for_writing, read_events
from offbook.providers import PriceTable
from offbook.report.exploration.json_report import load_exploration
from offbook.report.reporter import write_report
from offbook.subjects.regression import load_regression


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
    assert following.read_bytes() == b"new"
    assert stat.S_IMODE(following.stat().st_mode) == 0o600
    assert not path.exists()


def test_the_old_file_stays_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    next_path(path).mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_nothing_is_written_through_a_link_in_the_place_of_the_next_content(tmp_path: Path) -> None:
    path, victim = tmp_path / "report.html", tmp_path / "victim"
    victim.write_bytes(b"precious")
    for plant in (next_path(path).symlink_to, next_path(path).hardlink_to):
        plant(victim)
        replace_file(path, b"new")
        assert victim.read_bytes() == b"precious"
        assert path.read_bytes() == b"new"


@pytest.mark.parametrize(
    "use",
    [
        read_file,
        read_regular,
        lambda path: replace_file(path, b""),
        lambda path: write_output(path, b""),
        FaultPlan.load,
        FaultPlan().save,
        PriceTable.load,
        load_workflow,
        load_config,
        load_regression,
        load_exploration,
        lambda path: parse_state({}, settings=[], file=str(path)),
        lambda path: list(read_events(path)),
        open_for_writing,
        lambda path: write_report(path, b""),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_an_error_at_once(tmp_path: Path, use: Callable[[Path], object]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises((OSError, InputError), match="pipe"):
        use(pipe)
    assert pipe.is_fifo()


def test_a_pipe_that_somebody_reads_and_a_device_may_be_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output(pipe, b"written")
        assert os.read(reader, 100) == b"written"
    finally:
        os.close(reader)
    write_output("/dev/null", b"written")


def test_a_pipe_that_a_shell_has_opened_may_be_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    try:
        assert read_file(f"/dev/fd/{reader}") == b"text"
    finally:
        os.close(reader)


def test_what_is_appended_comes_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    for append, text in ((False, b"lost"), (False, b"a"), (True, b"b")):
        with os.fdopen(open_output(path, append=append), "wb") as file:
            file.write(text)
    assert path.read_bytes() == b"ab"
