"""The seam between the transports of client libraries and what answers their calls."""

from __future__ import annotations

from typing import Protocol

from understudy.wire.delivery import Delivery, Raised
from understudy.wire.http_call import HttpCall


class Answering(Protocol):
    """Answers the calls of clients."""

    def deliver(self, call: HttpCall, *, read_timeout_s: float | None, raised: Raised) -> Delivery:
        """The answer to a call, on its way to a client that raises what `raised` names."""
        ...

    def close(self) -> None: ...
