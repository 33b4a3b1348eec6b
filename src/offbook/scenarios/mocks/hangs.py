"""A mock of a tool that keeps its caller waiting."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any, Never

from msgspec import UNSET

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, ToolTimeoutError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.declared import mock_of
from offbook.scenarios.mocks.mock import Answer, Mock, ask

SOURCE = "hangs"


class HangingForEver(Mock):
    """Never answers."""

    def start(self) -> Answer:
        async def answer(args: JsonObject, context: MockContext) -> None:
            await asyncio.get_running_loop().create_future()

        return answer


class Late(Mock):
    """Lets another mock answer, `for_s` after the call."""

    def __init__(self, then: Mock, *, for_s: float) -> None:
        self._then, self._for_s = then, for_s

    def start(self) -> Answer:
        then = self._then.start()

        async def answer(args: JsonObject, context: MockContext) -> Any:
            await SYSTEM_CLOCK.sleep_s(self._for_s)
            return await ask(then, args, context)

        return answer


def hangs(for_s: float | None = None, *, then: object = UNSET) -> Mock:
    """A mock that does not answer: never, or not until `for_s` have passed.

    For ever means until the caller gives up: give the tool a `timeout_s`, or the conversation a time limit.

    Args:
        for_s: how long it keeps silent. Virtual time passes at once.
        then: whatever can be a mock; by default a ToolTimeoutError.

    Raises:
        InputError: `for_s` is no time, or `then` is given without it.
    """
    if for_s is None:
        if then is not UNSET:
            hint = "hangs(for_s=30, then=…)"
            raise InputError("what hangs for ever has no answer", source=SOURCE, place="then", hint=hint)
        return HangingForEver()
    if not 0 < for_s < inf:
        raise InputError(f"expected some seconds, got {for_s!r}", source=SOURCE, place="for_s")
    if then is not UNSET:
        return Late(mock_of(then, source=SOURCE, place="then"), for_s=for_s)

    def give_up(args: JsonObject, ctx: MockContext) -> Never:
        raise ToolTimeoutError(tool=ctx.tool, timeout_s=for_s)

    return Late(mock_of(give_up, source=SOURCE), for_s=for_s)
