"""Daemon threads do work and hold nothing up."""

import subprocess
import sys
import threading

import pytest

from offbook.tools.daemon_threads import DaemonThreads


def test_work_is_done_in_another_thread():
    assert DaemonThreads().submit(threading.get_ident).result() != threading.get_ident()
    assert DaemonThreads().submit(divmod, 7, 2).result() == (3, 1)


def test_what_work_raises_is_raised_where_its_result_is_asked_for():
    with pytest.raises(SystemExit):
        DaemonThreads().submit(sys.exit, 3).result()


def test_more_work_runs_at_once_than_any_pool_would_have_threads():
    together = threading.Barrier(100)
    work = [DaemonThreads().submit(together.wait, 60) for _ in range(100)]
    assert sorted(each.result() for each in work) == list(range(100))


def test_a_program_ends_while_abandoned_work_goes_on():
    program = """
import threading
import offbook
from offbook.tools import ToolDef, ToolSpec, run_tool

stuck = ToolDef(ToolSpec("stuck"), callable=threading.Event().wait, timeout_s=0.01)
outcome = offbook.run(run_tool(stuck, offbook.ToolCall("stuck")))
print(outcome.text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[ToolError] ToolTimeoutError: stuck took longer than 0.01 s\n", "")
