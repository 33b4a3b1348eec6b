"""The fields of an answer, each read as what it should be or refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from offbook.messages import JsonObject
from offbook.scenarios.asking.answer import UnfitError

C = TypeVar("C", bound=str)

_FLAGS = {"true": True, "false": False}


def text_of(answer: JsonObject, key: str) -> str:
    """The text under `key`, empty if there is none."""
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnfitError(f"{key} must be a text")
    return value.strip()


def flag_of(answer: JsonObject, key: str) -> bool:
    """The truth of `key`, false if nothing is said of it."""
    value = answer.get(key)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower(), value)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise UnfitError(f"{key} must be true or false")
    return value


def whole_number_of(answer: JsonObject, key: str, *, low: int, high: int) -> int:
    """The whole number under `key`, from `low` to `high`."""
    value = answer.get(key)
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high or not number.is_integer():
        raise UnfitError(f"{key} must be a whole number from {low} to {high}")
    return int(number)


def choice_of(answer: JsonObject, key: str, choices: Collection[C]) -> C:
    """Which of `choices` stands under `key`, in whatever case and with spaces or dashes for its underscores."""
    value = answer.get(key)
    folded = _folded(value) if isinstance(value, str) else ""
    for choice in choices:
        if _folded(choice) == folded:
            return choice
    raise UnfitError(f"{key} must be one of: {', '.join(choices)}")


def _folded(text: str) -> str:
    return "_".join(text.replace("-", " ").replace("_", " ").lower().split())
