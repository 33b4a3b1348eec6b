"""One pass over a text, from left to right, for the calls in it."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.rescue import fence, prose, python_calls, thinking
from offbook.agent.rescue.families import FAMILIES
from offbook.agent.rescue.found import Found, UnreadableError, joined
from offbook.agent.rescue.json_value import is_plain
from offbook.messages import ToolCall

LONGEST_TEXT = 1_000_000

_FORMS = {"fence": fence.FAMILY} | FAMILIES
_openings = joined(**{name: form.opening for name, form in _FORMS.items()}, thought_end=thinking.CLOSING)
_nothing_more = re.compile(rf"(?:\s|{FAMILIES['marks'].opening})*+\Z")


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
    return Rescue(calls, _rest(text, scan.found)) if calls else Rescue((), text)


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
        self.found: list[Found] = []
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
            closing = thinking.late_closing(self._text, self._pos)
            if closing is None:
                raise
            self._take_for_thinking(closing)
            self._read_on()

    def _read_on(self) -> None:
        while True:
            if self._is_fresh and python_calls.opens(self._text, self._pos, self._tools):
                self._add("", self._whole_python())
            opening = _openings.search(self._text, self._pos)
            if opening is None:
                return
            form = opening.lastgroup or ""
            if form in _FORMS:
                self._add(form, _FORMS[form].read(self._text, opening, self._tools))
            else:
                self._take_for_thinking(opening)

    def _whole_python(self) -> Found:
        """Python calls that are all of the text; before other words they are text themselves."""
        found = python_calls.read_bare(self._text, self._pos)
        is_whole = _nothing_more.match(self._text, found.end) is not None
        return found if is_whole else replace(found, calls=(), is_text=True)

    def _take_for_thinking(self, closing: re.Match[str]) -> None:
        thought = thinking.before(closing)
        self.found, self._forms = [thought], set()
        self._pos, self._is_fresh = thought.end, True

    def _add(self, form: str, found: Found) -> None:
        if found.calls and form and self._is_quoted(form, found):
            found = replace(found, calls=(), is_text=True)
        if found.calls:
            self._forms.add(form)
            if len(self._forms) > 1 or not all(self._is_fit(call) for call in found.calls):
                raise UnreadableError
        self._is_fresh = self._is_fresh and not found.is_text and not self._text[self._pos : found.start].strip()
        self.found.append(found)
        self._pos = found.end

    def _is_quoted(self, form: str, found: Found) -> bool:
        return prose.is_quoted(self._text, found, since=self._pos, is_marked=_FORMS[form].is_marked)

    def _is_fit(self, call: ToolCall) -> bool:
        return call.tool in self._tools and is_plain(call.args)


def _calls(text: str, found: list[Found]) -> tuple[ToolCall, ...]:
    """All calls; what was thought goes with the first."""
    calls = [call for stretch in found for call in stretch.calls]
    thoughts = "\n".join(filter(None, (text[slice(*stretch.thought)].strip() for stretch in found)))
    if calls and thoughts:
        calls[0] = replace(calls[0], reasoning=thoughts)
    return tuple(calls)


def _rest(text: str, found: list[Found]) -> str:
    """What is left of the text, its pieces on lines of their own."""
    pieces, pos = [], 0
    for stretch in found:
        if not stretch.is_text:
            pieces.append(text[pos : stretch.start].strip())
            pos = stretch.end
    pieces.append(text[pos:].strip())
    return "\n".join(filter(None, pieces))
