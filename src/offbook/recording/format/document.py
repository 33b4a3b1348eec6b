"""A recording as a whole: its metadata and its exchanges by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

from offbook import __version__
from offbook.decoding import convert
from offbook.errors import InputError, RecordingFormatError
from offbook.messages import JsonObject
from offbook.recording.format.exchange import Exchange, ToolEntry, ToolExchange
from offbook.recording.format.keys import tool_key
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, check_rules
from offbook.schema_errors import explain_msgspec_error, shape_hint


class AnyExchange(Protocol):
    """The fields that model exchanges and tool exchanges share."""

    @property
    def fingerprint(self) -> str | None:
        """The identity of the call that this exchange answers, or None for any call of its key."""
        ...

    @property
    def recorded_at(self) -> str | None: ...


E = TypeVar("E", bound=AnyExchange)
Entries: TypeAlias = dict[str, E | list[E]]


def exchanges_of(entries: Mapping[str, E | list[E]], key: str) -> list[E]:
    """Return the exchanges of a key, in order."""
    entry = entries.get(key, [])
    return entry if isinstance(entry, list) else [entry]


def each_exchange(entries: Mapping[str, E | list[E]]) -> Iterator[tuple[str, E]]:
    """Yield each exchange with its key, in order."""
    return ((key, exchange) for key in entries for exchange in exchanges_of(entries, key))


def add_exchange(entries: Entries[E], key: str, exchange: E, *, listed: bool = False) -> None:
    """Add an exchange after those of its key. The first one is not in a list unless `listed`."""
    entry = entries.get(key)
    if isinstance(entry, list):
        entry.append(exchange)
    elif entry is not None:
        entries[key] = [entry, exchange]
    else:
        entries[key] = [exchange] if listed else exchange


def rewrite_exchanges(entries: Entries[E], change: Callable[[E], E]) -> int:
    """Replace each exchange by `change(exchange)`, and return the number of changed ones."""
    changed = 0
    for key, entry in entries.items():
        new = [change(exchange) for exchange in exchanges_of(entries, key)]
        changed += sum(after is not before for after, before in zip(new, exchanges_of(entries, key), strict=True))
        entries[key] = new if isinstance(entry, list) else new[0]
    return changed


FORMAT_VERSION = 2
Entry: TypeAlias = Exchange | list[Exchange]


PROGRAM_TOOLS = "program_tools"
"""The metadata key of a recording whose function tools are those of a program that `exec` ran."""

_PLACE = re.compile(r"[^=]+:[\w$]+(?:\.[\w$]+)*")


class RecordedProgram(Struct, frozen=True, omit_defaults=True):
    """What a recording says of its program's tools.

    `functions` has the places of those that no framework announces, as `module:name`. Those in `steering` only steer
    the agent or pass a call on: they run in every replay, and have no results of their own.
    """

    functions: dict[str, str] = {}
    steering: list[str] = []

    @classmethod
    def from_meta(cls, meta: JsonObject, *, source: str) -> RecordedProgram:
        """Return what the metadata of a recording says.

        Raises:
            RecordingFormatError: it is not declared as it should be.
        """
        declared = meta.get(PROGRAM_TOOLS)
        if not isinstance(declared, dict):
            return cls()
        try:
            program = convert(declared, cls)
        except msgspec.ValidationError as error:
            reason, path = explain_msgspec_error(error)
            hint = shape_hint(reason, path, cls)
            raise RecordingFormatError(reason, source=source, place=f"_meta.{PROGRAM_TOOLS}{path}", hint=hint) from None
        for tool, place in program.functions.items():
            if not _is_place(tool, place):
                at = f"_meta.{PROGRAM_TOOLS}.functions"
                raise RecordingFormatError(f"{tool!r} is at {place!r}: expected module:name", source=source, place=at)
        return program

    @classmethod
    def of(cls, tool: str, function: str | None) -> RecordedProgram:
        """Return what is known of a tool that was taken over, with its place if a config names one."""
        return cls(functions={tool: function}) if function and _is_place(tool, function) else cls()

    def __or__(self, other: RecordedProgram) -> RecordedProgram:
        steering = dict.fromkeys([*self.steering, *other.steering])
        return RecordedProgram(functions=self.functions | other.functions, steering=list(steering))


def _is_place(tool: str, place: str) -> bool:
    """Return whether a place may become a line `tool=module:name` of the program's environment."""
    return "=" not in tool and f"{tool}{place}".isprintable() and _PLACE.fullmatch(place) is not None


def new_meta() -> JsonObject:
    """Return the metadata of a new recording."""
    return {"created_by": f"offbook {__version__}"}


class Document(Struct):
    """A recording in memory. A single exchange answers every call of its key, a list answers in order. Exchanges with a
    `when` do not count as a second one.

    `entries` has the model calls by key, `tools` the tool calls by the tool's name. `rest` holds further top-level
    metadata, which is written back unchanged.
    """

    meta: JsonObject = field(default_factory=new_meta)
    entries: dict[str, Entry] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    version: int = FORMAT_VERSION
    tools: dict[str, ToolEntry] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, Exchange]]:
        """Yield each model exchange with its key, in order."""
        return each_exchange(self.entries)

    @property
    def size(self) -> int:
        """The number of exchanges, of models and tools."""
        return sum(1 for _ in each_exchange(self.entries)) + sum(1 for _ in each_exchange(self.tools))

    @property
    def keys(self) -> list[str]:
        """The keys of all exchanges. Those of tools are like `_tools.get_weather`."""
        return [*self.entries, *map(tool_key, self.tools)]

    def exchanges(self, key: str) -> list[Exchange]:
        """Return the model exchanges of a key, in order."""
        return exchanges_of(self.entries, key)

    def add(self, key: str, exchange: Exchange) -> None:
        """Add an exchange after those of its key.

        The document then has the current version, unless it is older and has exchanges without their requests: a strict
        replay would use them for any request.
        """
        self._bring_up_to_date()
        add_exchange(self.entries, key, exchange)

    def rewrite(
        self, change: Callable[[Exchange], Exchange], change_tool: Callable[[ToolExchange], ToolExchange]
    ) -> int:
        """Replace each exchange by its function's result, and return the number of changed ones."""
        return rewrite_exchanges(self.entries, change) + rewrite_exchanges(self.tools, change_tool)

    def add_tool(self, tool: str, exchange: ToolExchange) -> None:
        """Add an exchange after those of its tool, always in a list. The version is as for `add`."""
        self._bring_up_to_date()
        add_exchange(self.tools, tool, exchange, listed=True)

    def _bring_up_to_date(self) -> None:
        if self.version < FORMAT_VERSION and all(exchange.fingerprint is not None for _, exchange in self):
            self.version = FORMAT_VERSION


def rules_from_meta(meta: JsonObject, *, source: str) -> NormaliseRules:
    """Return the normalise rules that the metadata of a recording declares.

    Raises:
        RecordingFormatError: the declaration is invalid.
    """
    declared = meta.get("normalise")
    if not declared:
        return NO_RULES
    try:
        rules = convert(declared, NormaliseRules)
        check_rules(rules)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        hint = shape_hint(reason, path, NormaliseRules)
        raise RecordingFormatError(reason, source=source, place=f"_meta.normalise{path}", hint=hint) from None
    except InputError as error:
        place = f"_meta.normalise.{error.place}"
        raise RecordingFormatError(error.reason, source=source, place=place, hint=error.hint) from None
    return rules


LENIENT_ADVICE = "replay with strict=False"
"""The advice for a recording that is too old for a strict replay. Commands name their own option instead."""


def check_strict(version: int, *, source: str, is_empty: bool = False) -> None:
    """Raise RecordingFormatError if a recording of this version cannot be replayed strictly."""
    if version < FORMAT_VERSION and is_empty:
        raise RecordingFormatError("the recording is empty", source=source, hint="record a run first")
    if version < FORMAT_VERSION:
        raise RecordingFormatError(
            f"version {version} cannot be replayed strictly",
            source=source,
            place="_version",
            hint=f'written by hand? put "_version": 2 at its top; else record it again, or {LENIENT_ADVICE}',
        )
