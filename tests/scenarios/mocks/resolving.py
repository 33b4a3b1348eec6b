"""Shorthand for calling mocks."""

from offbook import run
from offbook.scenarios import Mocks


def virtually(work):
    return run(work, virtual_time=True)


async def resolve_all(tools, *calls):
    """The answers to calls, in order. A call is `(tool, args)`, or only the tool."""
    pairs = [(call, {}) if isinstance(call, str) else call for call in calls]
    return [await tools.resolve(tool, args) for tool, args in pairs]


def answers_to(mock, *args, **options):
    """The answers of a mock to calls with these arguments; by default to one call without any."""
    tools = Mocks({"tool": mock}, **options).conversation("conv-1-abc123")
    return virtually(resolve_all(tools, *(("tool", each) for each in args or ({},))))


def answers_to_many(mock, times):
    """The answers of a mock to that many calls."""
    return answers_to(mock, *({} for _ in range(times)))
