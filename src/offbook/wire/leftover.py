"""What a recording has that nobody asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from offbook.codecs.parsing import shorten
from offbook.recording.exchange import Exchange
from offbook.recording.stores.store import Stored
from offbook.wire.stock import Stock
from offbook.wire.totals import Use
from offbook.wording import printable

ABOUT_CHARS = 60


class Leftover(Struct, frozen=True):
    """An exchange that no session was served: its key, and its place in the key's list from 0.

    `about` tells it from others: the model and what was asked, or `GET /v1/models`. `recording` has it; `session` is
    the one that was answered from there, empty if there were several.
    """

    key: str
    position: int
    about: str
    recording: str
    session: str


def leftovers(uses: Mapping[Stock, Use], file_of: Callable[[Stock, Exchange], str]) -> list[Leftover]:
    """What the sessions have left, stock by stock. What is in two stocks was used if it was used from one of them."""
    taken = [(stock, stored) for stock, use in uses.items() for stored in stock.shelf if stored.id in use.ids]
    left: list[Leftover] = []
    for stock, use in uses.items():
        others: dict[str, list[Exchange]] = {}
        for other, stored in taken:
            if other is not stock:
                others.setdefault(stored.key, []).append(stored.exchange)
        session = min(use.sessions) if len(use.sessions) == 1 else ""
        for position, stored in _unused(stock, use):
            if not any(stored.exchange.is_same(each) for each in others.get(stored.key, ())):
                file = file_of(stock, stored.exchange)
                left.append(Leftover(stored.key, position, about(stored.exchange), file, session))
                taken.append((stock, stored))
    return left


def _unused(stock: Stock, use: Use) -> Iterator[tuple[int, Stored[Exchange]]]:
    """The exchanges that were not served from here, each with its place in its key's list."""
    positions = dict[str, int]()
    for stored in stock.shelf:
        position = positions[stored.key] = positions.get(stored.key, -1) + 1
        if stored.id not in use.ids:
            yield position, stored


def about(exchange: Exchange) -> str:
    """An exchange in a few words: `gpt-4o: What is the weather?`, `GET /v1/models`, or where that is not told, what it
    answers. Nothing in them can control a terminal."""
    if place := exchange.http_place():
        return shorten(place, ABOUT_CHARS)
    asked = _asked(exchange)
    told = ": ".join(filter(None, [exchange.model, asked])) if asked else f"answers {_answered(exchange)}"
    return shorten(" ".join(printable(told).split()), ABOUT_CHARS)


def _asked(exchange: Exchange) -> str:
    """The last text that was said to the model."""
    messages = (exchange.request_fields() or {}).get("messages", [])
    texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
    return texts[-1] if texts else ""


def _answered(exchange: Exchange) -> str:
    """The text of the answer, else the tools that it calls, or the fault that it is."""
    calls = [f"{call.name}(…)" for call in exchange.tool_calls or ()]
    return exchange.content or ", ".join(calls) or ("nothing" if exchange.fault is None else exchange.fault.type)
