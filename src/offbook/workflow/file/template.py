"""Templates: text with `{state.key}` placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from offbook.errors import TemplateError
from offbook.text import did_you_mean, shorten

ValuePath: TypeAlias = tuple[str, ...]
BRACE_HINT = "write {{ for a brace, }} for a closing one"
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*|[0-9]+")


class Template(Struct, frozen=True):
    """A text with placeholders.

    A placeholder is a dotted path of keys and list positions, `{state.items.0.name}`, and nothing else:
    no format, no conversion, no attribute. `{{` and `}}` are braces. What is filled in is never read again.
    """

    parts: tuple[str | ValuePath, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template that `text` is.

        Raises:
            TemplateError: a brace begins or ends no placeholder, or a placeholder is no path.
        """
        parts: list[str | ValuePath] = []
        end = 0
        for found in _PART.finditer(text):
            parts.append(text[end : found.start()])
            parts.append(_part(found))
            end = found.end()
        parts.append(text[end:])
        return cls(tuple(part for part in parts if part))

    @property
    def paths(self) -> tuple[ValuePath, ...]:
        """What it names, each once, in order."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, tuple)))

    def render(self, scope: Mapping[str, Any], *, place: str = "") -> str:
        """The text with its placeholders filled in: texts as they are, all else as JSON.

        Raises:
            TemplateError: a path leads nowhere in `scope`; names it, and `place`.
        """
        return "".join(part if isinstance(part, str) else _as_text(value_at(part, scope, place)) for part in self.parts)

    def value(self, scope: Mapping[str, Any], *, place: str = "") -> Any:
        """What the one placeholder names, if the text is exactly that, else the rendered text.

        Raises:
            TemplateError: a path leads nowhere in `scope`; names it, and `place`.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], tuple):
            return value_at(self.parts[0], scope, place)
        return self.render(scope, place=place)


def fill(declared: Any, scope: Mapping[str, Any], *, place: str = "") -> Any:
    """`declared` with every text in it taken for a template, and mappings and lists filled through.

    Raises:
        TemplateError: one of them cannot be read or filled.
    """
    if isinstance(declared, str):
        return Template.parse(declared).value(scope, place=place)
    if isinstance(declared, Mapping):
        return {key: fill(value, scope, place=place) for key, value in declared.items()}
    if isinstance(declared, list | tuple):
        return [fill(value, scope, place=place) for value in declared]
    return declared


def value_at(path: ValuePath, scope: Mapping[str, Any], place: str = "") -> Any:
    """What `path` leads to, by keys of mappings and positions in lists alone.

    Raises:
        TemplateError: it leads nowhere.
    """
    value: Any = scope
    for depth, part in enumerate(path):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise _missing_path(path, depth, value, place)
    return value


def _missing_path(path: ValuePath, depth: int, value: object, place: str) -> TemplateError:
    known, where = ".".join(path[:depth]), ".".join(path)
    if isinstance(value, Mapping):
        keys = [str(key) for key in value]
        hint = did_you_mean(path[depth], keys, kind=f"keys of {known}" if known else "names")
        return TemplateError(f"there is no {where}", place=place, hint=hint)
    if isinstance(value, list | tuple):
        return TemplateError(f"there is no {where}", place=place, hint=f"{known} is a list of {len(value)}")
    return TemplateError(f"there is no {where}", place=place, hint=f"{known} has no parts")


def _part(found: re.Match[str]) -> str | ValuePath:
    if found[0] in ("{{", "}}"):
        return found[0][0]
    if found[1] is None:
        raise TemplateError(
            f"the {found[0]} at character {found.start() + 1} belongs to no placeholder", hint=BRACE_HINT
        )
    path = tuple(found[1].split("."))
    if any(part.startswith("_") for part in path):
        raise TemplateError(f"{found[0]} names something that starts with '_', which is not allowed")
    if not all(_NAME.fullmatch(part) for part in path) or path[0].isdecimal():
        raise TemplateError(
            f"{shorten(found[0], 40)!r} is no path", hint=f"a placeholder is like {{state.key}}; {BRACE_HINT}"
        )
    return path


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateError(f"a value cannot be written as JSON: {error}") from None
