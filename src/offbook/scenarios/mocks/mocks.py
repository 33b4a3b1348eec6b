"""Mocks: declares what answers the tool calls of an agent, by tool name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import get_args

from msgspec import UNSET
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.scenarios.mocks.mock import Mock, to_mock
from offbook.scenarios.mocks.mocked_tools import MockedTools, ToolWrapper, UnmockedPolicy, unwrapped
from offbook.scenarios.mocks.real_tool import UNKNOWN_TOOL, GivenSchema, RealTool, build_real_tool

SOURCE = "mocks"


class Mocks:
    """Mocks of tools, by name.

    Args:
        declared: for each tool a JSON value, a function of `(args)` or `(args, ctx)`, sync or async, an
            exception, or what `sequence`, `replayed`, `fails`, `hangs` and `garbled` give.
        unmocked: what becomes of calls of other tools: `error` raises UnmockedToolError, `passthrough`
            answers None.
        schemas: the real tools, where they are known: functions, tools, specs, or JSON schemas of their
            arguments. A call whose arguments the real tool would refuse is refused, and a mock must answer
            what a function says that it returns.
        returns: JSON schemas or type hints of what real tools return; they go before what functions say.
        side_effects: the tools of which running one twice does harm, beside those whose `schemas` say so.

    Raises:
        InputError: a mock, a schema or a mode that is none; it names the tool.
    """

    def __init__(
        self,
        declared: Mapping[str, object],
        *,
        unmocked: UnmockedPolicy = "error",
        schemas: Mapping[str, GivenSchema] | None = None,
        returns: Mapping[str, object] | None = None,
        side_effects: Iterable[str] = (),
    ) -> None:
        if unmocked not in get_args(UnmockedPolicy):
            known = ", ".join(get_args(UnmockedPolicy))
            raise InputError(f"unknown mode {unmocked!r}", source="unmocked", hint=f"one of: {known}")
        self._unmocked = unmocked
        self._mocks = _mocks_of(declared)
        self._real_tools = _real_tools_of(schemas or {}, returns or {})
        for tool in side_effects:
            self._real_tools[tool] = replace(self._real_tools.get(tool, UNKNOWN_TOOL), side_effect=True)
        self._called = set[str]()
        self._numbers = count(1)

    def conversation(self, conversation_id: str | None = None, *, around: ToolWrapper = unwrapped) -> MockedTools:
        """The mocks for one conversation, begun afresh: it shares nothing with others, before it or beside it.

        `conversation_id` is any text, like `conv-1-abc123`; by default `conv-1`, `conv-2` and so on. `around` puts
        something around each tool that is called.
        """
        return MockedTools(
            f"conv-{next(self._numbers)}" if conversation_id is None else conversation_id,
            answers={tool: mock.start() for tool, mock in self._mocks.items()},
            real_tools=self._real_tools,
            unmocked=self._unmocked,
            on_call=self._called.add,
            around=around,
        )

    def never_called(self) -> tuple[str, ...]:
        """The tools whose mocks no conversation has called, in the order declared."""
        return tuple(tool for tool in self._mocks if tool not in self._called)


def _mocks_of(declared: Mapping[str, object]) -> dict[str, Mock]:
    if not isinstance(declared, Mapping):
        hint = '{"get_weather": lambda args: {"city": args["city"]}}'
        raise InputError(f"expected a dict of mocks, got {declared!r}", source=SOURCE, hint=hint)
    for tool in declared:
        if not isinstance(tool, str) or not tool:
            raise InputError(f"expected the name of a tool, got {tool!r}", source=SOURCE)
    return {tool: to_mock(given, source=SOURCE, place=tool) for tool, given in declared.items()}


def _real_tools_of(schemas: Mapping[str, GivenSchema], returns: Mapping[str, object]) -> dict[str, RealTool]:
    return {
        tool: build_real_tool(tool, schemas.get(tool), returns=returns.get(tool, UNSET))
        for tool in dict.fromkeys([*schemas, *returns])
    }
