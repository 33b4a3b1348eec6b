"""Shorthand for calling built-in tools as a workflow would."""

from offbook import ToolCall, run
from offbook.tools import run_tool


def outcome_of(tool, **args):
    """What becomes of one call, in virtual time."""
    return run(run_tool(tool, ToolCall(tool.name, args)), virtual_time=True)


def text_of(tool, **args):
    """What a call gives, which has not failed."""
    outcome = outcome_of(tool, **args)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value
