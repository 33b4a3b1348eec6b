"""Whether words around a call say that it is only talked about."""

from __future__ import annotations

import re

from offbook.agent.rescue.found import Found

_REACH = 300
_SHOWN = (
    r"\b(?:examples?|e\.g|for instance|such as|like this|looks? like|format|template|syntax|schema|sample"
    r"|said|says|wrote|contain(?:s|ed)?|quot\w+|injection|malicious|suspicious)\b"
)
_UNSURE = r"\b(?:could|would|might|may|maybe|perhaps|not|never|cannot|confirm\w*|approv\w+|permission)\b|n['’]t\b|\?"
_ASIDE = (
    r"\b(?:if|instead|unless|earlier|previously|already|returned|received|responded|called|was|were)\b"
    r"|\b(?:output|result|response)s?:"
)

_shown = re.compile(_SHOWN, re.IGNORECASE)
_hedged_before = re.compile(f"{_SHOWN}|{_UNSURE}|{_ASIDE}", re.IGNORECASE)
_hedged_after = re.compile(f"{_SHOWN}|{_UNSURE}", re.IGNORECASE)
_begins = re.compile(r"(?:\A|\n[ \t]*\n|[:.!>-])[\s*_`]*\Z")
_ends = re.compile(r"[ \t*_`.,;]*+(?:\n|\Z|<)")
_sentence_end = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_finished = re.compile(r"(?<!e\.g)[.!]\Z")
_no_prose = re.compile(r"```|[{<]")


def is_quoted(text: str, found: Found, *, since: int, is_marked: bool) -> bool:
    """Whether the calls are part of a sentence, or next to words of doubt, of showing or of the past.

    What comes before `since` does not count. For calls that are marked as such only words of showing do, unless their
    sentence is finished before the call; and being inline code in a line with other words.
    """
    before = text[max(since, found.start - _REACH) : found.start]
    after = text[found.end : found.end + _REACH]
    lead_in = _sentence_end.split(before.strip().rpartition("\n")[2])[-1]
    follow_up = _no_prose.split(after)[0]
    next_line = follow_up.strip().partition("\n")[0]
    if is_marked:
        line = before.rpartition("\n")[2]
        is_code = line.endswith("`") and line.strip(" \t`") != ""
        is_shown = _has(_shown, lead_in) and not _has(_finished, lead_in)
        return is_code or is_shown or _has(_shown, next_line)
    is_apart = _has(_begins, before) and _ends.match(after) is not None
    return not is_apart or "?" in follow_up or _has(_hedged_before, lead_in) or _has(_hedged_after, next_line)


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None
