"""Dates and times in texts, and whether they only say when a run took place."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

LONGEST_RUN = timedelta(hours=6)
"""The longest time between the beginning of a recorded run and its call."""

SLACK = timedelta(minutes=5)
_QUARTER = timedelta(minutes=15)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY = r"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? +)"
_ZONE = r"(?:Z\b|UTC\b|GMT(?:[+-]\d{4})?|[+-]\d{2}:?\d{2}\b)"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:\s?[APap]\.?[Mm]\b\.?)?"
_TIME = rf"(?P<clock{{n}}>{_CLOCK})(?: ?(?P<zone{{n}}>{_ZONE}))?"
_AFTER_DATE = rf"(?:(?:[T ]|, | at |,? +){_TIME})?"


def _form(text: str, number: int) -> str:
    return text.replace("{n}", str(number))


_FORMS = (
    r"(?P<y{n}>\d{4})[-/](?P<m{n}>\d{2})[-/](?P<d{n}>\d{2})" + _AFTER_DATE,
    r"(?P<y{n}>\d{4})(?P<m{n}>\d{2})(?P<d{n}>\d{2})T(?P<packed{n}>\d{6})(?P<zone{n}>Z)?",
    rf"{_DAY}?(?P<m{{n}}>{_MONTH}) +(?P<d{{n}}>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<y{{n}}>\d{{4}}){_AFTER_DATE}",
    rf"{_DAY}?(?P<m{{n}}>{_MONTH}) +(?P<d{{n}}>\d{{1,2}}) {_TIME}(?: +(?P<y{{n}}>\d{{4}}))?",
    rf"{_DAY}?(?P<d{{n}}>\d{{1,2}})\.? (?P<m{{n}}>{_MONTH}),? (?P<y{{n}}>\d{{4}}){_AFTER_DATE}",
    r"(?P<m{n}>\d{1,2})/(?P<d{n}>\d{1,2})/(?P<y{n}>\d{4})" + _AFTER_DATE,
    r"(?P<d{n}>\d{1,2})\.(?P<m{n}>\d{1,2})\.(?P<y{n}>\d{4})" + _AFTER_DATE,
    r"(?P<m{n}>" + _MONTH + r") (?P<y{n}>\d{4})",
    r"(?P<unix{n}>1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?)",
    r"(?P<clock{n}>\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:\s?[AP]M\b)?)(?: ?(?P<zone{n}>" + _ZONE + "))?",
)
MOMENT = r"(?<![\w.:/-])(?:" + "|".join(_form(form, number) for number, form in enumerate(_FORMS)) + r")(?![\w:-])"
"""A pattern of dates and times in the forms that programs write."""

_MOMENT = re.compile(MOMENT)

_SAYS_NOW = re.compile(
    r"\b(?:today(?:[’']?s (?:date|day))?|current[ _-]?(?:date|time|day|month|year|timestamp|datetime)"
    r"|(?:local|system|session)[ _-](?:date|time)|(?:date and )?time now|now|date and time|the time)\b"
    r"(?: and time)?[\W_]*(?:is|was)?(?: now)?[\W_]*$",
    re.IGNORECASE,
)
_NOTHING_MORE = re.compile(r"[\s.*_]*(?:\([^()\n]*\))?[\s.*_]*$")


class WrittenMoment(Struct, frozen=True):
    """A date or time as a text has it: what of it is missing is not said."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    clock: time | None = None
    zone: timedelta | None = None
    unix_s: float | None = None


def readings_of(text: str) -> list[WrittenMoment]:
    """Return which date or time a whole text may be: 1/12/2026 is one in January, or one in December."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return []
    found = {name.rstrip("0123456789"): value for name, value in match.groupdict().items() if value is not None}
    try:
        if "unix" in found:
            digits = found["unix"].partition(".")[0]
            return [WrittenMoment(unix_s=float(found["unix"]) / (1000 if len(digits) > 10 else 1))]
        year, day = (int(found[name]) if name in found else None for name in "yd")
        month = _month(found["m"]) if "m" in found else None
        written = WrittenMoment(year, month, day, _clock(found), _zone(found.get("zone")))
    except ValueError:
        return []
    return [written, replace(written, month=day, day=month)] if "/" in text and month and day else [written]


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) + 1


def _clock(found: dict[str, str]) -> time | None:
    if "packed" in found:
        return datetime.strptime(found["packed"], "%H%M%S").time()  # noqa: DTZ007 - a time without its date
    if "clock" not in found:
        return None
    text = found["clock"].replace(",", ".").replace(".m", "m").lower()
    half = re.search(r"[ap]", text)
    hour, minute, *rest = re.sub(r"[^\d:.]", "", text).rstrip(".").split(":")
    shift = 0 if half is None else 12 * (half[0] == "p") - 12 * (int(hour) == 12)
    second, _, part = (rest or ["0"])[0].partition(".")
    return time(int(hour) + shift, int(minute), int(second), int(f"{part:0<6}"[:6]))


def _zone(text: str | None) -> timedelta | None:
    digits = re.sub(r"[^\d+-]", "", text or "")
    if not digits:
        return None if text is None else timedelta()
    offset = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    return -offset if digits[0] == "-" else offset


class RunTime(Struct, frozen=True):
    """The time of a run as one of its calls knows it: from the run's beginning to the call."""

    began: datetime
    called: datetime

    def includes(self, moment: WrittenMoment, zone: timedelta, *, since_day_before: bool) -> bool:
        """Return whether a moment, written in a time zone that is so far from UTC, is one of this run.

        A day is one if the call is made on it, or up to an hour later in a run that may have begun on the day before.
        """
        zone = zone if moment.zone is None else moment.zone
        first, last = self.began - SLACK, self.called + SLACK
        if moment.unix_s is not None:
            return first.timestamp() <= moment.unix_s <= last.timestamp()
        if moment.clock is None:
            began = max(self.began, self.called - timedelta(hours=since_day_before))
            return any(_is_on(moment, (at + zone).date()) for at in (began, self.called))
        is_rounded = timedelta(minutes=0 if moment.clock.second else 1)
        days = {day for day in ((first + zone).date(), (last + zone).date()) if _is_on(moment, day)}
        times = (datetime.combine(day, moment.clock, UTC) - zone for day in days)
        return any(first - is_rounded <= each <= last for each in times)


def _is_on(moment: WrittenMoment, day: date) -> bool:
    own = (moment.year, moment.month, moment.day)
    return all(part in (None, actual) for part, actual in zip(own, (day.year, day.month, day.day), strict=True))


class RunTimes(Struct, frozen=True):
    """The times of the recorded run and of this one; None if the recording lacks them."""

    recorded: RunTime | None
    now: RunTime

    @classmethod
    def of(cls, recorded_at: str | None, began: datetime, now: datetime) -> RunTimes:
        """Return the times of a recorded call, and of one that is made now in a run that began earlier."""
        try:
            called = datetime.fromisoformat(recorded_at or "").astimezone(UTC)
        except ValueError:
            return cls(None, RunTime(began, now))
        return cls(RunTime(called - LONGEST_RUN, called), RunTime(began, now))

    def both_include(self, recorded: str, asked: str, *, in_any_zone: bool) -> bool:
        """Return whether two moments are of the recorded run and of this one.

        They are in UTC or in the local time zone; with `in_any_zone`, in any.
        """
        if self.recorded is None:
            return False
        then, now = self.recorded, self.now
        # In some time zone it is always about midnight. So two runs of one day are compared in the known zones alone,
        # and without what began before midnight: the next day must not pass for today.
        is_apart = now.called - then.called > timedelta(hours=12)
        here = {timedelta(), now.called.astimezone().utcoffset() or timedelta()}
        pairs = {(zone, zone) for zone in (_ZONES if in_any_zone and is_apart else here)}
        pairs |= set(product(here, here)) if in_any_zone and is_apart else set()
        return any(
            then.includes(old, zone, since_day_before=is_apart) and now.includes(new, other, since_day_before=is_apart)
            for old, new in product(readings_of(recorded), readings_of(asked))
            for zone, other in pairs
        )


_EPOCH = datetime.fromtimestamp(0, UTC)
UNKNOWN_TIMES: RunTimes = RunTimes(None, RunTime(_EPOCH, _EPOCH))
"""The times of unknown runs: no moment belongs to them."""

_ZONES = tuple(_QUARTER * quarters for quarters in range(-48, 57))


def says_now(before: str) -> bool:
    """Return whether the text before a date calls it that of now, like `Today's date is `."""
    return _SAYS_NOW.search(before[-80:]) is not None


def says_only_now(before: str, after: str) -> bool:
    """Return whether a line says which day or time it is, and nothing more. `before` and `after` are around that."""
    label = _SAYS_NOW.search(before)
    return label is not None and not before[: label.start()].strip(" \t*_-#>") and bool(_NOTHING_MORE.match(after))
