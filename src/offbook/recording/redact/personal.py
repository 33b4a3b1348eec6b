"""Personal data that a user can have removed: e-mail addresses, phone numbers and card numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from offbook.errors import InputError
from offbook.text import suggestion

PersonalKind: TypeAlias = Literal["email", "phone", "card"]
Find: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]

_at = re.compile(r"@(?=[\w-]{1,63}\.)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_before_at = re.compile(r"[\w.!#$%&*+/=?^`{|}~'-]{1,64}\Z")
_phone = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}|\(?0\d{1,5}\)?|\(\d{3}\)|\d{3}(?=[-. ]\d{3}[-. ]\d{4}))"
    r"(?:[ ./-]?\(?\d{1,5}\)?){1,6}(?![\w-])"
)
_card = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4,6}){1,2}[ -]?\d{1,5}(?![\w-])")
_MAX_LOCAL_CHARS = 64
_PHONE_DIGITS = range(8, 16)
_CARD_DIGITS = range(13, 20)


def personal_rules(kinds: Iterable[str]) -> list[tuple[str, Find]]:
    """Return what finds each kind of personal data.

    Raises:
        InputError: there is no such kind.
    """
    for kind in kinds:
        if kind not in _FIND:
            hint = suggestion(kind, get_args(PersonalKind), kind="kinds")
            raise InputError(f"there is no kind of personal data {kind!r}", source="redaction", hint=hint)
    return [(kind, _FIND[kind]) for kind in dict.fromkeys(kinds)]


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for found in _at.finditer(text) if "@" in text else ():
        local = _before_at.search(text, max(0, found.start() - _MAX_LOCAL_CHARS), found.start())
        if local is not None:
            yield local.start(), found.end()


def _phones(text: str) -> Iterator[tuple[int, int]]:
    return (found.span() for found in _phone.finditer(text) if _digit_count(found[0]) in _PHONE_DIGITS)


def _cards(text: str) -> Iterator[tuple[int, int]]:
    return (found.span() for found in _card.finditer(text) if _has_check_digit(found[0]))


def _digit_count(text: str) -> int:
    return sum(map(str.isdigit, text))


def _has_check_digit(text: str) -> bool:
    """Return whether the last digit is that of Luhn's formula, which card numbers obey."""
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])
    return len(digits) in _CARD_DIGITS and (sum(digits[::2]) + sum(doubled)) % 10 == 0


_FIND: dict[str, Find] = {"email": _emails, "phone": _phones, "card": _cards}
