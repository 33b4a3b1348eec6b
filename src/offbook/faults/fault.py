"""The base of all faults: how a fault is declared, and how it acts on a model call."""

from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable

from msgspec import Struct, StructMeta

from offbook.clock import Clock
from offbook.faults.text_fields import field_words, join_words
from offbook.messages import Reply, Request


class _FaultMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class DeclaredFault(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, metaclass=_FaultMeta):
    """A way to fail, declared as `{"type": …}` with the fields of its class."""

    @property
    def type(self) -> str:
        """The name under which this fault is declared."""
        return str(self.__struct_config__.tag)

    def text(self, *, without: str = "") -> str:
        """This fault on one line: its type, the value of its first field, and the others by name, except `without`."""
        first = next(iter(self.__struct_encode_fields__), "")
        fields = (("" if name == first else name, value) for name, value in field_words(self) if name != without)
        return join_words([("", self.type), *fields])

    def __str__(self) -> str:
        return self.text()


class FaultedCall(Struct, frozen=True):
    """The call that a fault strikes. `clean` fetches the reply that it would have got without."""

    request: Request
    clean: Callable[[], Awaitable[Reply]]
    clock: Clock
    provider: str


class Fault(DeclaredFault, frozen=True):
    """A way for a model to fail."""

    @abstractmethod
    async def apply(self, call: FaultedCall) -> Reply:
        """Do to `call` what this fault does: raise, or give a reply that goes wrong."""
