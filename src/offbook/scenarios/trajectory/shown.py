"""Values and calls as people read them: on one line, printable, and cut to what there is room for."""

from collections.abc import Mapping

from offbook.messages import ToolCall

KEPT_BEFORE = 8


def cut(text: str, limit: int) -> str:
    """The text, printable, and with `…` at its end where it is longer than `limit` characters."""
    kept = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return kept if kept.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in kept)


def shown(value: object, limit: int = 40) -> str:
    """A value as Python writes it, cut."""
    return cut(repr(value), limit)


def shown_pair(left: object, right: object, limit: int = 36) -> tuple[str, str]:
    """Two values that differ, cut to where they do so: what both begin with is left out if it takes up the room."""
    texts = repr(left), repr(right)
    pairs = enumerate(zip(*texts, strict=False))
    equal = next((place for place, (one, other) in pairs if one != other), min(map(len, texts)))
    start = equal - KEPT_BEFORE if equal > limit - KEPT_BEFORE else 0
    one, other = (cut(f"…{text[start:]}" if start else text, limit) for text in texts)
    return one, other


def shown_arguments(arguments: Mapping[str, object]) -> str:
    """Arguments as they stand in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def shown_call(call: ToolCall, limit: int = 60) -> str:
    """A call like `search(text='tea')`; arguments that are no JSON object stand there as the text that they are."""
    arguments = shown_arguments(call.args) if call.raw_arguments is None else repr(call.raw_arguments)
    return cut(f"{call.tool}({arguments})", limit)
