"""Why a call of plain HTTP found no answer."""

from __future__ import annotations

import difflib
from itertools import islice

from offbook.codecs.parsing import shorten
from offbook.errors import RecordingMismatchError
from offbook.recording.cursor import Match
from offbook.recording.exchange import Exchange
from offbook.recording.miss import SEARCHED
from offbook.recording.stores.store import Shelf
from offbook.wire.asked import Asked
from offbook.wording import printable

SHOWN_PLACES = 6
SHOWN_CHARS = 200


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
    return shorten(printable(f"{asked.method} {asked.place}"), SHOWN_CHARS)


def _nearest(asked: Asked, shelf: Shelf) -> str:
    told = (shorten(stored.exchange.http_place(), SHOWN_CHARS) for stored in islice(shelf, SEARCHED))
    places = list(dict.fromkeys(place for place in told if place))
    if _told(asked) in places:
        return "It was recorded with another body."
    near = difflib.get_close_matches(_told(asked), places, n=SHOWN_PLACES, cutoff=0.0)
    return f"It has: {', '.join(near)}" if near else "It has no calls other than those of models."
