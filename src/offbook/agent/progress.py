"""What a run has done so far."""

from collections.abc import Iterable

import orjson

from offbook.messages import ToolCall
from offbook.tools import ToolOutcome


def canonical(value: object) -> bytes:
    """The same bytes for equal values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)


class Progress:
    """Which tools have succeeded, how often, and with which values of the arguments that somebody asks about.

    Args:
        watched: pairs of tool and argument whose values are to be remembered.
    """

    def __init__(self, watched: Iterable[tuple[str, str]] = ()) -> None:
        self.completed: dict[str, int] = {}
        self.hint = ""
        """What has been done, in words for the model."""
        self._values: dict[tuple[str, str], set[bytes]] = {pair: set() for pair in watched}

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Take note of what was run; what failed is no progress."""
        for outcome in outcomes:
            if outcome.error is None:
                self._count(outcome.call)

    def _count(self, call: ToolCall) -> None:
        tool = call.tool
        if tool in self.completed:
            self.completed[tool] += 1
        else:
            self.completed[tool] = 1
            self.hint = f"Tools that have succeeded so far: {', '.join(self.completed)}."
        for (watched, argument), values in self._values.items():
            if watched == tool and argument in call.args:
                values.add(canonical(call.args[argument]))

    def has_done(self, tool: str) -> bool:
        return tool in self.completed

    def has_done_with(self, tool: str, argument: str, value: object) -> bool:
        """Whether `tool` has succeeded with that value of that argument, which must be watched."""
        return canonical(value) in self._values[tool, argument]
