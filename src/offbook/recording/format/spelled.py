"""The texts that documents spell together, piece by piece: events of a stream, messages of a socket, notifications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Place: TypeAlias = tuple[dict[str, Any] | list[Any], Any]
"""A container, and the name or index of a text in it."""
Key: TypeAlias = tuple[Any, ...]

_ENDS = ("index", "id", "Index", "Id", "name", "Name", "oken", "stream", "channel", "topic")
MAX_NAME_CHARS = 200
MAX_GROUPINGS = 24


# Streams are interleaved: the pieces of two choices, blocks, items or calls alternate, and what tells them apart is an
# index or an id next to a piece or above it. It has any name, and other ids are new in each document. So the pieces of
# one path are joined in several ways: all of them; those with the same value of each thing that could tell streams
# apart, one by one; and those that have all of these in common. A way that joins what does not belong together spells
# nothing that would be a secret.
def spelled_texts(documents: Sequence[Any]) -> Iterator[list[Place]]:
    """Yield the places of the texts that may be one text together, in order. A place may be in several lists, and one
    that no other continues is in a list of its own. A document that is itself a text is at a place of `documents`.
    """
    groups: dict[Key, list[Place]] = {}
    leaves = [list(_leaves(document, documents, number)) for number, document in enumerate(documents)]
    telling = _telling_paths(leaves)
    for found in leaves:
        known = {path: value for path, _, value in found if path in telling}
        for path, place, value in found:
            if not isinstance(value, str) or not value:
                continue
            groups.setdefault((path,), []).append(place)
            near = [(each, known[each]) for each in telling if each in known and each != path]
            for each in near:
                groups.setdefault((path, each), []).append(place)
            if len(near) > 1:
                groups.setdefault((path, *near), []).append(place)
    for key, places in groups.items():
        if len(key) == 1 or 1 < len(places) < len(groups[key[:1]]):
            yield places


def _telling_paths(leaves: list[list[tuple[str, Place, Any]]]) -> list[str]:
    """Return the paths of what may tell streams apart: it has several values, and one of them at least twice."""
    values: dict[str, list[Any]] = {}
    for found in leaves:
        for path, _, value in found:
            is_short = isinstance(value, int) or (isinstance(value, str) and len(value) <= MAX_NAME_CHARS)
            if is_short and path.endswith(_ENDS):
                values.setdefault(path, []).append(value)
    telling = [path for path, found in values.items() if 1 < len(set(found)) < len(found)]
    return telling[:MAX_GROUPINGS]


def _leaves(document: Any, documents: Sequence[Any], number: int) -> Iterator[tuple[str, Place, Any]]:
    """Yield the values that are not containers, with their paths and places, in order. Indexes of lists count."""
    waiting: list[tuple[str, Place, Any]] = [("", (documents, number), document)]  # type: ignore[list-item]
    while waiting:
        path, place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", (value, name), item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", (value, at), item) for at, item in reversed(list(enumerate(value)))]
        else:
            yield path, place, value
