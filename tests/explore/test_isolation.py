"""Forked processes: what they report, and how they are ended."""

import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from offbook.explore.isolation import CaseProcess, ForkedProcess, ProcessEnding, wait_for_any
from offbook.virtual_time import TimeReferences

REFERENCES = TimeReferences()


def forked(work, limit_s=30.0):
    return ForkedProcess(work, references=REFERENCES, limit_s=limit_s)


def ending_of(work, limit_s=30.0):
    process = forked(work, limit_s)
    wait_for_any([process])
    return process.ending


def test_a_process_reports_what_its_work_returns():
    assert ending_of(lambda: b"done").report == b"done"


def test_a_report_may_be_long_and_contain_anything():
    report = b"\0report\0" * 100_000
    assert ending_of(lambda: report).report == report


def test_a_process_without_a_report_has_an_exit_code():
    assert ending_of(lambda: os.kill(os.getpid(), signal.SIGKILL)) == ProcessEnding(exit_code=-9)


def test_an_error_that_nobody_reports_ends_the_process():
    def fail():
        raise ValueError

    assert ending_of(fail) == ProcessEnding(exit_code=1)


def test_a_late_process_is_killed():
    assert ending_of(signal.pause, limit_s=0.05) == ProcessEnding(was_late=True)


def test_a_process_can_be_killed_at_any_time_and_more_than_once():
    process = forked(signal.pause)
    assert not process.poll()
    process.kill()
    process.kill()
    assert process.poll()
    assert process.ending == ProcessEnding()


def test_the_first_of_several_is_waited_for():
    waiting, done = forked(signal.pause), forked(lambda: b"done")
    wait_for_any([waiting, done])
    assert waiting.ending is None
    assert done.ending.report == b"done"
    waiting.kill()


def test_only_the_process_of_a_case_is_one():
    assert CaseProcess.current is None
    assert ending_of(lambda: str(CaseProcess.current is not None).encode()).report == b"True"


def test_only_the_first_report_counts():
    def report_twice():
        threads = [threading.Thread(target=CaseProcess.current.report, args=[b"first"])]
        threads[0].start()
        threads[0].join()
        return b"second"

    assert ending_of(report_twice).report == b"first"


def test_the_alarm_of_a_process_can_report():
    def wait():
        CaseProcess.current.call_at(0.01, lambda: CaseProcess.current.report(b"late"))
        while True:
            signal.pause()

    assert ending_of(wait).report == b"late"


def test_a_pipe_that_its_process_closes_does_not_end_the_wait():
    def close_all():
        os.closerange(3, 65536)
        os.kill(os.getpid(), signal.SIGTERM)

    assert ending_of(close_all).exit_code == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_not_handled_as_this_process_handles_them(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        handlers = ending_of(lambda: str(signal.getsignal(number) is signal.SIG_IGN).encode())
    finally:
        signal.signal(number, before)
    assert handlers.report == b"False"


def test_processes_can_be_waited_for_beside_many_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048) if hard > 0 else 2048, hard))
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            files.enter_context(Path(os.devnull).open("rb"))
        assert ending_of(signal.pause, limit_s=0.05).exit_code is None


WITHOUT_STANDARD_FILES = """
import os, sys
from offbook.explore.isolation import ForkedProcess, wait_for_any
from offbook.virtual_time import TimeReferences

process = ForkedProcess(lambda: b"done", references=TimeReferences(), limit_s=30.0)
wait_for_any([process])
sys.exit(process.ending.report != b"done")
"""


def test_a_process_can_report_if_there_are_no_standard_files():
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, WITHOUT_STANDARD_FILES]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_process_whose_end_nobody_is_told_of_was_not_late():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert ending_of(lambda: os.kill(os.getpid(), signal.SIGKILL)) == ProcessEnding()
    finally:
        signal.signal(signal.SIGCHLD, before)


def children():
    """The processes that this one has forked and not waited for."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def test_an_interrupt_in_a_hook_of_the_fork_is_not_lost_and_the_child_is_killed():
    armed, hooks, before_children = [True], [], children()

    def interrupt(*_):
        raise KeyboardInterrupt

    def hook():
        hooks.append(os.getpid())
        if armed:
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    os.register_at_fork(after_in_parent=hook)
    try:
        with pytest.raises(KeyboardInterrupt):
            ending_of(signal.pause, limit_s=5.0)
    finally:
        armed.clear()
        signal.signal(signal.SIGUSR1, before)
    assert hooks
    assert children() == before_children
    assert ending_of(lambda: b"done").report == b"done"


def test_threads_that_fork_at_once_leave_the_hook_and_the_filters_of_the_process_as_they_were():
    hook, filters = sys.unraisablehook, list(warnings.filters)

    def fork_often():
        for _ in range(15):
            forked(lambda: b"done").kill()

    threads = [threading.Thread(target=fork_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.unraisablehook == hook
    assert warnings.filters == filters
