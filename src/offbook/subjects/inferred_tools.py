"""Infers from the conversation of a program with its model which tools the program ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct

from offbook.effects import Effect, EffectOutcome
from offbook.errors import InputError, ToolArgumentsError
from offbook.messages import JsonObject, ToolCall
from offbook.recording.match.conversation import reads_like_failure
from offbook.tools import ToolSpec


class ToolResult(Struct, frozen=True):
    """A result of a tool in a request: the id of its call, the tool if that is known, and the text."""

    id: str
    tool: str
    text: str


class Turn(Struct, frozen=True, kw_only=True):
    """A request and the tool calls of its answer; none if the answer did not arrive.

    `offered` are the schemas of the tools that the request offers, by name.
    """

    results: Sequence[ToolResult] = ()
    offered: Mapping[str, JsonObject] = {}
    asked: Sequence[ToolCall] = ()


class InferredTool(Struct, frozen=True, kw_only=True):
    """A tool that the program ran, or may have run, and the result that it sent to the model."""

    tool: str
    arguments: JsonObject
    outcome: EffectOutcome
    result: str = ""

    def effect(self) -> Effect:
        return Effect(tool=self.tool, arguments=self.arguments, outcome=self.outcome, source="inferred")


def infer_tools(turns: Iterable[Turn]) -> list[InferredTool]:
    """Return the tools that the program ran, in the order in which the model asked for them.

    A call ran if a later request has its result. It may have run if none has, or one that reads like a failure. If the
    model asks for it again before that, as after an answer that the program has refused, it did not run. A conversation
    that is started over may run the same call again. Calls whose arguments are not JSON are left out.
    """
    pending: list[_PendingCall] = []
    ended: list[tuple[int, InferredTool]] = []
    places = count()
    for turn in turns:
        answered = _match(pending, turn.results)
        pending = [call for call in pending if all(call is not other for other, _ in answered)]
        ended += [(call.place, call.ended(result.text)) for call, result in answered]
        asked = list(_pending_calls(turn, places))
        pending = [call for call in pending if not any(call.is_same(other) for other in asked)] + asked
    ended += [(call.place, call.unanswered()) for call in pending]
    return [tool for _, tool in sorted(ended, key=lambda each: each[0])]


class _PendingCall:
    """A tool call without a result yet.

    `nth` is its number among the calls of that tool in its answer, and `before` are the results that its request had
    already: vendors without ids, and recordings that were written by hand, give the same id to several calls.
    """

    def __init__(self, call: ToolCall, *, place: int, nth: int, turn: Turn) -> None:
        self.call, self.place, self.nth = call, place, nth
        self._before, self._offered = turn.results, turn.offered

    def new_results(self, results: Sequence[ToolResult], *, by_id: bool = False) -> list[ToolResult]:
        """Return the results of its tool, or of its id, beyond those that its request had."""
        if by_id:
            known = sum(each.id == self.call.id for each in self._before)
            return [each for each in results if each.id == self.call.id][known:]
        known = sum(each.tool == self.call.tool for each in self._before)
        return [each for each in results if each.tool == self.call.tool][known:]

    def is_same(self, other: _PendingCall) -> bool:
        if self.call.id and other.call.id:
            return (self.call.id, self.call.tool) == (other.call.id, other.call.tool)
        return (self.call.tool, self.call.args, self.nth) == (other.call.tool, other.call.args, other.nth)

    def ended(self, text: str) -> InferredTool:
        tool, arguments = self.call.tool, self.call.args
        return InferredTool(tool=tool, arguments=arguments, outcome=self._outcome(text), result=text)

    def unanswered(self) -> InferredTool:
        outcome: EffectOutcome = "refused" if self._is_refused else "unknown"
        return InferredTool(tool=self.call.tool, arguments=self.call.args, outcome=outcome)

    @property
    def _is_refused(self) -> bool:
        """Whether the program cannot have run it, as it has no such tool."""
        return bool(self._offered) and self.call.tool not in self._offered

    def _outcome(self, text: str) -> EffectOutcome:
        if self._is_refused:
            return "refused"
        has_failed = reads_like_failure({"role": "tool", "content": text})
        return "done" if _fits(self.call, self._offered) and not has_failed else "unknown"


def _fits(call: ToolCall, offered: Mapping[str, JsonObject]) -> bool:
    """Return whether the arguments fit the schema that the program has declared, as far as it has."""
    schema = offered.get(call.tool)
    try:
        ToolSpec(call.tool, parameters=schema or {}).check(call.args)
    except ToolArgumentsError:
        return False
    except InputError:  # a schema that only its vendor understands
        return True
    return True


def _pending_calls(turn: Turn, places: Iterator[int]) -> Iterator[_PendingCall]:
    counts = Counter[str]()
    for call in turn.asked:
        if call.raw_arguments is None:
            counts[call.tool] += 1
            yield _PendingCall(call, place=next(places), nth=counts[call.tool], turn=turn)


def _match(pending: Sequence[_PendingCall], results: Sequence[ToolResult]) -> list[tuple[_PendingCall, ToolResult]]:
    """Return the calls whose results are new, with those: by their ids, else by the number of results of the tool."""
    matched = [(call, new[-1]) for call in pending if (new := call.new_results(results, by_id=True))]
    for call in pending:
        if all(call is not other for other, _ in matched):
            rest = [each for each in call.new_results(results) if all(each is not other for _, other in matched)]
            matched += [(call, each) for each in rest[:1]]
    return matched
