"""What a fault is: a declared way to fail, and what it does to a call."""

from abc import ABCMeta, abstractmethod

from msgspec import Struct, StructMeta

from understudy.clock import Clock
from understudy.messages import Reply, Request


class StruckCall(Struct, frozen=True):
    """The call that a fault strikes, and the reply that it would have got without."""

    request: Request
    clean: Reply
    clock: Clock
    provider: str


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
