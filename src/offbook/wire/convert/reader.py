"""Reads other tools' files: detects the format from the content, and returns the calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.files import read_file
from offbook.messages import JsonObject
from offbook.text import did_you_mean_file
from offbook.wire.convert.trace import Trace

TraceKind = Literal["har", "vcr", "aimock", "otel", "openinference"]
_NAMES: dict[TraceKind, str] = {
    "har": "a HAR archive",
    "vcr": "a cassette of vcrpy",
    "aimock": "a file of fixtures",
    "otel": "a file of spans",
    "openinference": "a file of spans",
}
MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 64
_HINT = "a HAR archive, a cassette of vcrpy, fixtures of aimock, or spans as JSON; --from names the kind"


def read_traces(paths: Sequence[str], *, kind: TraceKind | None = None) -> Trace:
    """Return the calls of files in the given format, or in the format that each file's content shows.

    Spans of all files are read together, because their log records may be in a separate file.

    Raises:
        InputError: a file cannot be read, is larger than 256 MiB, or has an unknown format.
    """
    traces, telemetry = list[Trace](), list[JsonObject]()
    for path in paths:
        try:
            data = read_file(path, limit=MAX_BYTES + 1)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=path, hint=did_you_mean_file(path)) from None
        if len(data) > MAX_BYTES:
            raise InputError(f"the file has more than {MAX_BYTES:,} bytes", source=path, hint="split it")
        documents = _documents(data, path)
        found = kind or next((kind for kind in get_args(TraceKind) if _has_shape(documents, kind)), None)
        if documents and isinstance(_at(documents[0], "_version"), int):
            hint = f"offbook recording copy {path} other.json copies it"
            raise InputError("the file is a recording already", source=path, hint=hint)
        if found is None or not _has_shape(documents, found):
            reason = (
                "the file is of no kind that can be imported" if kind is None else f"the file is not {_NAMES[kind]}"
            )
            raise InputError(reason, source=path, hint=_HINT)
        if found in ("otel", "openinference"):
            telemetry += _flat(documents)
        else:
            traces.append(_placed(_read(documents[0], found), path if len(paths) > 1 else ""))
    if telemetry:
        traces.append(_read_spans(telemetry))
    calls = tuple(call for trace in traces for call in trace.calls)
    unmapped = tuple(each for trace in traces for each in trace.unmapped)
    return Trace(calls, unmapped, sum(trace.enclosing for trace in traces))


def _placed(trace: Trace, path: str) -> Trace:
    """Return a trace whose places name the file, if there are several files."""
    if not path:
        return trace
    calls = tuple(replace(call, place=f"{path}: {call.place}") for call in trace.calls)
    return Trace(calls, tuple(replace(each, place=f"{path}: {each.place}") for each in trace.unmapped), trace.enclosing)


def _documents(data: bytes, source: str) -> list[Any]:
    """Return a file's consecutive JSON values, or its single YAML value."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8", source=source, hint=_HINT) from None
    if text.lstrip()[:1] in ("{", "["):
        return list(_json_values(text, source))
    return [_yaml_value(text, source)]


def _json_values(text: str, source: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise InputError(error.msg, source=source, place=f"{error.lineno}:{error.colno}", hint=_HINT) from None
        except RecursionError:
            raise InputError("nested too deeply", source=source, hint=_HINT) from None
        yield value


def _yaml_value(text: str, source: str) -> Any:
    """Return the value of a YAML file. Its tags can create only text and bytes."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):  # parsing does not recurse, as building values does
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError(f"nested more than {MAX_DEPTH} levels deep", source=source, hint=_HINT)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a safe loader
    except yaml.YAMLError as error:
        if Path(source).suffix not in ("", ".yaml", ".yml"):  # what YAML expects there explains nothing
            raise InputError("the file is neither JSON nor YAML", source=source, hint=_HINT) from None
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f"{mark.line + 1}:{mark.column + 1}"
        raise InputError(
            getattr(error, "problem", None) or str(error), source=source, place=place, hint=_HINT
        ) from None
    except ValueError as error:
        raise InputError(str(error), source=source, hint=_HINT) from None


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _has_shape(documents: list[Any], kind: TraceKind) -> bool:
    from offbook.wire.convert.spans import is_telemetry  # noqa: PLC0415 - most files are of another kind

    first = documents[0] if documents else None
    match kind:
        case "har":
            return isinstance(_at(first, "log", "entries"), list)
        case "vcr":
            return isinstance(_at(first, "interactions"), list)
        case "aimock":
            return _fixtures(first) is not None
        case _:
            values = _flat(documents)
            return bool(values) and all(map(is_telemetry, values))


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _fixtures(value: Any) -> list[Any] | None:
    fixtures = value if isinstance(value, list) else _at(value, "fixtures")
    is_some = isinstance(fixtures, list) and fixtures and all(isinstance(_at(each, "match"), dict) for each in fixtures)
    return fixtures if is_some else None


def _flat(documents: list[Any]) -> list[JsonObject]:
    """Return the documents of a file of spans. A list holds several."""
    return [each for document in documents for each in (document if isinstance(document, list) else [document])]


def _read(document: Any, kind: TraceKind) -> Trace:
    if kind == "har":
        from offbook.wire.convert.har import read_har  # noqa: PLC0415 - each kind loads its own reader

        return read_har(document)
    if kind == "vcr":
        from offbook.wire.convert.vcr import read_cassette  # noqa: PLC0415

        return read_cassette(document)
    from offbook.wire.convert.aimock import read_fixtures  # noqa: PLC0415

    return read_fixtures(_fixtures(document) or [])


def _read_spans(documents: list[JsonObject]) -> Trace:
    """Return the calls of spans. Files mix both conventions: each span is read by its own."""
    from offbook.wire.convert import genai_spans, openinference  # noqa: PLC0415
    from offbook.wire.convert.spans import collect_spans  # noqa: PLC0415
    from offbook.wire.convert.trace import Unmapped  # noqa: PLC0415

    spans, unmapped = collect_spans(documents)
    found = [(openinference if openinference.is_span(span) else genai_spans).read_span(span) for span in spans]
    unmapped += [each for each in found if isinstance(each, Unmapped)]
    calls = tuple(each for each in found if each is not None and not isinstance(each, Unmapped))
    return Trace(calls, tuple(unmapped), enclosing=found.count(None))
