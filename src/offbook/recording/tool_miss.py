"""Why a call of a tool found no answer: the nearest recorded arguments, and what differs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice

import msgspec

from offbook.errors import RecordingMismatchError
from offbook.messages import JsonObject
from offbook.recording.cursor import Match
from offbook.recording.keys import shown
from offbook.recording.miss import SEARCHED, SHOWN_KEYS, difference_between
from offbook.recording.redaction import Redactor
from offbook.recording.stores.store import Row
from offbook.recording.tool_exchange import ToolExchange

COMPARED_CHARS = 2_000


def tool_mismatch_error(
    tool: str, arguments: JsonObject, match: Match[ToolExchange], row: Row[ToolExchange]
) -> RecordingMismatchError:
    """The error for a call that a strict replay must refuse, with the diff that explains it."""
    if match.stored is None:
        return RecordingMismatchError(f"{row.source}: {_unknown(tool, row)}", kind="missing", key=tool)
    asked: JsonObject = Redactor().value(arguments)
    recorded = _nearest(asked, tool, row)
    is_used_up = match.mismatch == "exhausted"
    is_alike = is_used_up and recorded in (None, asked)
    difference = (
        ""
        if is_alike
        else difference_between(None if recorded is None else {"arguments": recorded}, {"arguments": asked})
    )
    told = _used_up(tool, row) if is_used_up else _drifted(tool)
    told += " The nearest call differs:" if difference else ""
    return RecordingMismatchError(
        f"{row.source}: {told}", kind=match.mismatch or "missing", key=tool, difference=difference
    )


def _drifted(tool: str) -> str:
    return f"tool {shown(tool)} was not recorded with these arguments. Record it again, or undo the change."


def _used_up(tool: str, row: Row[ToolExchange]) -> str:
    count = sum(1 for _ in _calls_of(tool, row))
    answers = "one answer in a list" if count == 1 else f"{count} answers"
    return f"tool {shown(tool)}: it has {answers}, and what fits was served already."


def _unknown(tool: str, row: Row[ToolExchange]) -> str:
    told = f"tool {shown(tool)} is not in the recording."
    names = list(dict.fromkeys(stored.key for stored in islice(row, SEARCHED)))
    if not names:
        return f"{told} It has no calls of tools."
    close = difflib.get_close_matches(tool, names, n=1)
    meant = f" Did you mean {shown(close[0])}?" if close else ""
    more = ", …" if len(names) > SHOWN_KEYS else ""
    return f"{told}{meant} It has: {', '.join(shown(name) for name in names[:SHOWN_KEYS])}{more}"


def _calls_of(tool: str, row: Row[ToolExchange]) -> Iterator[ToolExchange]:
    after = -1
    while (stored := row.find(key=tool, fingerprint=None, after=after)) is not None:
        yield stored.exchange
        after = stored.id


def _nearest(asked: JsonObject, tool: str, row: Row[ToolExchange]) -> JsonObject | None:
    """The recorded arguments that are most like those asked with."""
    recorded = [call.arguments for call in islice(_calls_of(tool, row), SEARCHED) if isinstance(call.arguments, dict)]
    return max(recorded, key=lambda arguments: _likeness(arguments, asked), default=None)


def _likeness(recorded: JsonObject, asked: JsonObject) -> tuple[int, float]:
    equal = sum(name in recorded and recorded[name] == value for name, value in asked.items())
    return equal, difflib.SequenceMatcher(None, _text(recorded), _text(asked)).quick_ratio()


def _text(arguments: JsonObject) -> str:
    return msgspec.json.encode(arguments, order="sorted").decode()[:COMPARED_CHARS]
