"""Code that reporters share: declarations, files, pages, the console, and text that is safe to write."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.files import check_regular, replace_file
from offbook.messages import result_text
from offbook.recording.redact.rules import mask_reported, mask_shown
from offbook.schema_errors import decode_json
from offbook.text import pluralize, printable, shorten, suggestion

if TYPE_CHECKING:
    from rich.console import Console


T = TypeVar("T")
PLAIN_COLUMNS = 200
"""The width of reports and tables outside a terminal."""


def parse_reporter(declared: str, files: Mapping[str, str]) -> tuple[str, Path | None]:
    """Return the name and the path of a reporter declared as `name` or `name=path`.

    `console` takes no path, and `github` accepts one. The reporters in `files`, with an example of each, need one.

    Raises:
        InputError: the reporter does not exist, or its path is missing or not allowed.
    """
    name, _, path = declared.partition("=")
    names = ("console", "github", *files)
    if name not in names:
        hint = suggestion(name, names, kind="reporters")
        raise InputError(f"there is no reporter {name!r}", source=declared, hint=hint)
    if name == "console" and path:
        raise InputError("the console takes no path", source=declared, hint="console")
    if name in files and not path:
        raise InputError("a path is missing", source=declared, hint=f"{name}={files[name]}")
    return name, Path(path) if path else None


def write_report(path: Path, data: bytes) -> None:
    """Write a report as a whole: a reader sees the old file or the new one. Missing folders are created.

    The renderer removes secrets, because only it knows the syntax of a mark.

    Raises:
        InputError: the file cannot be written, or the path is not a file.
    """
    try:
        check_regular(path)
    except OSError as error:
        hint = "name a file that a report may replace"
        raise InputError(f"not a file: {error.strerror}", source=str(path), hint=hint) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise InputError(str(error.strerror), source=str(path)) from error


def stdout_console() -> Console:
    """Return a console on the stdout of now, as wide as the terminal or, without one, `PLAIN_COLUMNS`."""
    from rich.console import Console  # noqa: PLC0415 - who writes files alone needs no console

    width = None if sys.stdout.isatty() else PLAIN_COLUMNS
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)


def stderr_console() -> Console:
    """Return a console on the current stderr, for output outside reports."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def encodable(text: str, encoding: str) -> str:
    """Return the text with `?` for each character that the encoding does not have."""
    return text.encode(encoding, "replace").decode(encoding)


def standalone_page(name: str, data: bytes) -> bytes:
    """Return the page `name` of the folder `page`, with its style, its script and the JSON data.

    The page loads nothing, and its policy allows only its own script and style. No tag can begin in the data.
    """
    before, _, after = _page(name).partition(b"{{data}}")
    return before + data.replace(b"<", rb"\u003c") + after


@cache
def _page(name: str) -> bytes:
    folder = files("offbook.report") / "page"
    page = folder.joinpath(f"{name}.html").read_bytes()
    style, script = (
        b"".join(folder.joinpath(f"{part}.{suffix}").read_bytes() for part in ("common", name))
        for suffix in ("css", "js")
    )
    hashes = {b"{{style_hash}}": _csp_hash(style), b"{{script_hash}}": _csp_hash(script)}
    for placeholder, value in {**hashes, b"{{style}}": style, b"{{script}}": script}.items():
        page = page.replace(placeholder, value)
    return page


def _csp_hash(source: bytes) -> bytes:
    """Return the source of a script or style as a content security policy names it."""
    return b"sha256-" + b64encode(sha256(source).digest())


MAX_SEARCHED_CHARS = 100_000


def log_safe(text: str) -> str:
    """Return the text without secrets, control characters and workflow commands of GitHub. Line breaks stay."""
    return printable(mask_shown(text)).replace("##[", "## [")


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


class _ReportVersion(Struct, frozen=True):
    version: int


def decode_report(data: bytes, kind: type[T], *, version: int, source: str, hint: str) -> T:
    """Return the content of a JSON report.

    Raises:
        InputError: it is not a report, or has another version; names the file, the place and the reason.
    """
    found = decode_json(data, _ReportVersion, source=source, hint=hint).version
    if found != version:
        other = f"this offbook reads version {version}; run it again"
        raise InputError(f"a report of version {found}", source=source, place="version", hint=other)
    return decode_json(data, kind, source=source, hint=hint, allows_repeats=True)  # there are none


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
    return mask_reported(data)


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
    """Yield the fields by their JSON names, after the tag, if any."""
    if value.__struct_config__.tag_field is not None:
        yield value.__struct_config__.tag_field, value.__struct_config__.tag
    for name, json_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        if getattr(value, name) is not msgspec.UNSET:
            yield json_name, getattr(value, name)


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
