"""What a fault is: a declared way to fail, and what it does to a call."""

from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable

from msgspec import Struct, StructMeta

from understudy.clock import Clock
from understudy.faults.words import join, told
from understudy.messages import Reply, Request


class StruckCall(Struct, frozen=True):
    """The call that a fault strikes. `clean` fetches the reply that it would have got without."""

    request: Request
    clean: Callable[[], Awaitable[Reply]]
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

    def text(self, *, without: str = "") -> str:
        """This fault on one line: its type, the value of its first field, and the others by name, except `without`."""
        first = next(iter(self.__struct_encode_fields__), "")
        fields = (("" if name == first else name, value) for name, value in told(self) if name != without)
        return join([("", self.type), *fields])

    def __str__(self) -> str:
        return self.text()
