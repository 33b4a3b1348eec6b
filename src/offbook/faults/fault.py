"""The base of all faults: how a fault is declared, and how it acts on a model call."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable, Sized
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar

from msgspec import Struct, StructMeta

from offbook.faults.text_fields import field_words, join_words
from offbook.messages import Reply, Request

if TYPE_CHECKING:
    from offbook.clock import Clock

UNANSWERED_MS = 60_000.0
"""How long a variant keeps silent: longer than any sensible timeout."""


class _FaultMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class DeclaredFault(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, metaclass=_FaultMeta):
    """A way to fail, declared as `{"type": …}` with the fields of its class."""

    is_for_tools: ClassVar[bool] = False

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        """Return the forms of this fault that an exploration tries; by default none."""
        return ()

    @property
    def type(self) -> str:
        """The name under which this fault is declared."""
        return str(self.__struct_config__.tag)

    def text(self, *, without: str = "") -> str:
        """Return this fault on one line: its type, the value of its first field, and the others by name.

        The field `without` is left out.
        """
        first = next(iter(self.__struct_encode_fields__), "")
        fields = (("" if name == first else name, value) for name, value in field_words(self) if name != without)
        return join_words([("", self.type), *fields])

    def __str__(self) -> str:
        return self.text()


F_co = TypeVar("F_co", bound=DeclaredFault, covariant=True)


class VariantSite(Protocol):
    """A call at which an exploration may try a fault."""

    @property
    def is_tool(self) -> bool:
        """Whether it is a tool call."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether the model may call tools."""
        ...

    @property
    def asks_for_tools(self) -> bool:
        """Whether the model's answer asks for tools."""
        ...

    @property
    def positions(self) -> Sized:
        """The places in its stream at which a fault can fire; empty if it is not streamed."""
        ...


class FaultVariant(Struct, Generic[F_co], frozen=True):
    """One form of a fault that an exploration tries, under the name of its column.

    Attributes:
        is_persistent: it is also tried as a fault that lasts, to see whether and how a run gives up: on every attempt
            of a call, or on every call of a tool.
        outlasts_call: if it lasts, then from its call on. So do answers that arrive: who does not like one makes a new
            call.
        is_only_persistent: it is tried only as a fault that lasts.
        is_optional: it is tried only if it is named, because a sound agent may not withstand it.
        needs_stream: it can fire in streamed calls only.
        needs_tools: it can fire only in calls whose model may call tools.
        needs_tool_calls: it can fire only in calls whose answer asks for tools.
        http_only: it is tried only on programs that are explored over HTTP.
        http_fault: the fault to try over HTTP, if it is another: there, waiting takes real time.
    """

    name: str
    fault: F_co
    is_persistent: bool = False
    outlasts_call: bool = False
    is_only_persistent: bool = False
    is_optional: bool = False
    needs_stream: bool = False
    needs_tools: bool = False
    needs_tool_calls: bool = False
    http_only: bool = False
    http_fault: F_co | None = None

    def fits(self, site: VariantSite) -> bool:
        """Return whether the fault can fire there."""
        if site.is_tool != self.fault.is_for_tools or (self.needs_tools and not site.has_tools):
            return False
        if self.needs_tool_calls and not site.asks_for_tools:
            return False
        return bool(site.positions) or not self.needs_stream


class FaultedCall(Struct, frozen=True):
    """The model call at which a fault fires. `clean` fetches the reply that it would get without the fault.

    In an exploration, every text that the fault injects carries the `mark`; elsewhere it is empty.
    """

    request: Request
    clean: Callable[[], Awaitable[Reply]]
    clock: Clock
    provider: str
    mark: str = ""


class Fault(DeclaredFault, frozen=True):
    """A way for a model to fail.

    `breaks_response` means that the response is broken although its HTTP status is 200, so that a client may retry.
    """

    breaks_response: ClassVar[bool] = False

    @abstractmethod
    async def apply(self, call: FaultedCall) -> Reply:
        """Make `call` fail: raise an error, or return a reply that is wrong."""
