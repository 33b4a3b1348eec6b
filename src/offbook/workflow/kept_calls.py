"""The calls that a step made before it was cut off, and which of them it need not make again."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.recording.document import Document
from offbook.recording.entries import E, Entries, add, each
from offbook.recording.exchange import Exchange
from offbook.recording.tool_exchange import ToolExchange


def worth_keeping(found: Document, *, has_failed: bool) -> Document:
    """What of a step's calls holds when the step is run again, each to be answered once.

    Calls of a model that failed are to be made again. So are calls of tools that failed, unless the
    model was told of it and went on. The answer with which a step `has_failed`, if that is what it
    ended with, is to be asked for again too: it would fail the step once more.
    """
    answers = [(key, exchange) for key, exchange in each(found.entries) if exchange.fault is None]
    told_until = max((_moment(exchange) for _, exchange in answers), default="")
    calls = [
        (tool, exchange)
        for tool, exchange in each(found.tools)
        if exchange.error is None or _moment(exchange) < told_until
    ]
    if has_failed and told_until > _last_other(found):
        answers.remove(max(answers, key=lambda answer: _moment(answer[1])))
    return Document(found.meta, _listed(answers), found.rest, found.version, _listed(calls))


def _last_other(found: Document) -> str:
    """When the last call ended that was not one which a model answered."""
    failures = (_moment(exchange) for _, exchange in each(found.entries) if exchange.fault is not None)
    return max([*failures, *(_moment(exchange) for _, exchange in each(found.tools))], default="")


def _moment(exchange: Exchange | ToolExchange) -> str:
    return exchange.recorded_at or ""


def _listed(exchanges: Iterable[tuple[str, E]]) -> Entries[E]:
    """The exchanges by key, in lists, of which each exchange answers one call."""
    entries: Entries[E] = {}
    for key, exchange in exchanges:
        add(entries, key, exchange, listed=True)
    return entries
