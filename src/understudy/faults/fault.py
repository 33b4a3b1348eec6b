"""What a fault is: a declared way to fail, and what it does to a call."""

from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable

from msgspec import Struct, StructMeta

from understudy.clock import Clock
from understudy.messages import Reply, Request, Response


class StruckCall(Struct, frozen=True):
    """The call that a fault strikes. `clean` fetches the reply that it would have got without."""

    request: Request
    clean: Callable[[], Awaitable[Reply]]
    clock: Clock
    provider: str

    async def clean_response(self) -> Response:
        """The complete response that the call would have got."""
        return await (await self.clean()).collect()


class _FaultMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class Fault(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, metaclass=_FaultMeta):
    """A way to fail, declared as `{"type": …}` with the fields of its class."""

    @abstractmethod
    async def strike(self, call: StruckCall) -> Reply:
        """Do to `call` what this fault does: raise, or give a reply that goes wrong."""

    @property
    def type(self) -> str:
        """The name under which this fault is declared."""
        return str(self.__struct_config__.tag)
