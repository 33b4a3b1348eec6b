"""The command line, the exit codes of its commands, and when the current command was started."""

from contextvars import ContextVar

FINE = 0
FAILED = 1
"""A finding or a failed step."""
BAD_INPUT = 2
MISMATCH = 3
"""A replay did not match its recording."""
PARTIAL = 4
"""A budget left cases out, and those that ran have no finding."""
TIMED_OUT = 124
"""A command reached its time limit; the code that `timeout` uses."""
NOT_EXECUTABLE = 126
"""A command cannot be executed; the code that shells use."""
NOT_FOUND = 127
"""A command was not found; the code that shells use."""
SIGNALLED = 128
"""Added to the number of the signal that ended a command, as shells do."""
INTERRUPTED = 130
TERMINATED = 143
"""Ended by SIGTERM."""

start_s: ContextVar[float] = ContextVar("start_s")
"""The start of the current command by the monotonic clock, before its imports."""
