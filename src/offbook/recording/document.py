"""A recording as a whole: its metadata and its exchanges by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from offbook.errors import InputError, RecordingFormatError
from offbook.faults.complaint import reason_and_path, shape_hint
from offbook.messages import JsonObject
from offbook.recording.entries import add, each, exchanges_of, forget, rewrite
from offbook.recording.exchange import Exchange
from offbook.recording.keys import tool_key
from offbook.recording.normalise import NO_RULES, NormaliseRules, check_rules
from offbook.recording.tool_exchange import ToolEntry, ToolExchange
from offbook.version import __version__

VERSION = 2
Entry: TypeAlias = Exchange | list[Exchange]


def new_meta() -> JsonObject:
    """The metadata of a recording made now."""
    return {"created_by": f"offbook {__version__}"}


class Document(Struct):
    """A recording in memory. An exchange answers every call of its key, a list answers in order.

    `entries` are the calls of models, `tools` those of tools by name. `rest` holds further top-level
    metadata, kept as it is.
    """

    meta: JsonObject = field(default_factory=new_meta)
    entries: dict[str, Entry] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION
    tools: dict[str, ToolEntry] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, Exchange]]:
        """Each exchange of a model with its key, in order."""
        return each(self.entries)

    @property
    def size(self) -> int:
        """How many exchanges there are, of models and tools."""
        return sum(1 for _ in each(self.entries)) + sum(1 for _ in each(self.tools))

    @property
    def keys(self) -> list[str]:
        """The keys of all exchanges; those of tools are like `_tools.get_weather`."""
        return [*self.entries, *map(tool_key, self.tools)]

    def exchanges(self, key: str) -> list[Exchange]:
        """The exchanges of a key, in order."""
        return exchanges_of(self.entries, key)

    def add(self, key: str, exchange: Exchange) -> None:
        """Put an exchange behind those of its key."""
        add(self.entries, key, exchange)

    def rewrite(
        self, change: Callable[[Exchange], Exchange], change_tool: Callable[[ToolExchange], ToolExchange]
    ) -> int:
        """Put each exchange through its `change`; gives back how many came out as another object."""
        return rewrite(self.entries, change) + rewrite(self.tools, change_tool)

    def forget(self, key: str, *, before: str) -> None:
        """Drop the exchanges of a key that were recorded before a moment; those that do not say when were."""
        forget(self.entries, key, before=before)

    def add_tool(self, tool: str, exchange: ToolExchange) -> None:
        """Put an exchange behind those of its tool, in a list even if it is the first."""
        add(self.tools, tool, exchange, listed=True)

    def forget_tool(self, tool: str, *, before: str) -> None:
        """The like of `forget` for the exchanges of a tool."""
        forget(self.tools, tool, before=before)


def rules_of(meta: JsonObject, *, source: str) -> NormaliseRules:
    """The normalise rules that a recording's metadata declares.

    Raises:
        RecordingFormatError: they are declared wrongly.
    """
    declared = meta.get("normalise")
    if not declared:
        return NO_RULES
    try:
        rules = msgspec.convert(declared, NormaliseRules)
        check_rules(rules)
    except msgspec.ValidationError as error:
        reason, path = reason_and_path(error)
        hint = shape_hint(reason, path, NormaliseRules)
        raise RecordingFormatError(reason, source=source, place=f"_meta.normalise{path}", hint=hint) from None
    except InputError as error:
        place = f"_meta.normalise.{error.place}"
        raise RecordingFormatError(error.reason, source=source, place=place, hint=error.hint) from None
    return rules


def check_strict(version: int, *, source: str) -> None:
    """Raises RecordingFormatError if recordings of this version cannot be replayed strictly."""
    if version < VERSION:
        raise RecordingFormatError(
            f"version {version} cannot be replayed strictly",
            source=source,
            place="_version",
            hint='written by hand? put "_version": 2 at its top; else record it again, or replay with strict=False',
        )
