"""What a server has done, call by call."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from offbook.errors import MismatchKind
from offbook.messages import Request

Outcome = Literal["served", "struck", "default", "made", "recorded", "passed", "missed", "refused"]
"""`served` from the recording, `struck` by a fault, `default` where the recording has nothing, `made` up (an embedding,
a list of models), `recorded` from upstream, `passed` on from there without being kept (too large, or the client left
before anything came), `missed`, or `refused` as no call that can be answered."""


class WireCall(Struct, frozen=True, gc=False):
    """One try of a call that came over the wire, and what became of it.

    `number` counts what came to its session from 1, whatever was asked. `call` counts the calls of models as faults do,
    and is 0 for others; `attempt` is which try of the same call this is. `status` is None if the client was sent
    nothing; `key` names the entry that answered, or was recorded. `failure` says how the real API failed that was
    recorded. `request` is what was asked of a model.
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
    call: int = 0
    failure: str = ""


def unheard(call: WireCall) -> None:
    """Tell nobody of a call."""


class Miss(Struct, frozen=True, gc=False):
    """A call that the recording has no answer for. `text` is all that is known: the nearest entry, and the diff.

    `call`, `attempt` and `number` are those of its WireCall. If it `is_after_fault`, one has struck the session before.
    """

    call: int
    session: str
    place: str
    kind: MismatchKind
    key: str | None
    text: str
    number: int
    attempt: int = 1
    method: str = "POST"
    is_after_fault: bool = False

    def __str__(self) -> str:
        return self.text
