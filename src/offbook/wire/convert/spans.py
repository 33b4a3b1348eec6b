"""Reads OpenTelemetry spans and log records: as OTLP in JSON, and as the console exporters of the SDK print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.messages import JsonObject
from offbook.wire.convert.trace import Unmapped


class SpanEvent(Struct, frozen=True):
    """An event of a span, or a log record of one. `fields` holds its attributes and its body."""

    name: str
    fields: JsonObject


class Span(Struct, frozen=True, kw_only=True):
    """A span. `error` is the message of an error status; times are in ms since 1970.

    `recorded_at` is the span's end in the format of recordings.
    """

    id: tuple[str, str]
    name: str
    attributes: JsonObject
    events: tuple[SpanEvent, ...]
    error: str
    started_ms: float
    ended_ms: float
    recorded_at: str

    @property
    def latency_ms(self) -> float:
        return round(max(0.0, self.ended_ms - self.started_ms), 3)


def is_telemetry(value: Any) -> bool:
    """Return whether a JSON value is a span, a log record, or an export of them."""
    if not isinstance(value, dict):
        return False
    is_printed = "attributes" in value and ("context" in value or ("span_id" in value and "body" in value))
    return is_printed or "resourceSpans" in value or "resourceLogs" in value


def collect_spans(documents: Iterable[JsonObject]) -> tuple[list[Span], list[Unmapped]]:
    """Return spans in the order of their start with their log records, and everything else."""
    spans, records, unmapped = _collect(documents)
    whole = [replace(span, events=span.events + tuple(records.pop(span.id, ()))) for span in spans]
    unmapped += [
        Unmapped(f"log records of span {span_id}", "the file does not have the span") for _, span_id in sorted(records)
    ]
    return sorted(whole, key=lambda span: (span.started_ms, span.id)), unmapped


_SpanId = tuple[str, str]


def _collect(documents: Iterable[JsonObject]) -> tuple[list[Span], dict[_SpanId, list[SpanEvent]], list[Unmapped]]:
    spans, records, unmapped = list[Span](), dict[_SpanId, list[SpanEvent]](), list[Unmapped]()
    for number, document in enumerate(documents, 1):
        try:
            for item in _items(document):
                if isinstance(item, Span):
                    spans.append(item)
                else:
                    records.setdefault(item[0], []).append(item[1])
        except (TypeError, KeyError, AttributeError, ValueError, OverflowError, OSError) as error:
            unmapped.append(Unmapped(f"document {number}", f"neither a span nor a log record: {error!r}"))
    return spans, records, unmapped


def _items(document: JsonObject) -> Iterator[Span | tuple[_SpanId, SpanEvent]]:
    for resource in document.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            yield from map(_otlp_span, scope.get("spans", ()))
    for resource in document.get("resourceLogs", ()):
        for scope in resource.get("scopeLogs", ()):
            yield from map(_otlp_record, scope.get("logRecords", ()))
    if "context" in document:
        yield _printed_span(document)
    elif "span_id" in document:
        span_id = (str(document["trace_id"]), str(document["span_id"]))
        name = document.get("event_name") or document["attributes"].get("event.name", "")
        yield span_id, _event(name, document["attributes"], document["body"])
    elif "resourceSpans" not in document and "resourceLogs" not in document:
        raise ValueError("no span")


def _otlp_span(span: JsonObject) -> Span:
    status = span.get("status") or {}
    is_error = status.get("code") in (2, "STATUS_CODE_ERROR")
    events = tuple(_event(str(each["name"]), _attributes(each), None) for each in span.get("events", ()))
    return Span(
        id=(str(span["traceId"]), str(span["spanId"])),
        name=str(span["name"]),
        attributes=_attributes(span),
        events=events,
        error=status.get("message") or "an error" if is_error else "",
        started_ms=int(span["startTimeUnixNano"]) / 1e6,
        ended_ms=int(span["endTimeUnixNano"]) / 1e6,
        recorded_at=_moment(int(span["endTimeUnixNano"]) / 1e6),
    )


def _otlp_record(record: JsonObject) -> tuple[_SpanId, SpanEvent]:
    attributes = _attributes(record)
    name = record.get("eventName") or attributes.get("event.name", "")
    body = _otlp_value(record["body"]) if record.get("body") else None
    return (str(record.get("traceId")), str(record.get("spanId"))), _event(name, attributes, body)


def _attributes(item: JsonObject) -> JsonObject:
    return {str(each["key"]): _otlp_value(each["value"]) for each in item.get("attributes", ())}


def _otlp_value(value: JsonObject) -> Any:
    """Return the plain value of one of OTLP's, which name their type."""
    ((kind, content),) = value.items()
    match kind:
        case "arrayValue":
            return [_otlp_value(each) for each in content.get("values", ())]
        case "kvlistValue":
            return {str(each["key"]): _otlp_value(each["value"]) for each in content.get("values", ())}
        case "intValue":
            return int(content)
    return content


def _event(name: str, attributes: JsonObject, body: Any) -> SpanEvent:
    return SpanEvent(str(name), {**attributes, **body} if isinstance(body, dict) else dict(attributes))


def _printed_span(span: JsonObject) -> Span:
    status = span.get("status") or {}
    is_error = status.get("status_code") == "ERROR"
    events = tuple(_event(str(each["name"]), each.get("attributes") or {}, None) for each in span.get("events", ()))
    return Span(
        id=(str(span["context"]["trace_id"]), str(span["context"]["span_id"])),
        name=str(span["name"]),
        attributes=dict(span["attributes"]),
        events=events,
        error=status.get("description") or "an error" if is_error else "",
        started_ms=_printed_ms(span["start_time"]),
        ended_ms=_printed_ms(span["end_time"]),
        recorded_at=_moment(_printed_ms(span["end_time"])),
    )


def _moment(ended_ms: float) -> str:
    return datetime.fromtimestamp(ended_ms / 1000.0, UTC).isoformat(timespec="microseconds")


def _printed_ms(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000.0


def json_value(value: Any) -> Any:
    """Return an attribute with JSON text as its value, and any other attribute unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
