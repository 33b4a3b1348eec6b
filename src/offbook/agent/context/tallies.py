"""The tallies of several transcripts, told apart by identity."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence

from offbook.agent.context.size import CountTokens
from offbook.agent.context.tally import Tally
from offbook.agent.message import Message

HELD = 64


class Tallies:
    """One tally a transcript.

    A transcript is not kept alive for its tally where it can be referred to weakly. A list cannot,
    and so the `HELD` lists that were last asked for are held; an older one is counted anew.
    """

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._weak: dict[int, tuple[weakref.ref[Sequence[Message]], Tally]] = {}
        self._held: OrderedDict[int, tuple[Sequence[Message], Tally]] = OrderedDict()

    def of(self, messages: Sequence[Message]) -> Tally:
        """The tally of a transcript, up to date."""
        tally = self._known(id(messages))
        if tally is None:
            tally = self._keep(messages, Tally(self._count, predecessor=self._predecessor(messages)))
        tally.update(messages)
        return tally

    def replace(self, tally: Tally, compacted: Sequence[Message]) -> None:
        """Go over to what a transcript was compacted to: what was said of the one is said of the other.

        That holds for a new transcript that begins with the compacted messages, too. The old one is
        counted anew if it is met again, as it may have taken them in.
        """
        tally.restart()
        self._keep(compacted, Tally(self._count, predecessor=tally, is_compacted=True))

    def _known(self, key: int) -> Tally | None:
        if key in self._weak:
            return self._weak[key][1]
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][1]

    def _keep(self, messages: Sequence[Message], tally: Tally) -> Tally:
        key = id(messages)
        try:
            self._weak[key] = weakref.ref(messages, lambda _: self._weak.pop(key)), tally
        except TypeError:
            self._held[key] = messages, tally
            if len(self._held) > HELD:
                self._held.popitem(last=False)
        return tally

    def _predecessor(self, messages: Sequence[Message]) -> Tally | None:
        """The tally of the compacted messages that a transcript begins with, if it does."""
        held = reversed(self._held.values())
        return next((tally for start, tally in held if tally.is_compacted and _begins_with(messages, start)), None)


def _begins_with(messages: Sequence[Message], start: Sequence[Message]) -> bool:
    """Whether the messages begin with those others, as the first and the last of them tell."""
    return 0 < len(start) <= len(messages) and messages[0] is start[0] and messages[len(start) - 1] is start[-1]
