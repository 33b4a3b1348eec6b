"""The fault of no answer in time."""

from typing import Annotated, NoReturn

from msgspec import Meta

from offbook.errors import ProviderTimeoutError
from offbook.faults.fault import Fault, StruckCall


class Timeout(Fault, frozen=True, tag="timeout"):
    """Waits `after_ms`, then raises a ProviderTimeoutError."""

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    async def strike(self, call: StruckCall) -> NoReturn:
        await call.clock.sleep_s(self.after_ms / 1000.0)
        raise ProviderTimeoutError(f"no answer within {self.after_ms:g} ms", provider=call.provider)
