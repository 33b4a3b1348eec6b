"""What a server has done, call by call."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from understudy.errors import MismatchKind
from understudy.messages import Request

Outcome = Literal["served", "default", "made", "recorded", "passed", "missed", "refused"]
"""`served` from the recording, `default` where it has nothing, `made` up (an embedding, a list of models),
`recorded` from upstream, `passed` on from there without being kept (too large, or the client left before anything
came), `missed`, or `refused` as no call that can be answered."""


class WireCall(Struct, frozen=True, gc=False):
    """One call that came over the wire, and what became of it.

    `number` counts the calls of its session from 1, whatever was asked. `attempt` is which try of the same call this
    is. `status` is None if the client was sent nothing; `key` names the entry that answered. `request` is what was
    asked of a model.
    """

    number: int
    session: str
    vendor: str
    place: str
    outcome: Outcome
    model: str = ""
    status: int | None = None
    key: str | None = None
    fault: str | None = None
    attempt: int = 1
    request: Request | None = None
    method: str = "POST"


def unheard(call: WireCall) -> None:
    """Tell nobody of a call."""


class Miss(Struct, frozen=True, gc=False):
    """A call that the recording has no answer for. `text` is all that is known: the nearest entry, and the diff."""

    call: int
    session: str
    place: str
    kind: MismatchKind
    key: str | None
    text: str

    def __str__(self) -> str:
        return self.text
