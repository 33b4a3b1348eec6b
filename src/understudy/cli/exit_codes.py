"""What the exit codes of commands mean."""

FINE = 0
FAILED = 1
"""Something was found, or a step failed."""
BAD_INPUT = 2
MISMATCH = 3
"""A replay did not match its recording."""
INTERRUPTED = 130
TERMINATED = 143
"""Told to end by SIGTERM."""
