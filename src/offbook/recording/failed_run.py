"""Goes on with a run that failed while it replaced a recording: what it had recorded is part of the new recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange
from offbook.recording.replace_on_close import FAILED_SUFFIX, ReplaceMode, ReplaceOnCloseWriter
from offbook.recording.stores.locate import open_store


def recorded_by_failed_run(location: str, *, since: str) -> Document:
    """Return what a run that started at `since` recorded before it failed; empty if it left nothing.

    The calls with which it failed are left out: they are made again.

    Raises:
        InputError: the file beside the recording is not a recording.
    """
    beside, recorded = open_store(f"{location}{FAILED_SUFFIX}"), Document()
    if not beside.exists():
        return recorded
    failed = beside.load()
    answered_at = max((exchange.recorded_at or "" for _, exchange in failed if exchange.fault is None), default="")
    for key in failed.entries:
        for exchange in _until_last_answer(failed.exchanges(key)):
            if (exchange.recorded_at or "") >= since:
                recorded.add(key, exchange)
    for tool, call in each_exchange(failed.tools):
        is_final = call.error is not None and (call.recorded_at or "") > answered_at
        if (call.recorded_at or "") >= since and not is_final:
            recorded.add_tool(tool, call)
    return recorded


def _until_last_answer(exchanges: list[Exchange]) -> list[Exchange]:
    answered = [number for number, exchange in enumerate(exchanges, 1) if exchange.fault is None]
    return exchanges[: max(answered, default=0)]


@contextmanager
def go_on_recording(location: str, recorded: Document, mode: ReplaceMode) -> Iterator[None]:
    """Let what was recorded count as the beginning of the run that the block records at `location`.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """
    store, beside = open_store(location), open_store(f"{location}{FAILED_SUFFIX}")
    writer = ReplaceOnCloseWriter(store, "models", mode)
    try:
        for key, exchange in recorded:
            writer.append(key, exchange)
        for tool, call in each_exchange(recorded.tools):
            writer.append_tool(tool, call)
        yield
    except BaseException:
        writer.keep()
        raise
    finally:
        writer.close()
    if writer.has_replaced:
        beside.remove()
