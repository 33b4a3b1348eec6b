"""Scans a text once, from left to right, for calls; calls that the prose only quotes are ignored."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec.structs import replace

from offbook.agent.rescue.call_format import CallFormat, TextMatch, UnreadableError, is_plain, join_openings
from offbook.agent.rescue.known_formats import (
    FORMATS,
    THINKING_CLOSE,
    late_thinking_close,
    opens_python_call,
    read_python_calls,
    thinking_before,
)
from offbook.messages import ToolCall

_fenced_openings = join_openings(**{name: call_format.opening for name, call_format in FORMATS.items()})
_fence_close = re.compile(r"\s*+(?:```|\Z)")
_fence_gap = re.compile(r"[\s,;]*+")


def read_fence(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read the calls of a code block; a block with anything else in it is text.

    Raises:
        UnreadableError: the block starts like a call that cannot be read.
    """
    calls: list[ToolCall] = []
    pos = opening.end()
    while not (closing := _fence_close.match(text, pos)):
        item = _fence_item(text, pos, tools)
        if item is None:
            return TextMatch(opening.start(), _fence_end(text, opening.end()), is_text=True)
        calls += item.calls
        pos = item.end
    return TextMatch(opening.start(), closing.end(), tuple(calls), is_text=not calls)


def _fence_item(text: str, pos: int, tools: Collection[str]) -> TextMatch | None:
    gap = _fence_gap.match(text, pos)
    pos = gap.end() if gap else pos
    if opens_python_call(text, pos, tools):
        try:
            return read_python_calls(text, pos)
        except UnreadableError:
            return None
    opening = _fenced_openings.match(text, pos)
    match = FORMATS[opening.lastgroup or ""].read(text, opening, tools) if opening else None
    return match if match and match.calls else None


def _fence_end(text: str, pos: int) -> int:
    closing = text.find("```", pos)
    return len(text) if closing < 0 else closing + 3


FENCE = CallFormat(r"```[ \t]*[\w+-]*\s*", read_fence, is_marked=False)


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

_showing = re.compile(_SHOWN, re.IGNORECASE)
_hedged_before = re.compile(f"{_SHOWN}|{_UNSURE}|{_ASIDE}", re.IGNORECASE)
_hedged_after = re.compile(f"{_SHOWN}|{_UNSURE}", re.IGNORECASE)
_begins = re.compile(r"(?:\A|\n[ \t]*\n|[:.!>-])[\s*_`]*\Z")
_ends = re.compile(r"[ \t*_`.,;]*+(?:\n|\Z|<)")
_sentence_end = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_finished = re.compile(r"(?<!e\.g)[.!]\Z")
_no_prose = re.compile(r"```|[{<]")


def is_quoted(text: str, match: TextMatch, *, since: int, is_marked: bool) -> bool:
    """Whether the calls are next to words of doubt, of an example or of the past.

    Text before `since` is ignored. Marked calls are quoted only by words of an example in their own sentence, or as
    inline code in a line with other words.
    """
    before, after = _surroundings(text, match, since)
    lead_in = _sentence_end.split(before.strip().rpartition("\n")[2])[-1]
    follow_up = _no_prose.split(after)[0]
    next_line = follow_up.strip().partition("\n")[0]
    if is_marked:
        line = before.rpartition("\n")[2]
        is_code = line.endswith("`") and line.strip(" \t`") != ""
        is_shown = _contains(_showing, lead_in) and not _contains(_finished, lead_in)
        return is_code or is_shown or _contains(_showing, next_line)
    return "?" in follow_up or _contains(_hedged_before, lead_in) or _contains(_hedged_after, next_line)


def is_apart(text: str, match: TextMatch, *, since: int) -> bool:
    """Whether the calls are on their own, instead of inside a sentence. Text before `since` is ignored."""
    before, after = _surroundings(text, match, since)
    return _contains(_begins, before) and _ends.match(after) is not None


def _surroundings(text: str, match: TextMatch, since: int) -> tuple[str, str]:
    return text[max(since, match.start - _REACH) : match.start], text[match.end : match.end + _REACH]


def _contains(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


_ALL_FORMATS = {"fence": FENCE} | FORMATS
_openings = join_openings(
    **{name: call_format.opening for name, call_format in _ALL_FORMATS.items()}, thought_end=THINKING_CLOSE
)
_nothing_more = re.compile(rf"(?:\s|{FORMATS['control_tokens'].opening})*+\Z")


def scan_calls(text: str, tools: Collection[str]) -> tuple[tuple[ToolCall, ...], str]:
    """Return the calls of `tools` in a text, and the text without them; no calls if any of them is in doubt."""
    scan = _Scan(text, tools)
    try:
        scan.run()
    except UnreadableError:
        return (), text
    calls = () if scan.has_inline_calls else _calls(text, scan.matches)
    return (calls, _remaining_text(text, scan.matches)) if calls else ((), text)


class _Scan:
    """A pass over a text: its position, and the matches so far.

    Whatever opens first is read to its end: nothing inside an argument is taken for a call. `has_inline_calls` is set
    by a call that other words on its line make doubtful without saying that it is quoted: another call must not run
    without it.
    """

    def __init__(self, text: str, tools: Collection[str]) -> None:
        self.matches: list[TextMatch] = []
        self.has_inline_calls = False
        self._text, self._tools = text, tools
        self._formats: set[str] = set()
        self._pos, self._is_fresh = 0, True

    def run(self) -> None:
        """Read the whole text.

        Raises:
            UnreadableError: the calls in it are ambiguous or cannot be read.
        """
        try:
            self._read_on()
        except UnreadableError:
            closing = late_thinking_close(self._text, self._pos)
            if closing is None:
                raise
            self._take_for_thinking(closing)
            self._read_on()

    def _read_on(self) -> None:
        while True:
            if self._is_fresh and opens_python_call(self._text, self._pos, self._tools):
                self._add("", read_python_calls(self._text, self._pos))
            opening = _openings.search(self._text, self._pos)
            if opening is None:
                return
            name = opening.lastgroup or ""
            if name in _ALL_FORMATS:
                self._add(name, _ALL_FORMATS[name].read(self._text, opening, self._tools))
            else:
                self._take_for_thinking(opening)

    def _take_for_thinking(self, closing: re.Match[str]) -> None:
        thought = thinking_before(closing)
        self.matches, self._formats, self.has_inline_calls = [thought], set(), False
        self._pos, self._is_fresh = thought.end, True

    def _add(self, name: str, match: TextMatch) -> None:
        if match.calls and not self._stands_alone(name, match):
            match = replace(match, calls=(), is_text=True)
        if match.calls:
            self._formats.add(name)
            if len(self._formats) > 1 or not all(self._is_valid(call) for call in match.calls):
                raise UnreadableError
        self._is_fresh = self._is_fresh and not match.is_text and not self._text[self._pos : match.start].strip()
        self.matches.append(match)
        self._pos = match.end

    def _stands_alone(self, name: str, match: TextMatch) -> bool:
        """Return whether the calls are meant as calls. Python calls must be the whole rest of the text."""
        text, since = self._text, self._pos
        is_marked = bool(name) and _ALL_FORMATS[name].is_marked
        if not name and _nothing_more.match(text, match.end):
            return True
        if is_quoted(text, match, since=since, is_marked=is_marked):
            return False
        if is_marked or (name and is_apart(text, match, since=since)):
            return True
        self.has_inline_calls |= all(self._is_valid(call) for call in match.calls)
        return False

    def _is_valid(self, call: ToolCall) -> bool:
        return call.tool in self._tools and is_plain(call.args)


def _calls(text: str, matches: list[TextMatch]) -> tuple[ToolCall, ...]:
    """Return all calls; the first has all thinking as its reasoning."""
    calls = [call for match in matches for call in match.calls]
    thoughts = "\n".join(filter(None, (text[slice(*match.thought)].strip() for match in matches)))
    if calls and thoughts:
        calls[0] = replace(calls[0], reasoning=thoughts)
    return tuple(calls)


def _remaining_text(text: str, matches: list[TextMatch]) -> str:
    """Return the text without the matches, each piece on a separate line."""
    pieces, pos = [], 0
    for match in matches:
        if not match.is_text:
            pieces.append(text[pos : match.start].strip())
            pos = match.end
    pieces.append(text[pos:].strip())
    return "\n".join(filter(None, pieces))
