"""Infers from the conversation of a program with its model which tools the program ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count, islice
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError, ToolArgumentsError
from offbook.explore.run import ToolRun
from offbook.messages import JsonObject, ToolCall
from offbook.tools import ToolSpec
from offbook.tools.effects import UNDECLARED, Effect, EffectOutcome, EffectSource, ToolDeclaration
from offbook.tools.failures import is_failed_result

NO_PATTERNS: Mapping[str, str] = MappingProxyType({})


class ToolResult(Struct, frozen=True):
    """A tool result in a request: its call id, its tool if known, its text, its error mark, and the arguments of its
    call if the request has them."""

    id: str
    tool: str
    text: str
    is_error: bool = False
    arguments: JsonObject | None = None


class ToolTurn(Struct, frozen=True, kw_only=True):
    """A request and the tool calls of its answer. It `is_cut` if not all of the answer arrived.

    `offered` are the schemas of the tools that the request offers, by name.
    """

    results: Sequence[ToolResult] = ()
    offered: Mapping[str, JsonObject] = {}
    asked: Sequence[ToolCall] = ()
    is_cut: bool = False


class InferredTool(Struct, frozen=True, kw_only=True):
    """A tool that the program ran, or may have run, and the result that it sent to the model.

    A tool `was_shown` to run several times if one request has the results of that many equal calls. Of one that
    `is_unseen` it is open whether it ran: the model asked for it again before its result came, not all of the answer
    that asked for it arrived, or the same result was sent twice.
    """

    tool: str
    arguments: JsonObject
    outcome: EffectOutcome
    result: str = ""
    was_shown: bool = False
    is_unseen: bool = False

    def effect(self) -> Effect:
        source: EffectSource = "shown" if self.was_shown else "inferred"
        return Effect(tool=self.tool, arguments=self.arguments, outcome=self.outcome, source=source)


def infer_tools(turns: Iterable[ToolTurn], failed: Mapping[str, str] = NO_PATTERNS) -> list[InferredTool]:
    """Return the tools that the program ran, in the order in which the model asked for them.

    A call ran if a later request has its result, even if the answer that asked for it was cut. It has failed if that
    is the result of a failed tool (`failed` are the declared patterns, by tool). It may have run if no request has its
    result, or if its arguments do not fit. If the model asks for it again before that, as after an answer that the
    program has refused, it is unknown whether it ran. A conversation that is started over may run the same call
    again, and so does a program that sends more results of a call than the model has asked for. Calls whose arguments
    are not JSON are left out.
    """
    pending, sent = _PendingCalls(), _SentResults()
    ended: list[tuple[_PendingCall, InferredTool]] = []
    places = count()
    for turn in turns:
        for call, result in pending.take_answered(turn.results):
            tool = call.ended(result, failed.get(result.tool or call.call.tool))
            ended.append((call, replace(tool, is_unseen=any(call.doubles(*each) for each in ended))))
        for call, results in sent.of_calls(turn.results):
            _add_further(ended, call, results, failed.get(call.call.tool), places)
            _note_shown(ended, call, results)
        asked = list(_pending_calls(turn, places))
        ended += [(call, call.unseen()) for call in pending.drop_repeated(asked) if call.may_have_run]
        pending.add(asked)
        sent.add(asked, turn.results)
    ended += [(call, call.unseen() if call.is_cut else call.unanswered()) for call in pending]
    return [tool for _, tool in sorted(ended, key=lambda each: each[0].place)]


_Ended: TypeAlias = "list[tuple[_PendingCall, InferredTool]]"


def _add_further(
    ended: _Ended, call: _PendingCall, results: Sequence[ToolResult], failed: str | None, places: Iterator[int]
) -> None:
    """Add runs that the program made without being asked: a request has more results than the model made calls.

    A result that stands twice under one id may be a copy.
    """
    same = [place for place, (each, _) in enumerate(ended) if each.is_same(call)]
    answered = sum(ended[place][0].is_answered for place in same)
    dropped = [place for place in same if not ended[place][0].is_answered]
    for number, result in enumerate(results[answered:], answered):
        further = call.again(next(places))
        tool = further.ended(result, failed)
        is_copy = any((each.id, each.text) == (result.id, result.text) for each in results[:number])
        if dropped:
            ended.pop(dropped.pop())
        ended.append((further, replace(tool, is_unseen=is_copy)))


def _note_shown(ended: _Ended, call: _PendingCall, results: Sequence[ToolResult]) -> None:
    """Note which runs of a call have their results in one request: there, the program says so itself."""
    done = [
        place
        for place, (each, tool) in enumerate(ended)
        if each.is_same(call) and tool.outcome == "done" and not tool.is_unseen
    ]
    if min(len(results), len(done)) < 2:
        return
    for place in done[-len(results) :]:
        ended[place] = ended[place][0], replace(ended[place][1], was_shown=True)


def inferred_runs(tools: Sequence[InferredTool], declarations: Mapping[str, ToolDeclaration]) -> tuple[ToolRun, ...]:
    """Return inferred tools as calls of tools that cannot fail."""
    counts, runs = Counter[str](), []
    for each in tools:
        if each.is_unseen:
            continue
        counts[each.tool] += 1
        runs.append(
            ToolRun(
                tool=each.tool,
                call=counts[each.tool],
                arguments=each.arguments,
                result=each.result,
                has_failed=each.outcome == "failed",
                is_observed=False,
                side_effect=declarations.get(each.tool, UNDECLARED).has_effect,
            )
        )
    return tuple(runs)


def unseen_calls(tools: Sequence[InferredTool]) -> tuple[Effect, ...]:
    """Return the calls that may or may not have run."""
    return tuple(each.effect() for each in tools if each.is_unseen)


def inferred_effects(tools: Sequence[InferredTool], declarations: Mapping[str, ToolDeclaration]) -> list[Effect]:
    """Return the effects of inferred tools, unless they are declared to have none."""
    ran = [each for each in tools if not each.is_unseen]
    return [each.effect() for each in ran if not declarations.get(each.tool, UNDECLARED).read_only]


_Key: TypeAlias = tuple[object, ...]


class _PendingCall:
    """A tool call without a result yet.

    `nth` is its number among the calls of that tool in its answer. `before_by_id` and `before_by_tool` are the numbers
    of results that its request already had: vendors without ids, and hand-written recordings, give several calls the
    same id.
    """

    def __init__(self, call: ToolCall, *, place: int, nth: int, turn: ToolTurn) -> None:
        self.call, self.place, self._nth = call, place, nth
        self.before_by_id = sum(each.id == call.id for each in turn.results)
        self.before_by_tool = sum(each.tool == call.tool for each in turn.results)
        self._turn, self._offered, self.is_cut = turn, turn.offered, turn.is_cut
        self._result: str | None = None

    @property
    def by_id(self) -> _Key:
        """The key of its result, and of the same call again if that also has an id."""
        return ("id", self.call.id)

    @property
    def by_tool(self) -> _Key:
        """The key of all calls of its tool."""
        return ("tool", self.call.tool)

    @cached_property
    def by_arguments(self) -> _Key:
        """The key of the same call again, if one of them has no id."""
        return ("arguments", self.call.tool, msgspec.json.encode(self.call.args, order="sorted"), self._nth)

    def ended(self, result: ToolResult, failed: str | None) -> InferredTool:
        tool, arguments, self._result = self.call.tool, self.call.args, result.text
        return InferredTool(tool=tool, arguments=arguments, outcome=self._outcome(result, failed), result=result.text)

    @property
    def is_answered(self) -> bool:
        """Whether it has got its result."""
        return self._result is not None

    def is_same(self, other: _PendingCall) -> bool:
        """Return whether both call the same tool with the same arguments."""
        return self.by_arguments[:-1] == other.by_arguments[:-1]

    def again(self, place: int) -> _PendingCall:
        """Return this call as one that the program makes by itself."""
        return _PendingCall(self.call, place=place, nth=0, turn=self._turn)

    def doubles(self, other: _PendingCall, tool: InferredTool) -> bool:
        """Return whether one answer asked for both, and both have the same result: one run may have made it."""
        return self._turn is other._turn and self.is_same(other) and tool.result == self._result

    def unanswered(self) -> InferredTool:
        outcome: EffectOutcome = "refused" if self._is_refused else "unknown"
        return InferredTool(tool=self.call.tool, arguments=self.call.args, outcome=outcome)

    def unseen(self) -> InferredTool:
        return replace(self.unanswered(), is_unseen=True)

    @property
    def may_have_run(self) -> bool:
        """Whether the program could run it, though no request has its result."""
        return not self._is_refused and _fits(self.call, self._offered)

    @property
    def _is_refused(self) -> bool:
        """Whether the program cannot have run it, because it lacks the tool."""
        return bool(self._offered) and self.call.tool not in self._offered

    def _outcome(self, result: ToolResult, failed: str | None) -> EffectOutcome:
        if self._is_refused:
            return "refused"
        if result.is_error or is_failed_result(result.text, failed):
            return "failed"
        return "done" if _fits(self.call, self._offered) else "unknown"


def _fits(call: ToolCall, offered: Mapping[str, JsonObject]) -> bool:
    """Return whether the arguments fit the schema that the program has declared, as far as it has."""
    spec = offered_tool(call.tool, offered.get(call.tool) or {})
    try:
        if spec is not None:
            spec.check(call.args)
    except ToolArgumentsError:
        return False
    return True


def offered_tool(name: str, schema: JsonObject) -> ToolSpec | None:
    """Return the tool that a request offers, cached, or None if only its vendor understands the schema."""
    return _offered_tool(name, msgspec.json.encode(schema, order="sorted"))


@lru_cache(maxsize=1024)
def _offered_tool(name: str, schema: bytes) -> ToolSpec | None:
    try:
        return ToolSpec(name, parameters=msgspec.json.decode(schema))
    except InputError:
        return None


def _pending_calls(turn: ToolTurn, places: Iterator[int]) -> Iterator[_PendingCall]:
    counts = Counter[str]()
    for call in turn.asked:
        if call.raw_arguments is None:
            counts[call.tool] += 1
            yield _PendingCall(call, place=next(places), nth=counts[call.tool], turn=turn)


class _SentResults:
    """Finds the results of the calls that the model has asked for, whatever ids the program has given these."""

    def __init__(self) -> None:
        self._calls: dict[_Key, _PendingCall] = {}
        self._by_id: defaultdict[str, set[_Key]] = defaultdict(set)
        self._before: dict[_Key, int] = {}

    def add(self, asked: Iterable[_PendingCall], results: Sequence[ToolResult]) -> None:
        """Note calls, and how many results of them were in the conversation before the model asked for any."""
        for call in asked:
            key = call.by_arguments[:-1]
            if call.call.id:
                self._by_id[call.call.id].add(key)
            if key not in self._calls:
                self._calls[key] = call
                self._before[key] = sum(self._key(each) == key for each in results)

    def of_calls(self, results: Sequence[ToolResult]) -> Iterator[tuple[_PendingCall, list[ToolResult]]]:
        """Yield each call with its results in a request, in their order, if there are several."""
        groups: defaultdict[_Key | None, list[ToolResult]] = defaultdict(list)
        for result in results if len(results) > 1 else ():
            groups[self._key(result)].append(result)
        for key, group in groups.items():
            if key is not None and len(group) - self._before[key] > 1:
                yield self._calls[key], group[self._before[key] :]

    def _key(self, result: ToolResult) -> _Key | None:
        """Return the key of the call that a result is of; None if that is not certain."""
        if result.arguments is not None:
            key = ("arguments", result.tool, msgspec.json.encode(result.arguments, order="sorted"))
            if key in self._calls:
                return key
        found = self._by_id.get(result.id, set())
        return next(iter(found)) if len(found) == 1 else None


class _PendingCalls:
    """The calls without a result, in the order of their places, found by their keys."""

    def __init__(self) -> None:
        self._by_key: defaultdict[_Key, dict[int, _PendingCall]] = defaultdict(dict)

    def __iter__(self) -> Iterator[_PendingCall]:
        return iter(self._by_key[()].values())

    def add(self, calls: Iterable[_PendingCall]) -> None:
        for call in calls:
            for key in ((), call.by_id, call.by_tool, call.by_arguments):
                self._by_key[key][call.place] = call

    def drop_repeated(self, asked: Iterable[_PendingCall]) -> list[_PendingCall]:
        """Remove and return the calls that the model asks for again."""
        dropped: dict[int, _PendingCall] = {}
        for call in asked:
            same = [each for each in self._find([call.by_arguments]) if not (each.call.id and call.call.id)]
            if call.call.id:
                same += [each for each in self._find([call.by_id]) if each.call.tool == call.call.tool]
            dropped |= {each.place: each for each in same}
            self._remove(same)
        return list(dropped.values())

    def take_answered(self, results: Sequence[ToolResult]) -> list[tuple[_PendingCall, ToolResult]]:
        """Remove the calls with new results, and return them with these.

        Results are found by their ids, else by the number of results of the tool.
        """
        by_id, by_tool = _grouped(results, "id"), _grouped(results, "tool")
        matched, used = list[tuple[_PendingCall, ToolResult]](), Counter[_Key]()
        for call in self._find(by_id):
            if new := by_id[call.by_id][call.before_by_id :]:
                matched.append((call, new[min(used[call.by_id], len(new) - 1)]))
                used[call.by_id] += 1
        self._remove(call for call, _ in matched)
        taken = {id(result) for _, result in matched}
        for call in self._find(by_tool):
            rest = (each for each in by_tool[call.by_tool][call.before_by_tool :] if id(each) not in taken)
            for result in islice(rest, 1):
                taken.add(id(result))
                matched.append((call, result))
        self._remove(call for call, _ in matched)
        return matched

    def _find(self, keys: Iterable[_Key]) -> list[_PendingCall]:
        found = [call for key in keys if key in self._by_key for call in self._by_key[key].values()]
        return sorted(found, key=lambda call: call.place)

    def _remove(self, calls: Iterable[_PendingCall]) -> None:
        for call in calls:
            for key in ((), call.by_id, call.by_tool, call.by_arguments):
                self._by_key[key].pop(call.place, None)


def _grouped(results: Sequence[ToolResult], name: Literal["id", "tool"]) -> dict[_Key, list[ToolResult]]:
    """Return the results by the keys of their calls."""
    groups: defaultdict[_Key, list[ToolResult]] = defaultdict(list)
    for result in results:
        groups[name, getattr(result, name)].append(result)
    return dict(groups)
