"""offbook recording show: lists the exchanges of a recording, or shows one key in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Recording
from offbook.errors import InputError
from offbook.text import MAX_LISTED, format_usd, pluralize, printable, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from offbook.faults import Fault
    from offbook.recording.format.document import E
    from offbook.recording.format.exchange import Exchange, ToolExchange
    from offbook.recording.format.wire_record import WireRecord, WireText
    from offbook.recording.stores.store import StoredExchange


def describe_wire(exchange: Exchange) -> str:
    """Return `openai_chat · 12 frames`, or `GET /v1/models 200`, or "" without a wire record."""
    record = exchange.wire
    if record is None:
        return ""
    if place := exchange.http_place():
        return f"{place} {record.status}"
    parts = (
        record.protocol,
        "" if record.status == 200 else str(record.status),
        "" if record.frames is None else pluralize(len(record.frames), "frame"),
    )
    return " · ".join(part for part in parts if part)


def wire_lines(record: WireRecord) -> Iterator[str]:
    """Yield the lines of a record: protocol and status, headers, and each frame with its time, or the body.

    Control characters are escaped.
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
    """Return the non-empty lines of text, the name and data of a binary event, or the number of other bytes."""
    if not isinstance(text, str) and text.event is not None:
        name = text.event.get(":event-type") or text.event.get(":exception-type") or "event"
        return [printable(f"{name} {text.data}")]
    if not isinstance(text, str):
        return [f"<{pluralize(len(text.decode()), 'byte')}>"]
    return [printable(line) for line in text.split("\n") if line.strip()] or ["(nothing)"]


def _indented(text: WireText) -> WireText:
    """Return JSON indented. Other text, and JSON that is nested too deeply, is unchanged."""
    import msgspec

    try:
        return msgspec.json.format(text, indent=2) if isinstance(text, str) else text
    except (msgspec.DecodeError, RecursionError):
        return text


PREVIEW_CHARS = 60
COLUMNS = ("key", "model", "ends", "tokens", "cost $", "ms", "wire", "answer")
TOOL_COLUMNS = ("tool", "ends", "ms", "arguments", "result")


def show(
    file: Recording,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            help="Show the exchanges of this key (or its beginning) in full, or of a tool: _tools.get_weather.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the exchanges of a recording, or show one key in full.

    [bold]Examples[/bold]

      offbook recording show runs/today.json

      offbook recording show runs/today.json --key summarize

      offbook recording show runs/today.json --key 19284883515f

      offbook recording show runs/today.json --key _tools.get_weather

      offbook recording show sqlite:///runs/big.db --json
    """
    from offbook.recording.format.keys import find_key, tool_key
    from offbook.recording.stores.locate import is_folder, open_store

    if is_folder(file):
        raise _choose_one(file)
    reader = open_store(file).read()
    if key is not None:
        known = [*(stored.key for stored in reader), *(tool_key(stored.key) for stored in reader.tools)]
        key = find_key(key, known, source=file)
    chosen = _in_time([stored for stored in reader if key in (None, stored.key)])
    calls = _in_time([stored for stored in reader.tools if key in (None, tool_key(stored.key))])
    if as_json:
        _print_json(chosen, calls)
    elif key is None:
        _print_tables(chosen, calls, file)
    else:
        _print_in_full(chosen)
        _print_calls_in_full(calls)


def _choose_one(folder: str) -> InputError:
    """Return the error for a folder: the command for one of its recordings, and their names."""
    import shlex
    from pathlib import Path

    from offbook.recording.stores.locate import recordings_in

    paths = recordings_in(folder)
    names = [str(path.relative_to(Path(folder))) for path in paths]
    more = ", …" if len(names) > MAX_LISTED else ""
    hint = (
        f"show one: offbook recording show {shlex.quote(str(paths[0]))}; there: {', '.join(names[:MAX_LISTED])}{more}"
    )
    return InputError(f"it is a folder with {pluralize(len(names), 'recording')}", source=folder, hint=hint)


def _in_time(stored: list[StoredExchange[E]]) -> list[StoredExchange[E]]:
    """Return exchanges in the order of recording, after the hand-written ones."""
    return sorted(stored, key=lambda each: each.exchange.recorded_at or "")


def _print_json(chosen: list[StoredExchange[Exchange]], calls: list[StoredExchange[ToolExchange]]) -> None:
    import msgspec

    from offbook.cli.output.console import echo_json

    named = [("key", stored.key, msgspec.json.encode(stored.exchange)) for stored in chosen]
    named += [("tool", stored.key, msgspec.json.encode(stored.exchange)) for stored in calls]
    for kind, name, data in named:
        echo_json(msgspec.json.encode({kind: name} | msgspec.json.decode(data)).decode())


def _print_tables(chosen: list[StoredExchange[Exchange]], calls: list[StoredExchange[ToolExchange]], file: str) -> None:
    from offbook.cli.output.console import print_table, print_total

    if chosen or not calls:
        columns, *rows = _without_empty_wire([COLUMNS, *(_cells(stored) for stored in chosen)])
        print_table(columns, rows, numbers=(3, 4, 5))
    if calls:
        print_table(TOOL_COLUMNS, (_call_cells(stored) for stored in calls), numbers=(2,))
    cost_usd = sum(stored.exchange.cost_usd for stored in chosen)
    keys = len({stored.key for stored in chosen})
    totals = f"{file}: {pluralize(len(chosen), 'exchange')} of {pluralize(keys, 'key')}"
    totals += f", {format_usd(cost_usd)} $" if cost_usd else ""
    print_total(totals + _tool_totals([stored.key for stored in calls]))


def _tool_totals(keys: list[str]) -> str:
    """Return the number of tool calls, and of other MCP answers."""
    from offbook.recording.format.keys import is_mcp_key, split_mcp_key

    tools = [key for key in keys if not is_mcp_key(key)]
    others = [key for key in keys if is_mcp_key(key)]
    servers = {split_mcp_key(key)[0] for key in others}
    totals = f", {pluralize(len(tools), 'call')} of {pluralize(len(set(tools)), 'tool')}" if tools else ""
    of_servers = f"{pluralize(len(others), 'other answer')} of {pluralize(len(servers), 'MCP server')}"
    return f"{totals}, {of_servers}" if others else totals


def _without_empty_wire(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows, names of columns first, without the column for the wire if no exchange has a wire record."""
    wire = COLUMNS.index("wire")
    return rows if any(row[wire] for row in rows[1:]) else [row[:wire] + row[wire + 1 :] for row in rows]


def _call_cells(stored: StoredExchange[ToolExchange]) -> tuple[str, ...]:
    exchange = stored.exchange
    error = exchange.error
    ends = "result" if error is None else f"error: {error.type}"
    result = _as_text(exchange.answer) if error is None else error.message
    return stored.key, ends, f"{exchange.latency_ms:.0f}", _preview(_arguments(exchange)), _preview(result)


def _arguments(exchange: ToolExchange) -> str:
    from msgspec import UNSET

    return "(any)" if exchange.arguments is UNSET else _as_text(exchange.arguments)


def _as_text(value: object) -> str:
    """Return a JSON value as text, and text unchanged."""
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _preview(text: str) -> str:
    return shorten(" ".join(text.split()), PREVIEW_CHARS)


def _cells(stored: StoredExchange[Exchange]) -> tuple[str, ...]:
    from offbook.recording.format.keys import short_key

    exchange = stored.exchange
    ending = "" if exchange.http_place() else exchange.ending or ""
    ends = ending if exchange.fault is None else f"fault: {exchange.fault.type}"
    tokens = str(exchange.usage.total_tokens) if exchange.usage is not None else ""
    calls = ", ".join(f"{call.name}(…)" for call in exchange.tool_calls or ())
    preview = _preview(exchange.content or calls)
    cost, ms = format_usd(exchange.cost_usd), f"{exchange.latency_ms:.0f}"
    return short_key(stored.key), exchange.model, ends, tokens, cost, ms, describe_wire(exchange), preview


def _print_in_full(chosen: list[StoredExchange[Exchange]]) -> None:
    from offbook.cli.output.console import echo
    from offbook.report.reporter import stdout_console

    console = stdout_console()
    for position, stored in enumerate(chosen):
        exchange = stored.exchange
        key, _, ends, tokens, cost, ms, *_ = _cells(stored)
        heading = (key, _about(exchange), f"call {position + 1} of {len(chosen)}")
        console.rule(" · ".join(printable(part) for part in heading if part), align="left")
        counted_tokens = f"{tokens} tokens" if tokens else ""
        figures = (ends, counted_tokens, f"{cost} $" if cost else "", f"{ms} ms", exchange.recorded_at)
        _print_line(console, "  ".join(part for part in figures if part), style="dim")
        _print_request(console, exchange)
        _print_answer(console, exchange)
        chunks = [
            f"  {at_ms:9.1f} ms  {piece if isinstance(piece, str) else piece.tool_call or piece}".replace("\n", "\\n")
            for at_ms, piece in exchange.chunks or ()
        ]
        wired = [] if exchange.wire is None else [shorten(line, console.width) for line in wire_lines(exchange.wire)]
        for lines in filter(None, (chunks, wired)):  # in one go: a console takes a tenth of a millisecond for each
            echo("\n".join(lines))


def _about(exchange: Exchange) -> str:
    """Return the model of the request, or `GET /v1/models`."""
    model = (exchange.request_fields() or {}).get("model")
    return exchange.http_place() or exchange.model or (model if isinstance(model, str) else "")


def _print_line(console: Console, text: str, *, style: str = "") -> None:
    """Print text, without secrets and with control characters escaped."""
    from offbook.cli.output.console import shown

    console.print(shown(text), style=style)


def _print_request(console: Console, exchange: Exchange) -> None:
    if place := exchange.http_place():
        fields = exchange.http_fields() or {}
        body = fields.get("body")
        _print_line(console, place if body is None else f"{place}: {_as_text(body)}")
        for at_ms, message in fields.get("sent", ()):
            _print_line(console, f"  {at_ms:9.1f} ms  {_as_text(message)}")
    for message in (exchange.request_fields() or {}).get("messages", []):
        _print_line(console, f"{message.get('role')}: {_plain(message)}")


def _print_answer(console: Console, exchange: Exchange) -> None:
    if exchange.reasoning:
        _print_line(console, f"(reasoning) {exchange.reasoning}", style="italic")
    if exchange.fault is not None:
        _print_line(console, f"→ fails with {_fault_json(exchange.fault)}", style="bold red")
    if exchange.content or not (exchange.tool_calls or exchange.fault or exchange.http_place()):
        _print_line(console, f"→ {exchange.content}", style="bold")
    for call in exchange.tool_calls or ():
        _print_line(console, f"→ {call.name}({call.arguments})", style="bold")


def _print_calls_in_full(calls: list[StoredExchange[ToolExchange]]) -> None:
    from offbook.report.reporter import stdout_console

    console = stdout_console()
    for position, stored in enumerate(calls):
        exchange = stored.exchange
        console.rule(f"{stored.key} · call {position + 1} of {len(calls)}", align="left")
        note = f"the text of a {exchange.result_type}" if exchange.result_type else ""
        figures = (f"{exchange.latency_ms:.0f} ms", exchange.recorded_at, note)
        _print_line(console, "  ".join(part for part in figures if part), style="dim")
        _print_line(console, f"{stored.key}({_arguments(exchange)})")
        if exchange.error is None:
            _print_line(console, f"→ {_as_text(exchange.answer)}", style="bold")
        else:
            _print_line(console, f"→ raises {exchange.error.type}: {exchange.error.message}", style="bold red")


def _fault_json(fault: Fault) -> str:
    import msgspec

    return msgspec.json.encode(fault).decode()


def _plain(message: dict[str, object]) -> str:
    import orjson

    content = message.get("content")
    if isinstance(content, str):
        return content
    return orjson.dumps({name: value for name, value in message.items() if name != "role"}).decode()
