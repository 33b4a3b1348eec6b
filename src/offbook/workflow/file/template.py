"""Templates: strings with `{state.key}` placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from offbook.errors import TemplateError
from offbook.text import did_you_mean, shorten

ValuePath: TypeAlias = tuple[str, ...]
BRACE_HINT = "write {{ and }} for literal braces"
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_INDEX = re.compile(r"\[([0-9]+)\]")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*|[0-9]+")


class Template(Struct, frozen=True):
    """A string with placeholders.

    A placeholder is a path of keys and list positions, `{state.items.0.name}` or `{state.items[0].name}`: no format,
    no conversion, no attribute. `{{` and `}}` are literal braces. Placeholders in filled-in values are not expanded.
    """

    parts: tuple[str | ValuePath, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template.

        Raises:
            TemplateError: a brace is not part of a placeholder, or a placeholder is not a path.
        """
        parts: list[str | ValuePath] = []
        end = 0
        for match in _PART.finditer(text):
            parts.append(text[end : match.start()])
            parts.append(_part(match))
            end = match.end()
        parts.append(text[end:])
        return cls(tuple(part for part in parts if part))

    @property
    def paths(self) -> tuple[ValuePath, ...]:
        """The paths of its placeholders, each once, in order."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, tuple)))

    def render(self, scope: Mapping[str, Any], *, place: str = "") -> str:
        """Return the text with its placeholders filled in: strings unchanged, other values as JSON.

        Raises:
            TemplateError: a path does not exist in `scope`; the error has it and `place`.
        """
        return "".join(part if isinstance(part, str) else text_of(value_at(part, scope, place)) for part in self.parts)

    def value(self, scope: Mapping[str, Any], *, place: str = "") -> Any:
        """Return the value of the placeholder if the template is exactly one, otherwise the rendered text.

        Raises:
            TemplateError: a path does not exist in `scope`; the error has it and `place`.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], tuple):
            return value_at(self.parts[0], scope, place)
        return self.render(scope, place=place)


def fill(declared: Any, scope: Mapping[str, Any], *, place: str = "") -> Any:
    """Return `declared` with every string in it filled in as a template, also in mappings and lists.

    Raises:
        TemplateError: a template is invalid or cannot be filled in.
    """
    if isinstance(declared, str):
        return Template.parse(declared).value(scope, place=place)
    if isinstance(declared, Mapping):
        return {key: fill(value, scope, place=place) for key, value in declared.items()}
    if isinstance(declared, list | tuple):
        return [fill(value, scope, place=place) for value in declared]
    return declared


def value_at(path: ValuePath, scope: Mapping[str, Any], place: str = "") -> Any:
    """Return the value at `path`, by keys of mappings and positions in lists.

    Raises:
        TemplateError: the path does not exist.
    """
    value, depth = follow_path(path, scope)
    if depth < len(path):
        raise _missing_path(path, depth, value, place)
    return value


def follow_path(path: ValuePath, scope: Mapping[str, Any]) -> tuple[Any, int]:
    """Follow `path` as far as it exists. Return the last value, and the number of parts that lead to it."""
    value: Any = scope
    for depth, part in enumerate(path):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return value, depth
    return value, len(path)


def _missing_path(path: ValuePath, depth: int, value: object, place: str) -> TemplateError:
    known, where = ".".join(path[:depth]), ".".join(path)
    if isinstance(value, Mapping):
        keys = [str(key) for key in value]
        hint = did_you_mean(path[depth], keys, kind=f"keys of {known}" if known else "names")
        return TemplateError(f"there is no {where}", place=place, hint=hint)
    if isinstance(value, list | tuple):
        hint = f"{known} is a list of length {len(value)}"
        return TemplateError(f"there is no {where}", place=place, hint=hint)
    return TemplateError(f"there is no {where}", place=place, hint=f"{known} is neither a mapping nor a list")


def _part(match: re.Match[str]) -> str | ValuePath:
    if match[0] in ("{{", "}}"):
        return match[0][0]
    if match[1] is None:
        reason = f"the {match[0]} at character {match.start() + 1} is not part of a placeholder"
        raise TemplateError(reason, hint=BRACE_HINT)
    path = tuple(_INDEX.sub(r".\1", match[1]).split("."))
    if any(part.startswith("_") for part in path):
        raise TemplateError(f"{match[0]} has a name that starts with '_', which is not allowed")
    if not all(_NAME.fullmatch(part) for part in path) or path[0].isdecimal():
        hint = f"a placeholder looks like {{state.key}}; {BRACE_HINT}"
        raise TemplateError(f"{shorten(match[0], 40)!r} is not a path", hint=hint)
    return path


def text_of(value: object) -> str:
    """Return a value as a template has it: a string unchanged, another value as JSON. Raises TemplateError."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateError(f"a value cannot be written as JSON: {error}") from None
