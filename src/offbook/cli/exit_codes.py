"""The exit codes of commands."""

FINE = 0
FAILED = 1
"""Something was found, or a step failed."""
BAD_INPUT = 2
MISMATCH = 3
"""A replay did not match its recording."""
TIMED_OUT = 124
"""A command had not ended at its time limit, as `timeout` tells it."""
NOT_EXECUTABLE = 126
"""A command is there but cannot be run, as shells tell it."""
NOT_FOUND = 127
"""There is no such command, as shells tell it."""
SIGNALLED = 128
"""Added to the number of the signal that ended a command, as shells tell it."""
INTERRUPTED = 130
TERMINATED = 143
"""Told to end by SIGTERM."""
