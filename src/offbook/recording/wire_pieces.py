"""What the JSON of an answer says, however its bytes were cut and into whichever events it was put."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from offbook.codecs.sse import SseDecoder


def json_documents(content: bytes) -> list[Any]:
    """The JSON values in an answer: its own, or those of its events or lines. A list counts as its items."""
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        return list(_parsed(_events(content)))
    return whole if isinstance(whole, list) else [whole]


def _events(content: bytes) -> list[str] | list[bytes]:
    """The data of each event, or the lines if there are no events."""
    decoder = SseDecoder()
    events = [*decoder.feed(content), *decoder.close()]
    return [event.data for event in events] if events else content.splitlines()


def _parsed(texts: list[str] | list[bytes]) -> Iterator[Any]:
    for text in texts:
        try:
            yield orjson.loads(text)
        except orjson.JSONDecodeError:
            continue


def values_by_path(content: bytes) -> dict[str, list[Any]]:
    """The values at each path, like `choices[0].delta.content`, in the order in which the documents have them."""
    values: dict[str, list[Any]] = {}
    for document in json_documents(content):
        for path, value in _leaves(document):
            values.setdefault(path, []).append(value)
    return values


def spelt_texts(content: bytes) -> list[str]:
    """The texts that the documents spell out piece by piece, a text for each path."""
    texts = ([value for value in values if isinstance(value, str)] for values in values_by_path(content).values())
    return [joined(pieces) for pieces in texts if any(pieces)]


def joined(pieces: list[str]) -> str:
    """What the pieces spell out, or what every one of them repeats."""
    return pieces[0] if all(piece == pieces[0] for piece in pieces) else "".join(pieces)


def _leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """The values that hold no others, with the paths to them."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}" if path else name, item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", item) for index, item in reversed(list(enumerate(value)))]
        else:
            yield path, value
