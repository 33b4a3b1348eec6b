"""The surface of a recorded server, and its changes: breaking, dangerous or harmless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from offbook.mcp.answer import server_info
from offbook.mcp.replay import DISCOVERIES
from offbook.messages import JsonObject
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.format.keys import is_mcp_key, split_mcp_key
from offbook.text import shorten

Level: TypeAlias = Literal["breaking", "dangerous", "harmless"]
LEVELS: tuple[Level, ...] = ("breaking", "dangerous", "harmless")

SECTIONS = {
    "tools": ("tools/list", "name"),
    "prompts": ("prompts/list", "name"),
    "resources": ("resources/list", "uri"),
    "resourceTemplates": ("resources/templates/list", "uriTemplate"),
}
"""The parts of a surface: the method that lists each, and the field that names its items."""

_NOUNS = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resourceTemplates": "resource template",
}
_MAX_DEPTH = 30


class Surface(Struct, frozen=True, kw_only=True):
    """The tools, prompts and resources of one server.

    `sections` has the items of each part by name; an unlisted part is missing.

    `about` is the server's description of itself, or empty.
    """

    about: JsonObject = {}
    sections: dict[str, dict[str, JsonObject]] = {}

    @property
    def tools(self) -> dict[str, JsonObject]:
        """The tools by name, as `tools/list` describes them."""
        return self.sections.get("tools", {})


class SurfaceChange(Struct, frozen=True):
    """A change: its place, its severity, and its reason."""

    place: str
    level: Level
    reason: str


def surfaces_of(calls: Iterable[tuple[str, ToolExchange]]) -> dict[str, Surface]:
    """Return the surfaces of the servers of a recording, by name, from its tool exchanges with their keys."""
    exchanges: dict[str, list[tuple[str, ToolExchange]]] = {}
    for key, exchange in calls:
        if is_mcp_key(key):
            server, method = split_mcp_key(key)
            exchanges.setdefault(server, []).append((method, exchange))
    return {server: _surface(recorded) for server, recorded in exchanges.items()}


def _surface(recorded: list[tuple[str, ToolExchange]]) -> Surface:
    about: JsonObject = {}
    sections: dict[str, dict[str, JsonObject]] = {}
    for method, exchange in recorded:
        result = exchange.result
        if not isinstance(result, dict):
            continue
        if method in DISCOVERIES:
            about = result
        section = next((name for name, (listing, _) in SECTIONS.items() if listing == method), None)
        if section is not None:
            is_next_page = isinstance(exchange.arguments, dict) and "cursor" in exchange.arguments
            before = sections.get(section, {}) if is_next_page else {}
            sections[section] = before | items_by_name(result.get(section), SECTIONS[section][1])
    return Surface(about=about, sections=sections)


def items_by_name(items: Any, key: str) -> dict[str, JsonObject]:
    """Return the items of a list by name, without nameless ones."""
    listed = items if isinstance(items, list) else []
    return {each[key]: each for each in listed if isinstance(each, dict) and isinstance(each.get(key), str)}


def compare_servers(old: Mapping[str, Surface], new: Mapping[str, Surface]) -> list[SurfaceChange]:
    """Return the changes between the servers of two recordings, in the order of their names."""
    changes: list[SurfaceChange] = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            changes.append(SurfaceChange(name, "breaking", "the server is gone"))
        elif name not in old:
            changes.append(SurfaceChange(name, "harmless", "the server is new"))
        else:
            changes += compare_surfaces(old[name], new[name], name)
    return changes


def compare_surfaces(old: Surface, new: Surface, server: str) -> list[SurfaceChange]:
    """Return the changes between two surfaces of a server. Parts that only one of them lists are not compared."""
    changes = list(_compare_about(old.about, new.about, server)) if old.about and new.about else []
    for section, noun in _NOUNS.items():
        if section in old.sections and section in new.sections:
            changes += _compare_items(old.sections[section], new.sections[section], f"{server}: {noun}", section)
    return changes


def uncompared(old: Surface, new: Surface) -> list[str]:
    """Return the methods that list a part of only one of two surfaces, which is therefore not compared."""
    return [SECTIONS[each][0] for each in SECTIONS if (each in old.sections) != (each in new.sections)]


def _compare_about(old: JsonObject, new: JsonObject, server: str) -> Iterator[SurfaceChange]:
    before, after = server_info(old), server_info(new)
    if server_info({}) not in (before, after):
        if before.get("name") != after.get("name"):
            yield SurfaceChange(server, "dangerous", f"the server is another: {_pair(before, after, 'name')}")
        if before.get("version") != after.get("version"):
            yield SurfaceChange(server, "harmless", f"the version changed: {_pair(before, after, 'version')}")
    if old.get("instructions") != new.get("instructions"):
        yield SurfaceChange(server, "dangerous", f"the instructions changed: {_pair(old, new, 'instructions')}")
    had, has = (set(each.get("capabilities") or {}) for each in (old, new))
    for name in sorted(had - has):
        yield SurfaceChange(server, "breaking", f"the capability {name} is gone")
    for name in sorted(has - had):
        yield SurfaceChange(server, "harmless", f"the capability {name} is new")


def _compare_items(
    old: dict[str, JsonObject], new: dict[str, JsonObject], place: str, section: str
) -> Iterator[SurfaceChange]:
    key, added = SECTIONS[section][1], [name for name in new if name not in old]
    for name, item in old.items():
        at = f"{place} {name}"
        if name in new:
            yield from _compare_item(item, new[name], at, section)
            continue
        renamed = next((other for other in added if new[other] | {key: name} == item), None)
        if renamed is None:
            yield SurfaceChange(at, "breaking", "it is gone")
        else:
            added.remove(renamed)
            yield SurfaceChange(at, "breaking", f"it was renamed to {renamed}")
    for name in added:
        is_destructive = (new[name].get("annotations") or {}).get("destructiveHint") is True
        reason = "it is new, and destructive" if is_destructive else "it is new"
        yield SurfaceChange(f"{place} {name}", "dangerous" if is_destructive else "harmless", reason)


def _compare_item(old: JsonObject, new: JsonObject, place: str, section: str) -> Iterator[SurfaceChange]:
    for field in sorted(old.keys() | new.keys()):
        before, after = old.get(field), new.get(field)
        if before == after:
            continue
        if field == "annotations":
            yield from _compare_annotations(_object(before), _object(after), place)
        elif field == "inputSchema":
            yield from compare_schemas(_object(before), _object(after), place, side="input")
        elif field == "outputSchema":
            yield from _compare_output(before, after, place)
        elif field == "arguments" and section == "prompts":
            yield from _compare_arguments(items_by_name(before, "name"), items_by_name(after, "name"), place)
        else:
            level: Level = "dangerous" if field in ("description", "mimeType") else "harmless"
            yield SurfaceChange(place, level, f"the {field} changed: {_pair(old, new, field)}")


def _compare_annotations(old: JsonObject, new: JsonObject, place: str) -> Iterator[SurfaceChange]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            level: Level = "harmless" if name == "title" else "dangerous"
            yield SurfaceChange(place, level, f"the annotation {name} changed: {_pair(old, new, name)}")


def _compare_output(old: Any, new: Any, place: str) -> Iterator[SurfaceChange]:
    if old is None:
        yield SurfaceChange(place, "harmless", "it has an outputSchema now")
    elif new is None:
        yield SurfaceChange(place, "breaking", "its outputSchema is gone")
    else:
        yield from compare_schemas(old, new, place, side="output")


def _compare_arguments(old: dict[str, JsonObject], new: dict[str, JsonObject], place: str) -> Iterator[SurfaceChange]:
    def as_schema(arguments: dict[str, JsonObject]) -> JsonObject:
        properties = {
            name: {"description": each["description"]} if "description" in each else {}
            for name, each in arguments.items()
        }
        return {"properties": properties, "required": [name for name in arguments if arguments[name].get("required")]}

    yield from compare_schemas(as_schema(old), as_schema(new), place, side="input")


Move: TypeAlias = Literal["narrowed", "widened", "replaced", "changed", "noted"]
Side: TypeAlias = Literal["input", "output"]
_LEVEL_OF: dict[Side, dict[Move, Level]] = {
    "input": {"narrowed": "breaking", "widened": "harmless", "replaced": "breaking"},
    "output": {"narrowed": "harmless", "widened": "dangerous", "replaced": "breaking"},
}
"""A narrower argument breaks callers; a wider result is new to readers."""


def compare_schemas(old: Any, new: Any, place: str, *, side: Side) -> Iterator[SurfaceChange]:
    """Yield the changes between two JSON schemas, of a tool's arguments or results."""
    noun = "argument" if side == "input" else "result"
    for path, move, reason in schema_moves(old, new):
        level = _LEVEL_OF[side].get(move, "harmless" if move == "noted" else "dangerous")
        if side == "output" and reason in (_GONE, _NEW):
            level = "breaking" if reason == _GONE else "harmless"
        yield SurfaceChange(f"{place}, {noun} {path}" if path else f"{place}, {noun}s", level, reason)


_GONE, _NEW = "it is gone", "it is new"
_LOWER_LIMITS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_LIMITS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_RESTRICTIONS = ("pattern", "format", "multipleOf", "uniqueItems", "propertyNames", "not")
_NOTES = ("title", "examples", "example", "$comment", "$schema", "$id", "deprecated", "readOnly", "writeOnly")
_STRUCTURE = frozenset(
    (
        *("type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties", "items", "$ref"),
        *("$defs", "definitions", *_LOWER_LIMITS, *_UPPER_LIMITS, *_RESTRICTIONS),
    )
)
SchemaMove: TypeAlias = tuple[str, Move, str]
"""The path in a schema, the change, and the reason."""


def schema_moves(old: Any, new: Any) -> list[SchemaMove]:
    """Return the path, kind and reason of each difference between two JSON schemas.

    `narrowed` allows less than before and `widened` more: swapping the schemas swaps these two.
    """
    return list(_SchemaComparison(old, new).compare(old, new, "", 0))


class _SchemaComparison:
    """Compares the parts of two schemas; references are followed in their roots."""

    def __init__(self, old: Any, new: Any) -> None:
        self._roots = old, new

    def compare(self, old: Any, new: Any, path: str, depth: int) -> Iterator[SchemaMove]:
        before, after = _resolved(old, self._roots[0]), _resolved(new, self._roots[1])
        if depth > _MAX_DEPTH or (before == after and "$ref" not in _text(before)):
            return
        yield from _value_moves(before, after, path)
        yield from self._property_moves(before, after, path, depth)
        if "items" in before and "items" in after:
            yield from self.compare(before["items"], after["items"], f"{path}[]", depth + 1)
        elif ("items" in before) != ("items" in after):
            yield path, "narrowed" if "items" in after else "widened", "the items changed"
        yield from self._alternative_moves(before, after, path, depth)

    def _property_moves(self, old: JsonObject, new: JsonObject, path: str, depth: int) -> Iterator[SchemaMove]:
        had, has = _object(old.get("properties")), _object(new.get("properties"))
        needed, needs = set(old.get("required") or ()), set(new.get("required") or ())
        for name in sorted(had.keys() | has.keys()):
            at = f"{path}.{name}" if path else name
            if name not in has:
                yield at, "narrowed", _GONE
            elif name not in had:
                yield at, *(("narrowed", "it is new, and required") if name in needs else ("widened", _NEW))
            else:
                yield from self.compare(had[name], has[name], at, depth + 1)
                if (name in needed) != (name in needs):
                    yield (
                        at,
                        *(("narrowed", "it is required now") if name in needs else ("widened", "it is optional now")),
                    )
        yield from self._additional_moves(
            old.get("additionalProperties", True), new.get("additionalProperties", True), path, depth
        )

    def _additional_moves(self, old: Any, new: Any, path: str, depth: int) -> Iterator[SchemaMove]:
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self.compare(old, new, f"{path}.*" if path else "*", depth + 1)
        elif old != new:
            is_narrowed = new is False or old is True
            yield path, "narrowed" if is_narrowed else "widened", "which further names it takes changed"

    def _alternative_moves(self, old: JsonObject, new: JsonObject, path: str, depth: int) -> Iterator[SchemaMove]:
        had, has = _alternatives(old, self._roots[0]), _alternatives(new, self._roots[1])
        gone = [each for each in had if each not in has]
        added = [each for each in has if each not in had]
        if len(gone) == 1 and len(added) == 1 and gone[0].get("type") == added[0].get("type"):
            yield from self.compare(gone[0], added[0], path, depth + 1)
        elif had and has:
            for each in gone:
                yield path, "narrowed", f"an alternative is gone: {_shown(each)}"
            for each in added:
                yield path, "widened", f"an alternative is new: {_shown(each)}"
        elif gone or added:
            yield path, "changed", "the alternatives changed"


def _value_moves(old: JsonObject, new: JsonObject, path: str) -> Iterator[SchemaMove]:
    """Yield the changes of schema keywords about the value itself, not about its parts."""
    yield from _set_moves(_types(old), _types(new), path, "type")
    yield from _set_moves(_values(old), _values(new), path, "value")
    for names, narrows_up in ((_LOWER_LIMITS, True), (_UPPER_LIMITS, False)):
        for name in names:
            yield from _limit_moves(old.get(name), new.get(name), path, name, narrows_up=narrows_up)
    for name in _RESTRICTIONS:
        before, after = old.get(name), new.get(name)
        if before != after:
            move: Move = "narrowed" if before is None else "widened" if after is None else "changed"
            yield path, move, f"{name} changed: {_pair(old, new, name)}"
    yield from _described_moves(old, new, path)


def _described_moves(old: JsonObject, new: JsonObject, path: str) -> Iterator[SchemaMove]:
    """Yield the changes of descriptive and unknown keywords."""
    for name in sorted((old.keys() | new.keys()) - _STRUCTURE):
        before, after = old.get(name, UNSET), new.get(name, UNSET)
        if _text(before) != _text(after):
            yield path, "noted" if name in _NOTES else "changed", f"the {name} changed: {_pair(old, new, name)}"


def _set_moves(old: set[str] | None, new: set[str] | None, path: str, noun: str) -> Iterator[SchemaMove]:
    """Yield the changes between two sets of allowed values; None allows everything."""
    if old == new:
        return
    gone = [] if new is None else sorted(old - new) if old is not None else ["any other"]
    added = [] if old is None else sorted(new - old) if new is not None else ["any other"]
    if gone and added:
        yield path, "replaced", f"the {noun} changed: {', '.join(gone)} → {', '.join(added)}"
    elif gone:
        yield path, "narrowed", f"the {noun} {', '.join(gone)} is not allowed any more"
    else:
        yield path, "widened", f"the {noun} {', '.join(added)} is allowed now"


def _limit_moves(old: Any, new: Any, path: str, name: str, *, narrows_up: bool) -> Iterator[SchemaMove]:
    if old == new:
        return
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    is_narrowed = old is None or (numbers and new is not None and (new > old) == narrows_up)
    yield path, "narrowed" if is_narrowed else "widened", f"{name} changed: {_shown(old)} → {_shown(new)}"


def _types(schema: JsonObject) -> set[str] | None:
    """Return the types that a schema allows, or None for any. A number may be an integer."""
    declared = schema.get("type")
    if declared is None:
        return None
    types = {str(each) for each in (declared if isinstance(declared, list) else [declared])}
    return types | {"integer"} if "number" in types else types


def _values(schema: JsonObject) -> set[str] | None:
    if "const" in schema:
        return {_text(schema["const"])}
    return {_text(each) for each in schema["enum"]} if isinstance(schema.get("enum"), list) else None


def _alternatives(schema: JsonObject, root: Any) -> list[JsonObject]:
    listed = schema.get("anyOf") or schema.get("oneOf")
    return [_resolved(each, root) for each in listed] if isinstance(listed, list) else []


def _resolved(schema: Any, root: Any) -> JsonObject:
    """Return a schema with its reference resolved. `true`, and anything that is not a schema, allows everything."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            break
        schema = _object(referenced(root, reference)) | {
            name: value for name, value in schema.items() if name != "$ref"
        }
    return {"not": {}} if schema is False else _object(schema)


def referenced(root: Any, reference: str) -> Any:
    """Return the part of a schema that a `$ref` names, or None."""
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _pair(old: JsonObject, new: JsonObject, name: str) -> str:
    return f"{_shown(old.get(name))} → {_shown(new.get(name))}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else shorten(_text(value), 80)


def _text(value: Any) -> str:
    return "" if value is UNSET else msgspec.json.encode(value, order="sorted").decode()
