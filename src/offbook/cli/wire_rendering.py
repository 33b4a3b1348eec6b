"""How what came over the wire is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offbook.wording import counted, printable

if TYPE_CHECKING:
    from offbook.recording.exchange import Exchange
    from offbook.recording.wire_record import WireRecord, WireText


def how_recorded(exchange: Exchange) -> str:
    """`openai_chat · 12 frames`, or `GET /v1/models 200`; empty if the exchange did not come over the wire."""
    record = exchange.wire
    if record is None:
        return ""
    if place := exchange.http_place():
        return f"{place} {record.status}"
    told = (
        record.protocol,
        "" if record.status == 200 else str(record.status),
        "" if record.frames is None else counted(len(record.frames), "frame"),
    )
    return " · ".join(part for part in told if part)


def wire_lines(record: WireRecord) -> Iterator[str]:
    """The record a line each: protocol and status, headers, and each frame with its time, or the body.

    Nothing in them can control a terminal.
    """
    yield printable(f"over the wire: {record.protocol}, status {record.status}")
    for name, value in record.headers.items():
        yield printable(f"  {name}: {value}")
    for at_ms, text in record.frames or ():
        for number, line in enumerate(_lines(text)):
            yield f"  {at_ms:9.1f} ms  {line}" if number == 0 else f"{'':16}{line}"
    if record.body is not None:
        yield from (f"  {line}" for line in _lines(_indented(record.body)))


def _lines(text: WireText) -> list[str]:
    """What is worth a line each: the lines that are not empty, or how many bytes there are that are no text."""
    if not isinstance(text, str):
        return [f"<{counted(len(text.decode()), 'byte')}>"]
    return [printable(line) for line in text.split("\n") if line.strip()] or ["(nothing)"]


def _indented(text: WireText) -> WireText:
    """JSON laid out to be read; what is none, or is nested too deep, as it is."""
    import msgspec

    try:
        return msgspec.json.format(text, indent=2) if isinstance(text, str) else text
    except (msgspec.DecodeError, RecursionError):
        return text
