"""What all faults have in common, whatever they strike: how they are declared and told."""

from abc import ABCMeta

from msgspec import Struct, StructMeta

from offbook.faults.words import join, told


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
        fields = (("" if name == first else name, value) for name, value in told(self) if name != without)
        return join([("", self.type), *fields])

    def __str__(self) -> str:
        return self.text()
