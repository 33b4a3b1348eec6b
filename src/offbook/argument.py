"""Refusing arguments of the wrong type, where they are given."""

from __future__ import annotations

from offbook.errors import InputError


def check_argument(value: object, kind: type, *, source: str, hint: str = "") -> None:
    """Pass if the argument that `source` names is of that kind.

    Raises:
        InputError: it is not; `hint` says what to pass.
    """
    if not isinstance(value, kind):
        expected = "a text" if kind is str else f"a {kind.__name__}"
        raise InputError(f"expected {expected}, got {described(value)}", source=source, hint=hint)


def check_whole_number(value: object, *, source: str) -> None:
    """Raises InputError if it is none; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"expected a whole number, got {value!r}", source=source)


def check_number(value: object, *, source: str) -> None:
    """Raises InputError if it is none; true and false are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(f"expected a number, got {value!r}", source=source)


def described(value: object) -> str:
    """What was given, in short: the type, or which class."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return "a text" if isinstance(value, str) else type(value).__name__
