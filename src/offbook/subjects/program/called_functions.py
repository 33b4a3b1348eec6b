"""Finds a program's tool functions by the noted calls in its processes.

A tool's function is called with the arguments that an answer requests, before the request with the result is answered.
`guest/calls.py` notes the calls.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.decoding import decode
from offbook.explore.observer import offered_tools
from offbook.messages import JsonObject
from offbook.recording.format.exchange import RecordedToolCall
from offbook.wire.session import WireCall
from offbook.wire.tools import TOOLS

Problem: TypeAlias = Literal["", "generator", "lambda", "nested", "hidden"]
"""Why a function cannot be taken over by its name."""

Strength: TypeAlias = Literal["names", "object", "values", "inside"]
"""How a call has a tool's arguments: by name; in one object, or its JSON; as values under other names; or inside an
object that also names the tool.
"""

_STRENGTHS: tuple[Strength, ...] = ("names", "object", "values", "inside")
_MCP_CALL = "mcp.client.session:ClientSession.call_tool"
_MAX_DEPTH = 3
_APART = re.compile(r"[^a-z0-9]+")


class NotedCall(Struct, frozen=True):
    """A call of a function `module:name`, which a file has at this place. `defaults` are arguments that have theirs."""

    function: str
    place: str
    arguments: JsonObject
    at_s: float
    defaults: list[str] = []
    problem: Problem = ""


class AskedCall(Struct):
    """A tool call that an answer requests, and the time in which its function is called."""

    tool: str
    arguments: JsonObject | str
    id: str | None
    after_s: float
    before_s: float = inf


class AskedTools:
    """Collects the tool calls that the models of a run request, in order.

    `offered` are the tools of the requests, `taken` the already taken-over function tools, and `mcp` those of MCP
    servers, as `server.tool`. It `was_called` if there was a model call.
    """

    def __init__(self) -> None:
        self.was_called = False
        self.calls: list[AskedCall] = []
        self.offered: dict[str, None] = {}
        self.taken: set[str] = set()
        self.mcp: set[str] = set()
        self._turns: Counter[str] = Counter()
        self._answered_s: defaultdict[str, float] = defaultdict(float)
        self._open: defaultdict[str, list[AskedCall]] = defaultdict(list)

    def note(self, call: WireCall, turns: Sequence[Sequence[RecordedToolCall]], *, at_s: float) -> None:
        """Note an answered call. `turns` are the tool calls reported to its session so far."""
        if call.vendor == TOOLS:
            self.taken.add(call.place)
        elif call.method == "tools/call":
            self.mcp.add(call.place)
        if not call.call:
            return
        self.was_called = True
        if call.request is not None:
            self.offered |= dict.fromkeys(offered_tools(call.request.tools))
            self._close(call.session, call.request.messages, at_s)
        for turn in list(turns)[self._turns[call.session] :]:
            for each in turn:
                asked = AskedCall(each.name, each.arguments, each.id, self._answered_s[call.session])
                self.calls.append(asked)
                self._open[call.session].append(asked)
        self._turns[call.session], self._answered_s[call.session] = len(turns), at_s

    def _close(self, session: str, messages: Iterable[JsonObject], at_s: float) -> None:
        """End the time of the calls with results in a request. Some APIs have no ids, and need all results."""
        results = {message.get("tool_call_id") for message in messages if message.get("role") == "tool"}
        for asked in self._open[session]:
            if results and (asked.id is None or asked.id in results):
                asked.before_s = at_s
        self._open[session] = [asked for asked in self._open[session] if asked.before_s == inf]


class FoundTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of a program, and its function, if found.

    `others` are other possible functions. `reason` explains a missing or uncertain function.
    """

    tool: str
    status: Literal["found", "taken over", "mcp", "not found", "not asked"]
    function: str = ""
    place: str = ""
    others: list[str] = []
    reason: str = ""


class _Candidate(Struct):
    """A function that was called with the arguments of a tool."""

    function: str
    place: str
    problem: Problem
    strength: Strength
    is_dispatcher: bool
    number: int

    @property
    def is_usable(self) -> bool:
        return not (self.problem or self.is_dispatcher)

    def rank(self, tool: str) -> tuple[object, ...]:
        """Return its place among candidates: the least is the best. Among equals, the outermost call is the first."""
        own, wanted = _last_name(self.function), _plain(tool)
        likeness = 0 if own == wanted else 1 if wanted in own or own in wanted else 2
        return self.is_dispatcher, bool(self.problem), likeness, _STRENGTHS.index(self.strength), self.number


def read_noted_calls(lines: Iterable[bytes]) -> list[NotedCall]:
    """Return the calls in the file of the processes, in the order of their beginnings.

    The last line of a process that was killed may be cut off.
    """
    found = []
    for line in lines:
        try:
            found.append(decode(line, NotedCall))
        except msgspec.DecodeError:
            continue
    return sorted(found, key=lambda call: call.at_s)


def find_tools(asked: AskedTools, noted: Sequence[NotedCall]) -> list[FoundTool]:
    """Return the tools of a run, in the order in which they were requested or offered.

    A function belongs to one tool: of several candidates, the one with its name, if any.
    """
    calls: defaultdict[str, list[AskedCall]] = defaultdict(list)
    for call in asked.calls:
        calls[call.tool].append(call)
    of_mcp = {tool for tool, made in calls.items() if _is_of_mcp(tool, made, asked.mcp, noted)}
    candidates = {
        tool: _candidates(tool, made, noted) for tool, made in calls.items() if tool not in of_mcp | asked.taken
    }
    _refuse_shared(candidates)
    found = []
    for tool in dict.fromkeys([*calls, *asked.offered]):
        if tool in candidates:
            found.append(_chosen(tool, calls[tool], candidates[tool]))
        elif tool in of_mcp:
            found.append(FoundTool(tool=tool, status="mcp"))
        else:
            found.append(FoundTool(tool=tool, status="taken over" if tool in asked.taken else "not asked"))
    return found


def _is_of_mcp(tool: str, made: Sequence[AskedCall], known: Collection[str], noted: Iterable[NotedCall]) -> bool:
    """Return whether calls of a tool went to an MCP server, under any of its names for the model."""
    arguments = [call.arguments for call in made]
    names = {_plain(place.rpartition(".")[2]) for place in known}
    names |= {
        _plain(str(call.arguments.get("name")))
        for call in noted
        if call.function == _MCP_CALL and (call.arguments.get("arguments") or {}) in arguments
    }
    return any(_plain(tool) == name or _plain(tool).endswith(f"_{name}") for name in names)


def _candidates(tool: str, made: Iterable[AskedCall], noted: Sequence[NotedCall]) -> list[_Candidate]:
    """Return the functions that were called with arguments of a tool, best first."""
    found: dict[str, _Candidate] = {}
    for asked in made:
        if not isinstance(asked.arguments, dict):
            continue
        for number, call in enumerate(noted):
            if call.function == _MCP_CALL or not asked.after_s <= call.at_s <= asked.before_s:
                continue
            for strength, rest in _matches(tool, asked.arguments, call):
                is_dispatcher = strength == "inside" or _mentions(rest, tool)
                new = _Candidate(call.function, call.place, call.problem, strength, is_dispatcher, number)
                old = found.get(call.function)
                found[call.function] = new if old is None or new.rank(tool) < old.rank(tool) else old
    return sorted(found.values(), key=lambda each: each.rank(tool))


def _matches(tool: str, wanted: JsonObject, call: NotedCall) -> Iterator[tuple[Strength, JsonObject]]:
    """Yield the ways in which a call has a tool's arguments, with its further arguments."""
    given = call.arguments
    if _is_object(given, wanted):
        rest = {key: value for key, value in given.items() if key not in wanted}
        if wanted or rest.keys() <= set(call.defaults):
            yield "names", rest
    if not wanted:
        return
    for name, value in given.items():
        if _is_object(value, wanted):
            yield "object", {key: each for key, each in given.items() if key != name}
        elif isinstance(value, dict) and _mentions(value, tool) and _holds(value, wanted):
            yield "inside", {}
    others = _without_values(given, wanted)
    if others is not None:
        yield "values", others


def _without_values(given: JsonObject, wanted: JsonObject) -> JsonObject | None:
    """Return arguments without those that have the wanted values, under any name, or None if some are missing."""
    if all(value in (None, True, False, "") for value in wanted.values()):  # too many functions have such an argument
        return None
    left = dict(given)
    for value in wanted.values():
        name = next((name for name, each in left.items() if each == value or str(each) == str(value)), None)
        if name is None:
            return None
        del left[name]
    return left


def _is_object(value: object, wanted: JsonObject) -> bool:
    """Return whether a value is an object with these arguments, or its JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return isinstance(value, dict) and all(key in value and value[key] == each for key, each in wanted.items())


def _holds(value: object, wanted: JsonObject, depth: int = _MAX_DEPTH) -> bool:
    """Return whether an object is, or has inside, one with these arguments. Lists are conversations, not calls."""
    inner = value.values() if isinstance(value, dict) and depth else ()
    return _is_object(value, wanted) or any(_holds(each, wanted, depth - 1) for each in inner)


def _mentions(value: object, tool: str, depth: int = _MAX_DEPTH) -> bool:
    """Return whether a value is the name of a tool, or has it inside."""
    inner = value.values() if isinstance(value, dict) and depth else ()
    return value == tool or any(_mentions(each, tool, depth - 1) for each in inner)


def _refuse_shared(candidates: Mapping[str, Sequence[_Candidate]]) -> None:
    """Make the best functions of several tools dispatchers, except for the tool with their name."""
    while True:
        best: defaultdict[str, list[tuple[str, _Candidate]]] = defaultdict(list)
        for tool, found in candidates.items():
            for each in [each for each in found if each.is_usable][:1]:
                best[each.function].append((tool, each))
        shared = [pairs for pairs in best.values() if len(pairs) > 1]
        if not shared:
            return
        for pairs in shared:
            named = next((each for tool, each in pairs if _has_name(each, tool)), None)
            for _, each in pairs:
                each.is_dispatcher = each is not named


def _chosen(tool: str, made: Sequence[AskedCall], candidates: Sequence[_Candidate]) -> FoundTool:
    """Return a tool with its best candidate, or with the reason why none can be taken over."""
    own = [each for each in candidates if each.is_usable]
    others = [each.function for each in own[1:] if each.strength == own[0].strength]
    is_empty = not any(call.arguments for call in made)
    if is_empty and own and not _has_name(own[0], tool) and others:
        reason = "it has no arguments, and these functions were called without any; write the one that it is"
        return FoundTool(tool=tool, status="not found", others=[each.function for each in own], reason=reason)
    if own:
        best = own[0]
        is_sure = _has_name(best, tool) and best.strength != "values"
        reason = "only the values of the arguments are equal, not their names" if best.strength == "values" else ""
        found = FoundTool(tool=tool, status="found", function=best.function, place=best.place, reason=reason)
        return found if is_sure else replace(found, others=others)
    return FoundTool(tool=tool, status="not found", reason=_reason(tool, made, candidates))


def _reason(tool: str, made: Sequence[AskedCall], candidates: Sequence[_Candidate]) -> str:
    if all(isinstance(call.arguments, str) for call in made):
        return "the model's arguments are not a JSON object"
    if not candidates:
        return (
            "no function of the program was called with its arguments before the next request; if a package runs it, "
            "or the program changes the arguments first, write its function by hand"
        )
    best = next((each for each in candidates if not each.is_dispatcher), candidates[0])
    what = f"{best.function} ({best.place})"
    if not best.problem:
        return (
            f"only {what} was called with its arguments, and that runs several tools; move what it does for {tool} to "
            "a separate function"
        )
    return f"{what} was called with its arguments, and {_PROBLEMS[best.problem]}"


_PROBLEMS: dict[Problem, str] = {
    "generator": "is a generator, whose calls cannot be taken over; let it return its result",
    "lambda": "has no name; define it with def at the top level of a module",
    "nested": "is defined inside another function; move it to the top level of a module",
    "hidden": "its module has no function of that name; define it with def at the top level of a module",
}


def _has_name(candidate: _Candidate, tool: str) -> bool:
    return _last_name(candidate.function) == _plain(tool)


def _last_name(function: str) -> str:
    return _plain(re.split("[:.]", function)[-1])


def _plain(name: str) -> str:
    return _APART.sub("_", name.lower()).strip("_")
