"""Text and values as reports write them: printable, short, safe in a terminal, and JSON that never fails to encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from offbook.recording.redact.rules import mask_encoded, mask_text
from offbook.text import pluralize, printable, shorten
from offbook.tools.result_text import result_text

MAX_SEARCHED_CHARS = 100_000


def log_safe(text: str) -> str:
    """Return the text without secrets, control characters and workflow commands of GitHub. Line breaks stay."""
    return printable(mask_text(text)).replace("##[", "## [")


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, printable, and cut to `limit` characters."""
    return shorten(" ".join(log_safe(text[:MAX_SEARCHED_CHARS])[: 4 * limit].split()), limit)


def cut_lines(text: str, *, lines: int, columns: int) -> list[str]:
    """Return the first `lines` lines of the text, printable, each cut to `columns` characters."""
    first = text.split("\n", lines) if text else []
    left = first.pop().count("\n") + 1 if len(first) > lines else 0
    safe = log_safe("\n".join(first)).split("\n") if first else []
    shown = [line[:columns] + "…" if len(line) > columns else line for line in safe]
    return [*shown, f"… {pluralize(left, 'more line')}"] if left else shown


MAX_DEPTH = 100
PlainJson: TypeAlias = str | int | float | bool | list["PlainJson"] | dict[str, "PlainJson"] | None


def encode_json(value: object) -> bytes:
    """Return the value as JSON: fields of Structs in their order, keys of mappings and sets sorted. Never fails.

    Secrets are removed.

    Other values become text, numbers that are not finite become null, lone surrogates are escaped, and values that
    are nested too deep or contain themselves are cut.
    """
    try:
        data = msgspec.json.encode(value, enc_hook=result_text, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        data = msgspec.json.encode(_plain(value, MAX_DEPTH))
    return mask_encoded(data)


def _plain(value: object, depth: int) -> PlainJson:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Struct | Mapping | list | tuple):
        return _plain_parts(value, depth - 1) if depth else "…"
    return _valid_unicode(result_text(value))


def _plain_parts(value: Struct | Mapping[object, object] | list[object] | tuple[object, ...], depth: int) -> PlainJson:
    if isinstance(value, Struct):
        return {name: _plain(each, depth) for name, each in _fields(value)}
    if isinstance(value, Mapping):
        plain = {_valid_unicode(result_text(key)): _plain(each, depth) for key, each in value.items()}
        return dict(sorted(plain.items()))
    return [_plain(each, depth) for each in value]


def _fields(value: Struct) -> Iterator[tuple[str, object]]:
    """Yield the fields by their names in JSON, after the tag if there is one."""
    if value.__struct_config__.tag_field is not None:
        yield value.__struct_config__.tag_field, value.__struct_config__.tag
    for name, json_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        yield json_name, getattr(value, name)


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
