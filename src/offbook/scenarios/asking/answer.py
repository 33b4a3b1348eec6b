"""The JSON object that a model answered with, whatever it wrote around it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from offbook.agent.rescue.found import UnreadableError
from offbook.agent.rescue.json_value import read_object
from offbook.messages import JsonObject

LONGEST_TEXT = 200_000
MOST_FALSE_STARTS = 50

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class UnfitError(ValueError):
    """An answer that is not what was asked for. The message says why, for the model to mend it."""


def read_answer(text: str, keys: frozenset[str]) -> JsonObject:
    """The one object in `text` that has one of `keys`; code fences, prose and thinking aloud may stand around it.

    Raises:
        UnfitError: there is no such object, or there are several that differ.
    """
    if len(text) > LONGEST_TEXT:
        raise UnfitError(f"it is longer than {LONGEST_TEXT} characters")
    fitting = [found for found in _objects(_THOUGHT.sub("", text)) if keys & found.keys()]
    if not fitting:
        raise UnfitError("it holds no JSON object of the form that was asked for")
    if any(found != fitting[0] for found in fitting):
        raise UnfitError("it holds several JSON objects, and only one was asked for")
    return fitting[0]


def _objects(text: str) -> Iterator[JsonObject]:
    """The outermost objects that can be read, up to the fiftieth brace that starts none."""
    false_starts = 0
    start = text.find("{")
    while start >= 0 and false_starts < MOST_FALSE_STARTS:
        try:
            found, end = read_object(text, start)
        except UnreadableError:
            false_starts, end = false_starts + 1, start + 1
        else:
            yield found
        start = text.find("{", end)
