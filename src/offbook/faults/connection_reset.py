"""The fault of a connection that cannot be made."""

from typing import NoReturn

from offbook.errors import ProviderConnectionError
from offbook.faults.fault import Fault, StruckCall


class ConnectionReset(Fault, frozen=True, tag="connection_reset"):
    """Raises a ProviderConnectionError at once."""

    async def strike(self, call: StruckCall) -> NoReturn:
        raise ProviderConnectionError("connection reset", provider=call.provider)
