"""How near two requests are to each other."""

from __future__ import annotations

import difflib

import orjson

from offbook.messages import JsonObject

COMPARED_CHARS = 2_000


def similarity(recorded: JsonObject, asked: JsonObject) -> float:
    """From 0 for requests that share nothing to 13 for equal ones: 10 for their messages, and 1 each for the model, the
    tools and the temperature."""
    equal_fields: int = sum(recorded.get(name) == asked.get(name) for name in ("model", "tools", "temperature"))
    old_messages, new_messages = messages_of(recorded), messages_of(asked)
    pairs = list(zip(old_messages, new_messages, strict=False))
    equal: int = sum(old == new for old, new in pairs)
    unequal = next(((old, new) for old, new in pairs if old != new), None)
    longest: int = max(len(old_messages), len(new_messages), 1)
    return 10.0 * (equal + _closeness(unequal)) / longest + equal_fields


def messages_of(fields: JsonObject) -> list[JsonObject]:
    """The messages of a request, of which rules may have left none."""
    messages: list[JsonObject] = fields.get("messages", [])
    return messages


def _closeness(messages: tuple[JsonObject, JsonObject] | None) -> float:
    if messages is None:
        return 0.0
    old, new = (_text(message) for message in messages)
    letters = difflib.SequenceMatcher(None, old, new).quick_ratio()
    words = difflib.SequenceMatcher(None, old.split(), new.split()).quick_ratio()
    return (letters + words) / 2


def _text(message: JsonObject) -> str:
    content = message.get("content")
    return content[:COMPARED_CHARS] if isinstance(content, str) else orjson.dumps(message).decode()[:COMPARED_CHARS]
