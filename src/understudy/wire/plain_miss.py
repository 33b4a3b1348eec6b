"""Why a call of plain HTTP found no answer."""

from __future__ import annotations

import difflib
from itertools import islice

import msgspec

from understudy.errors import RecordingMismatchError
from understudy.recording.cursor import Match
from understudy.recording.exchange import Exchange
from understudy.recording.miss import SEARCHED
from understudy.recording.stores.store import Shelf
from understudy.wire.asked import Asked
from understudy.wording import printable

SHOWN_PLACES = 6


def plain_miss(asked: Asked, match: Match[Exchange], shelf: Shelf) -> RecordingMismatchError:
    """The error for a call that no codec has read and that a strict replay must refuse."""
    told = _told(asked)
    if match.mismatch == "exhausted":
        reason = f"{told}: all its recorded answers were served already."
    elif asked.problem:
        reason = f"{told} is no request that {asked.route.vendor} would take: {asked.problem}"
    else:
        reason = f"{told} is not in the recording. {_nearest(asked, shelf)}"
    key = None if match.stored is None else match.stored.key
    return RecordingMismatchError(f"{shelf.source}: {reason}", kind=match.mismatch or "missing", key=key)


def _told(asked: Asked) -> str:
    return printable(f"{msgspec.json.decode(asked.fields)['method']} {asked.place}")


def _nearest(asked: Asked, shelf: Shelf) -> str:
    places = list(dict.fromkeys(place for stored in islice(shelf, SEARCHED) if (place := stored.exchange.http_place())))
    if _told(asked) in places:
        return "It was recorded with another body."
    near = difflib.get_close_matches(_told(asked), places, n=SHOWN_PLACES, cutoff=0.0)
    return f"It has: {', '.join(near)}" if near else "It has no calls other than those of models."

