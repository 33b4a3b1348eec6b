"""Scans a text once, from left to right, for calls in it; calls that the prose only quotes are left out."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.rescue import formats
from offbook.agent.rescue.call_format import CallFormat, TextMatch, UnreadableError, join_openings
from offbook.agent.rescue.formats import FORMATS
from offbook.agent.rescue.json_value import is_plain
from offbook.messages import ToolCall

_fenced_openings = join_openings(**{name: family.opening for name, family in FORMATS.items()})
_fence_close = re.compile(r"\s*+(?:```|\Z)")
_fence_gap = re.compile(r"[\s,;]*+")


def read_fence(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """The calls of a block; a block with anything else in it is text, and is not looked into.

    Raises:
        UnreadableError: it starts like a call and cannot be read on.
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
    if formats.opens_python_call(text, pos, tools):
        try:
            return formats.read_python_calls(text, pos)
        except UnreadableError:
            return None
    opening = _fenced_openings.match(text, pos)
    found = FORMATS[opening.lastgroup or ""].read(text, opening, tools) if opening else None
    return found if found and found.calls else None


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


def is_quoted(text: str, found: TextMatch, *, since: int, is_marked: bool) -> bool:
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
        is_shown = _contains(_showing, lead_in) and not _contains(_finished, lead_in)
        return is_code or is_shown or _contains(_showing, next_line)
    is_apart = _contains(_begins, before) and _ends.match(after) is not None
    return not is_apart or "?" in follow_up or _contains(_hedged_before, lead_in) or _contains(_hedged_after, next_line)


def _contains(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


LONGEST_TEXT = 1_000_000

_ALL_FORMATS = {"fence": FENCE} | FORMATS
_openings = join_openings(
    **{name: form.opening for name, form in _ALL_FORMATS.items()}, thought_end=formats.THINKING_CLOSE
)
_nothing_more = re.compile(rf"(?:\s|{FORMATS['control_tokens'].opening})*+\Z")


class Rescue(Struct, frozen=True):
    """The calls found in a text, and what is left of it besides them; without calls that is the whole text."""

    calls: tuple[ToolCall, ...]
    text: str


def rescue(text: str, tools: Collection[str]) -> Rescue:
    """The calls of `tools` that a model wrote as text.

    They are all of the calls in the text, or none: a call of another tool, one that breaks off or cannot
    be read, calls in different forms, and texts of more than a million characters yield nothing. What the
    model thought aloud is the `reasoning` of the first call, and nothing in it is a call. Never raises;
    takes time in proportion to the length of the text.
    """
    if not _may_hold_calls(text, tools):
        return Rescue((), text)
    scan = _Scan(text, tools)
    try:
        scan.run()
    except UnreadableError:
        return Rescue((), text)
    calls = _calls(text, scan.found)
    return Rescue(calls, _remaining_text(text, scan.found)) if calls else Rescue((), text)


def _may_hold_calls(text: str, tools: Collection[str]) -> bool:
    """Quick, and never wrong in saying no."""
    if "{" not in text and "<" not in text and "(" not in text:
        return False
    return len(text) <= LONGEST_TEXT and any(name in text for name in tools)


class _Scan:
    """A pass over a text: where it has come to, and what it has found.

    Whatever opens first is read to its end, so that nothing inside an argument is taken for a call.
    """

    def __init__(self, text: str, tools: Collection[str]) -> None:
        self.found: list[TextMatch] = []
        self._text, self._tools = text, tools
        self._forms: set[str] = set()
        self._pos, self._is_fresh = 0, True

    def run(self) -> None:
        """Read all of the text.

        Raises:
            UnreadableError: there may be calls in it, but not surely these.
        """
        try:
            self._read_on()
        except UnreadableError:
            closing = formats.late_thinking_close(self._text, self._pos)
            if closing is None:
                raise
            self._take_for_thinking(closing)
            self._read_on()

    def _read_on(self) -> None:
        while True:
            if self._is_fresh and formats.opens_python_call(self._text, self._pos, self._tools):
                self._add("", self._whole_python())
            opening = _openings.search(self._text, self._pos)
            if opening is None:
                return
            form = opening.lastgroup or ""
            if form in _ALL_FORMATS:
                self._add(form, _ALL_FORMATS[form].read(self._text, opening, self._tools))
            else:
                self._take_for_thinking(opening)

    def _whole_python(self) -> TextMatch:
        """Python calls that are all of the text; before other words they are text themselves."""
        found = formats.read_python_calls(self._text, self._pos)
        is_whole = _nothing_more.match(self._text, found.end) is not None
        return found if is_whole else replace(found, calls=(), is_text=True)

    def _take_for_thinking(self, closing: re.Match[str]) -> None:
        thought = formats.thinking_before(closing)
        self.found, self._forms = [thought], set()
        self._pos, self._is_fresh = thought.end, True

    def _add(self, form: str, found: TextMatch) -> None:
        if found.calls and form and self._is_quoted(form, found):
            found = replace(found, calls=(), is_text=True)
        if found.calls:
            self._forms.add(form)
            if len(self._forms) > 1 or not all(self._is_fit(call) for call in found.calls):
                raise UnreadableError
        self._is_fresh = self._is_fresh and not found.is_text and not self._text[self._pos : found.start].strip()
        self.found.append(found)
        self._pos = found.end

    def _is_quoted(self, form: str, found: TextMatch) -> bool:
        return is_quoted(self._text, found, since=self._pos, is_marked=_ALL_FORMATS[form].is_marked)

    def _is_fit(self, call: ToolCall) -> bool:
        return call.tool in self._tools and is_plain(call.args)


def _calls(text: str, found: list[TextMatch]) -> tuple[ToolCall, ...]:
    """All calls; what was thought goes with the first."""
    calls = [call for stretch in found for call in stretch.calls]
    thoughts = "\n".join(filter(None, (text[slice(*stretch.thought)].strip() for stretch in found)))
    if calls and thoughts:
        calls[0] = replace(calls[0], reasoning=thoughts)
    return tuple(calls)


def _remaining_text(text: str, found: list[TextMatch]) -> str:
    """What is left of the text, its pieces on lines of their own."""
    pieces, pos = [], 0
    for stretch in found:
        if not stretch.is_text:
            pieces.append(text[pos : stretch.start].strip())
            pos = stretch.end
    pieces.append(text[pos:].strip())
    return "\n".join(filter(None, pieces))
