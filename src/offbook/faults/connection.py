"""Faults of the connection: a reset, and no answer in time."""

from typing import Annotated, NoReturn

from msgspec import Meta

from offbook.errors import ProviderConnectionError, ProviderTimeoutError
from offbook.faults.fault import Fault, FaultedCall


class ConnectionReset(Fault, frozen=True, tag="connection_reset"):
    """Raises a ProviderConnectionError at once."""

    async def apply(self, call: FaultedCall) -> NoReturn:
        raise ProviderConnectionError("connection reset", provider=call.provider)


class Timeout(Fault, frozen=True, tag="timeout"):
    """Waits `after_ms`, then raises a ProviderTimeoutError."""

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    async def apply(self, call: FaultedCall) -> NoReturn:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        raise ProviderTimeoutError(f"no answer within {self.after_ms:g} ms", provider=call.provider)
