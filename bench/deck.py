"""Dealing calls to a replayer so that each entry of an open recording is served once, from all over it."""

from __future__ import annotations

import random
from typing import Any

from bench.contestants.contestant import Replayer
from bench.library import Spec


class Deck:
    """The calls of one recording, shuffled, for one replayer, which is opened anew whenever they run out."""

    def __init__(self, replayer: Replayer, spec: Spec) -> None:
        self._replayer, self._spec = replayer, spec
        self._random = random.Random(spec.size)
        self._left: list[int] = []
        self.hand_size = min(replayer.calls_a_repeat, spec.size - max(1, spec.size // 10))

    @property
    def hands_a_repeat(self) -> int:
        return max(1, self._replayer.calls_a_repeat // self.hand_size)

    async def deal(self) -> list[Any]:
        """Calls that were not made since the recording was opened, ready to be timed."""
        if len(self._left) < self.hand_size:
            await self._replayer.close()
            await self.reopen()
        dealt = [self._left.pop() for _ in range(self.hand_size)]
        return [self._replayer.prepare(self._spec.call(index)) for index in dealt]

    async def close(self) -> None:
        await self._replayer.close()

    async def reopen(self) -> None:
        """Open the recording, and see by one call, which also warms it up, that the answers are right."""
        self._replayer.open()
        self._left = list(reversed(range(self._spec.size)))
        if not self._replayer.in_order:
            self._random.shuffle(self._left)
        call = self._spec.call(self._left.pop())
        answer = await self._replayer.answer(self._replayer.prepare(call))
        if answer != call.answer and not self._replayer.is_floor:
            raise AssertionError(f"{self._replayer.name} answered {answer!r} instead of {call.answer!r}")
