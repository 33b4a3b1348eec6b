"""understudy recording show: what a recording holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.arguments import AsJson, Recording
from understudy.cli.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from understudy.faults import Fault
    from understudy.recording.stores.store import Stored

PREVIEW_CHARS = 60
PLAIN_COLUMNS = 200


def show(
    file: Recording,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Show the exchanges of this key in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a recording holds: a line an exchange, or one key in full.

    [bold]Examples[/bold]

      understudy recording show runs/today.json

      understudy recording show runs/today.json --key summarize

      understudy recording show sqlite:///runs/big.db --json
    """
    from understudy.errors import InputError
    from understudy.recording.stores.locate import open_store

    shelf = open_store(file).read()
    chosen = [stored for stored in shelf if key in (None, stored.key)]
    if key is not None and not chosen:
        keys = ", ".join(dict.fromkeys(stored.key[:20] for stored in shelf)) or "none"
        raise InputError(f"no key {key!r}", source=file, hint=f"keys: {keys[:400]}")
    if as_json:
        _print_json(chosen)
    elif key is None:
        _print_table(chosen, file)
    else:
        _print_in_full(chosen)


def _print_json(chosen: list[Stored]) -> None:
    import msgspec

    for stored in chosen:
        fields = msgspec.json.decode(msgspec.json.encode(stored.exchange))
        typer.echo(msgspec.json.encode({"key": stored.key} | fields).decode())


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PLAIN_COLUMNS)


def _print_table(chosen: list[Stored], file: str) -> None:
    from rich.table import Table

    table = Table(
        "key", "model", "ends", "tokens", "cost $", "ms", "answer", box=None, pad_edge=False, header_style="bold"
    )
    for column in (3, 4, 5):
        table.columns[column].justify = "right"
    for stored in chosen:
        table.add_row(*_cells(stored))
    console = _console()
    console.print(table)
    cost_usd = sum(stored.exchange.cost_usd for stored in chosen)
    keys = len({stored.key for stored in chosen})
    console.print(
        f"{file}: {counted(len(chosen), 'exchange')} of {counted(keys, 'key')}, {cost_usd:.4f} $", style="dim"
    )


def _cells(stored: Stored) -> tuple[str, ...]:
    exchange = stored.exchange
    ends = f"fault: {exchange.fault.type}" if exchange.fault is not None else exchange.ending or ""
    tokens = str(exchange.usage.total_tokens) if exchange.usage is not None else ""
    calls = ", ".join(f"{call.name}(…)" for call in exchange.tool_calls or ())
    answer = " ".join((exchange.content or calls).split())
    preview = answer if len(answer) <= PREVIEW_CHARS else answer[: PREVIEW_CHARS - 1] + "…"
    key = stored.key if len(stored.key) <= 24 else stored.key[:12] + "…"
    return key, exchange.model, ends, tokens, f"{exchange.cost_usd:.4f}", f"{exchange.latency_ms:.0f}", preview


def _print_in_full(chosen: list[Stored]) -> None:
    console = _console()
    for position, stored in enumerate(chosen):
        exchange = stored.exchange
        key, model, ends, tokens, cost, ms, _ = _cells(stored)
        console.rule(f"{key} · call {position + 1} of {len(chosen)}", align="left")
        counted_tokens = f"{tokens} tokens" if tokens else ""
        told = (model, ends, counted_tokens, f"{cost} $", f"{ms} ms", exchange.recorded_at)
        console.print("  ".join(part for part in told if part), style="dim")
        for message in (exchange.request_fields() or {}).get("messages", []):
            console.print(f"{message.get('role')}: {_plain(message)}")
        if exchange.reasoning:
            console.print(f"(reasoning) {exchange.reasoning}", style="italic")
        if exchange.fault is not None:
            console.print(f"→ fails with {_declared(exchange.fault)}", style="bold red")
        if exchange.content or not (exchange.tool_calls or exchange.fault):
            console.print(f"→ {exchange.content}", style="bold")
        for call in exchange.tool_calls or ():
            console.print(f"→ {call.name}({call.arguments})", style="bold")
        for at_ms, piece in exchange.chunks or ():
            console.print(f"  {at_ms:9.1f} ms  {piece if isinstance(piece, str) else piece.tool_call or piece}")


def _declared(fault: Fault) -> str:
    import msgspec

    return msgspec.json.encode(fault).decode()


def _plain(message: dict[str, object]) -> str:
    import orjson

    content = message.get("content")
    if isinstance(content, str):
        return content
    return orjson.dumps({name: value for name, value in message.items() if name != "role"}).decode()
