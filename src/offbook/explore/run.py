"""The record of one run: its calls of models and tools, how it ended, and its result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from offbook.messages import JsonObject, ReasoningDelta, StreamDelta, TextDelta

ChunkKind = Literal["text", "reasoning", "tool_call", "other"]
"""What a piece of a streamed answer brings; `other` are the events around those, which only the wire has."""


def chunk_kind(delta: StreamDelta) -> ChunkKind:
    """Return what a piece of a stream brings."""
    if isinstance(delta, TextDelta):
        return "text"
    return "reasoning" if isinstance(delta, ReasoningDelta) else "tool_call"


CallOutcome = Literal["answered", "failed", "diverged"]
ErrorKind = Literal["declared", "undeclared"]


class ModelCall(Struct, frozen=True, kw_only=True):
    """One try of a call of a model.

    `number` counts the calls of the run from 1 and `step_call` those of its step; `attempt` counts the tries of a
    call. `has_tools` is whether the model was given any. `chunks` are the kinds of the pieces that a streamed answer
    came in, `asks_for` the tools that the answer asked for, with their arguments.

    `is_too_soon` is a try before the wait was over that the answer to the last one had asked for. `forgot` is how many
    messages of the call that had failed just before are missing, in one that asks nothing else.
    """

    number: int
    step_id: str | None = None
    step_call: int = 0
    attempt: int = 1
    model: str = ""
    has_tools: bool = False
    is_streamed: bool = False
    chunks: tuple[ChunkKind, ...] = ()
    asks_for: tuple[tuple[str, JsonObject], ...] = ()
    outcome: CallOutcome = "answered"
    error: str = ""
    is_too_soon: bool = False
    forgot: int = 0


class ToolRun(Struct, frozen=True, kw_only=True):
    """One call of a tool: `call` counts those of this tool from 1.

    `has_run` is whether the tool itself ran, which a fault may prevent; `error` is what the agent was told instead of
    a result.
    """

    tool: str
    call: int
    arguments: JsonObject
    result: str = ""
    error: str | None = None
    has_run: bool = True
    side_effect: bool = False


class RunFailure(Struct, frozen=True):
    """The error that ended a run. One that the agent is said to raise is declared."""

    kind: ErrorKind
    type: str
    message: str


class Run(Struct, frozen=True, kw_only=True):
    """A run from its beginning to its end.

    `result` is what it gave, as JSON. `broken` lists the assertions that do not hold, `diverged` says what was asked
    that was never recorded, `hung` that it did not end in time. `took_s` is in virtual time where there is such.
    `paths` counts what was done to recover: retries, fallbacks, breakers.
    """

    result: Any = None
    error: RunFailure | None = None
    broken: tuple[str, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    tools: tuple[ToolRun, ...] = ()
    fired: tuple[str, ...] = ()
    diverged: str = ""
    hung: str = ""
    took_s: float = 0.0
    paths: dict[str, int] = field(default_factory=dict)

    @property
    def trajectory(self) -> list[tuple[str, JsonObject]]:
        """The tools that were called, in order, with their arguments."""
        return [(each.tool, each.arguments) for each in self.tools]

    @property
    def side_effects(self) -> Counter[str]:
        """How often each tool with a side effect has run."""
        return Counter(each.tool for each in self.tools if each.side_effect and each.has_run)


_OBJECT_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


def normalize_text(text: str, names: Mapping[str, str] | None = None) -> str:
    """The text with other `names` for what is named there, longest first, and without addresses of objects."""
    for name in sorted(names or {}, key=len, reverse=True):
        text = text.replace(name, (names or {})[name])
    return _OBJECT_ADDRESS.sub("0x…", text)
