"""How a real API failed whose answer is recorded, in a few words."""

from __future__ import annotations

from offbook.faults import HttpError
from offbook.recording.exchange import Exchange
from offbook.wire.heard import Heard


def no_answer(heard: Heard, address: str) -> str:
    """Says that nothing came from an address."""
    in_time = " in time" if heard.answer.ending == "silence" else ""
    return f"no answer from {address}{in_time} ({heard.failure})"


def failure_of(exchange: Exchange, heard: Heard, address: str) -> str:
    """Says how an exchange failed that an address answered; empty if it did not."""
    if heard.answer.status is None:
        return no_answer(heard, address)
    if exchange.fault is None or heard.has_client_left:
        return ""
    if isinstance(exchange.fault, HttpError):
        return f"status {exchange.fault.status_code} from {address}"
    return f"{exchange.fault.type} from {address}"
