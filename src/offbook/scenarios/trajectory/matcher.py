"""What may stand in expected arguments in place of a value."""

from abc import ABCMeta, abstractmethod

from msgspec import Struct, StructMeta


class _MatcherMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class Matcher(Struct, frozen=True, metaclass=_MatcherMeta):
    """A demand on a value. It is shown as the call that makes it."""

    @abstractmethod
    def unfit_reason(self, value: object) -> str:
        """What is wrong with `value`, in few words; empty if it fits. Whatever it raises means that it does not fit."""

    @abstractmethod
    def __repr__(self) -> str: ...
