"""What a fault is: a declared way to fail, and what it does to a call of a model."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable

from msgspec import Struct

from offbook.clock import Clock
from offbook.faults.declared_fault import DeclaredFault
from offbook.messages import Reply, Request


class StruckCall(Struct, frozen=True):
    """The call that a fault strikes. `clean` fetches the reply that it would have got without."""

    request: Request
    clean: Callable[[], Awaitable[Reply]]
    clock: Clock
    provider: str


class Fault(DeclaredFault, frozen=True):
    """A way for a model to fail."""

    @abstractmethod
    async def strike(self, call: StruckCall) -> Reply:
        """Do to `call` what this fault does: raise, or give a reply that goes wrong."""
