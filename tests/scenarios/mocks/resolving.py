"""Shorthand for calling mocks."""

from offbook import run
from offbook.scenarios import Mocks


def virtually(work):
    return run(work, virtual_time=True)


async def resolve_all(tools, *calls):
    """What an agent is given for calls, one after the other. A call is `(tool, args)`, or just the tool."""
    pairs = [(call, {}) if isinstance(call, str) else call for call in calls]
    return [await tools.resolve(tool, args) for tool, args in pairs]


def given(mock, *args, **options):
    """What an agent is given by one mock for calls with these arguments, by default for one without any."""
    tools = Mocks({"tool": mock}, **options).conversation("conv-1-abc123")
    return virtually(resolve_all(tools, *(("tool", each) for each in args or ({},))))


def given_times(mock, times):
    """What an agent is given by one mock, for that many calls."""
    return given(mock, *({} for _ in range(times)))
