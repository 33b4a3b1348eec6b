"""Faults of a WebSocket: the server closes it, or sends messages in another order or twice."""

from typing import Annotated, ClassVar, Self

from msgspec import Meta

from offbook.errors import ProviderConnectionError
from offbook.faults.fault import Fault, FaultedCall, FaultFamily, FaultTrait, FaultVariant, add_mark
from offbook.messages import Reply

CloseCode = Annotated[int, Meta(ge=1000, le=4999)]


class WsClose(Fault, frozen=True, tag="ws_close"):
    """Sends `after_chunks` messages of a WebSocket, then closes it with a code. Other calls fail as if it was reset."""

    breaks_response: ClassVar[bool] = True
    family: ClassVar[FaultFamily] = "stream"
    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer"})

    code: CloseCode = 1011
    reason: str = "an injected close"
    after_chunks: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("ws_close 1011", cls(), is_optional=True, http_only=True),
            FaultVariant("ws_close 1013", cls(1013), is_optional=True, http_only=True),
            FaultVariant("ws_close 1001", cls(1001), is_optional=True, http_only=True),
        )

    async def apply(self, call: FaultedCall) -> Reply:
        reason = add_mark(self.reason, call.mark)
        raise ProviderConnectionError(
            f"the connection was closed: {self.code} {reason}".strip(), provider=call.provider
        )


class WsReorder(Fault, frozen=True, tag="ws_reorder"):
    """Sends the message of a WebSocket that follows `after_chunks` others after the next. Other calls are the same."""

    family: ClassVar[FaultFamily] = "stream"

    after_chunks: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("ws_reorder", cls(), is_optional=True, http_only=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return await call.clean()


class WsRepeat(Fault, frozen=True, tag="ws_repeat"):
    """Sends the message of a WebSocket that follows `after_chunks` others twice. Other calls are the same."""

    family: ClassVar[FaultFamily] = "stream"

    after_chunks: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("ws_repeat", cls(), is_optional=True, http_only=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return await call.clean()
