"""Answers requests that were never recorded along the model calls of a clean run, as one of four kinds of models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Literal, get_args

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.faults import FaultPlan
from offbook.faults.site import mark_of
from offbook.faults.tools import call_in
from offbook.messages import JsonObject, Request, Response, ToolCall, made_tool_calls
from offbook.recording.format.exchange import Condition, Exchange
from offbook.recording.match.conversation import (
    Exchanged,
    Utterance,
    exchanged,
    is_tool_result,
    message_text,
    opening_of,
    reads_like_failure,
)
from offbook.recording.match.cursor import RequestKey
from offbook.recording.match.fingerprint import canonical_bytes, normalise_fields
from offbook.recording.match.mismatch import similarity
from offbook.recording.stores.store import ExchangeIndex, StoredExchange

Continuation = Literal["stubborn", "resigned", "oblivious", "obedient"]
"""A model's behaviour after an unrecorded request: it asks for the failed tool again, says that it gave up, gives the
recorded next answer as if nothing had happened, or first makes the call that an instruction in a tool's result asks
for.
"""

CONTINUATIONS: tuple[Continuation, ...] = get_args(Continuation)

_GO_ON = re.compile(r"continu|go on|carry on|left off|cut off|the rest|keep going|finish", re.IGNORECASE)


def gave_up_mark(plan: FaultPlan) -> str:
    """Return the mark of a model that gives up in a run with this plan, like `gave-up-qgtdbc`."""
    return mark_of(*plan, kind="gave-up")


def gave_up_text(mark: str) -> str:
    """Return the text of a model that gives up. The mark shows where that text turns up."""
    return f"I could not finish this: a step failed ({mark})"


class ScriptedCall(Struct, frozen=True):
    """A model call of the clean run: its place in the script, the canonical fields of its request, and its answer."""

    key: RequestKey
    fields: bytes
    stored: StoredExchange[Exchange]


class WrittenAnswers:
    """Hand-written answers for otherwise unanswered requests, as one run gets them.

    Matching ones are served in order, the last one repeatedly. An equal request gets the same answer. A call without a
    step gets those of any key. `read` returns all of them on demand.
    """

    def __init__(self, read: Callable[[], Sequence[StoredExchange[Exchange]]]) -> None:
        self._read = read
        self._served = set[int]()
        self._given: dict[RequestKey, StoredExchange[Exchange]] = {}

    def find(self, key: RequestKey, condition: Condition | None) -> StoredExchange[Exchange] | None:
        """Return the answer to a request that meets the condition, or None."""
        if key in self._given:
            return self._given[key]
        fitting = [
            each for each in self._read() if each.exchange.when in ("any", condition) and key[0] in ("", each.key)
        ]
        unused = [each for each in fitting if each.id not in self._served]
        if not fitting:
            return None
        found = self._given[key] = (unused or fitting[-1:])[0]
        self._served.add(found.id)
        return found


def written_answers(index: ExchangeIndex[Exchange]) -> list[StoredExchange[Exchange]]:
    """Return the exchanges of a recording that have a condition, in order."""
    return [stored for stored in index if stored.is_conditional]


class ContinuedAnswer(Struct, frozen=True):
    """The answer to a request that was never recorded: an unchanged recorded exchange, or else a response."""

    response: Response
    stored: StoredExchange[Exchange] | None = None


class _Turn(Struct, frozen=True):
    """A model call of the clean run, decoded. `asked` are the texts of its users."""

    call: ScriptedCall
    messages: list[JsonObject]
    asked: frozenset[str]
    tools: frozenset[str]
    response: Response
    said: Utterance


class _ScriptPlace(Struct, frozen=True):
    """The position of a request in a conversation of the clean run.

    `answered` is the place of the model's last recorded answer, or -1. `last` is its last answer, which `is_recorded`
    or not. `failed` are the positions of failed tool calls in it; `is_failure` is set if those or other words report a
    failure. `is_asked_again` is set if the request ends with words that the clean run lacks.
    """

    turns: Sequence[_Turn]
    answered: int
    last: Exchanged | None
    is_recorded: bool
    failed: Sequence[int]
    is_failure: bool
    is_asked_again: bool

    @property
    def next_turn(self) -> _Turn:
        """The recorded call with the next answer, the last one at the end."""
        return self.turns[min(self.answered + 1, len(self.turns) - 1)]

    @property
    def condition(self) -> Condition | None:
        """The condition of hand-written answers that holds here, other than `any`."""
        if self.is_failure:
            return "tool_error"
        return "empty" if self.is_asked_again else None


class ConversationScript:
    """The model calls of the clean run, in order. `read` returns them on demand."""

    def __init__(self, read: Callable[[], Iterable[ScriptedCall]]) -> None:
        self._read = read

    def calls_of(self, step: str) -> list[ScriptedCall]:
        """Return the calls of a step, in order."""
        return [turn.call for turn in self._turns if turn.call.key[0] == step]

    def same_conversation(self, step: str, fields: JsonObject) -> RequestKey | None:
        """Return the key of a call of the step with the same messages to another model, or None.

        Its answer must request only tools that the request offers.
        """
        turn = self._by_messages.get((step, _messages_hash(fields)))
        return turn.call.key if turn is not None and _fits(turn, _tool_names(fields)) else None

    def condition(self, step: str, fields: JsonObject) -> Condition | None:
        """Return the condition of hand-written answers that the request meets, other than `any`."""
        place = self._place(step, fields)
        return None if place is None else place.condition

    def answer(self, step: str, request: Request, continuation: Continuation, mark: str) -> ContinuedAnswer:
        """Return the answer to an unrecorded request of the step.

        If the clean run has no model calls, every model gives up.

        Args:
            mark: is part of the text of a model that gives up.
        """
        fields: JsonObject = {"messages": list(request.messages), "tools": list(request.tools)}
        if continuation == "obedient" and (call := self._injected_call(request)) is not None:
            return ContinuedAnswer(Response("", request.model, finish_reason="tool_calls", tool_calls=(call,)))
        place = self._place(step, fields)
        if place is None or (continuation == "resigned" and self._is_to_resign(place, fields, mark)):
            return _give_up(request, mark)
        if continuation == "stubborn" and place.is_failure and place.is_recorded:
            return self._given(_repeated(place), request, mark)
        if rest := _rest_of(place):
            return ContinuedAnswer(replace(place.next_turn.response, content=rest, tool_calls=(), reasoning=None))
        return self._given(place.next_turn, request, mark)

    def _injected_call(self, request: Request) -> ToolCall | None:
        """Return the call of an offered tool that a new result of a tool asks for, unless the model has made it."""
        made = [
            ToolCall.parse(str(function.get("name")), str(function.get("arguments")))
            for _, function in made_tool_calls(request.messages)
        ]
        for message in filter(is_tool_result, request.messages):
            text = message_text(message)
            wanted = None if text in self.known_texts else call_in(text)
            if wanted is None:
                continue
            tool, arguments = wanted
            offered = sorted(_tool_names({"tools": request.tools})) or [tool]
            name = next((each for each in offered if re.split(r"\.|__", each)[-1] == tool), None)
            if name is not None and not any((each.tool, each.args) == (name, arguments) for each in made):
                return ToolCall(name, arguments, id=f"call_obeyed_{len(request.messages)}")
        return None

    def prepare(self) -> None:
        """Decode the calls now, before processes are forked that would each do it."""
        _ = self.known_texts, self._by_messages, self._conversations

    @cached_property
    def known_texts(self) -> frozenset[str]:
        """The texts of all messages that the clean run sent."""
        return frozenset(message_text(message) for turn in self._turns for message in turn.messages)

    @cached_property
    def _turns(self) -> list[_Turn]:
        return [_decoded(call) for call in self._read()]

    @cached_property
    def _by_messages(self) -> dict[tuple[str, str], _Turn]:
        return {(turn.call.key[0], _messages_hash({"messages": turn.messages})): turn for turn in self._turns}

    def _place(self, step: str, fields: JsonObject) -> _ScriptPlace | None:
        turns = self._conversation(step, fields["messages"])
        return None if not turns else _ScriptWalk(turns, self.known_texts).place_of(fields["messages"])

    def _conversation(self, step: str, messages: Sequence[JsonObject]) -> list[_Turn]:
        """Return the calls of a request's conversation: of the same opening, or the nearest one."""
        conversations = self._conversations.get(step) or self._conversations[None]
        if len(conversations) < 2:
            return conversations[0] if conversations else []
        texts = [message_text(message) for message in messages]
        return max(conversations, key=lambda each: _alikeness(opening_of(each[0].messages), messages, texts))

    @cached_property
    def _conversations(self) -> dict[str | None, list[list[_Turn]]]:
        """The conversations of each step, grouped by opening; under None those of all steps."""
        found: dict[str | None, dict[str, list[_Turn]]] = {None: {}}
        for turn in self._turns:
            opening = "\0".join(message_text(message) for message in opening_of(turn.messages))
            for step in (turn.call.key[0], None):
                found.setdefault(step, {}).setdefault(opening, []).append(turn)
        return {step: list(openings.values()) for step, openings in found.items()}

    def _is_to_resign(self, place: _ScriptPlace, fields: JsonObject, mark: str) -> bool:
        """Return whether a model gives up here: where it is told of a failure, or asked once more."""
        messages = fields["messages"]
        told = [message for message in messages if message.get("role") != "assistant" and message_text(message)]
        return (
            place.is_failure
            or place.is_asked_again
            or any(mark in message_text(message) for message in messages)
            or any(reads_like_failure(message, self.known_texts) for message in told)
        )

    def _given(self, turn: _Turn, request: Request, mark: str) -> ContinuedAnswer:
        """Return the answer of a turn, as it was recorded unless its call ids were used before in this conversation."""
        if not _fits(turn, _tool_names({"tools": request.tools})):
            texts = [each for each in reversed(self._turns) if not each.said.calls and each.said.text]
            return ContinuedAnswer(texts[0].response, texts[0].call.stored) if texts else _give_up(request, mark)
        used = {call_id for each in exchanged(request.messages) for call_id in each.ids}
        is_recorded = any(turn is each for each in self._turns)
        if is_recorded and not any(call.id in used for call in turn.response.tool_calls):
            return ContinuedAnswer(turn.response, turn.call.stored)
        calls = tuple(_with_new_id(call, used) for call in turn.response.tool_calls)
        return ContinuedAnswer(replace(turn.response, tool_calls=calls))


class _ScriptWalk:
    """Follows the answers in a request along a conversation of the clean run."""

    def __init__(self, turns: Sequence[_Turn], known: frozenset[str]) -> None:
        self._turns, self._known = turns, known

    def place_of(self, messages: Sequence[JsonObject]) -> _ScriptPlace:
        answered, last, is_recorded = -1, None, False
        failed: list[int] = []
        is_failure = False
        for each in exchanged(messages):
            found = self._match(each.said, answered, is_repeated=is_failure)
            is_recorded = found is not None
            answered = self._after_words(each.after, answered if found is None else found)
            last, failed = each, each.failed_calls(self._known)
            is_failure = bool(failed) or each.is_answered_by_failure(self._known)
        return _ScriptPlace(
            turns=self._turns,
            answered=answered,
            last=last,
            is_recorded=is_recorded,
            failed=failed,
            is_failure=is_failure,
            is_asked_again=self._is_asked_again(messages),
        )

    def _match(self, said: Utterance, answered: int, *, is_repeated: bool) -> int | None:
        """Return the place of this recorded answer: by its words, or else by its tools."""
        if is_repeated and answered >= 0 and self._is_like(said, answered):
            return answered
        places = [*range(answered + 1, len(self._turns)), *range(answered, -1, -1)]
        spoken = [(place, self._turns[place].said) for place in places]
        exact = (place for place, own in spoken if said == own or (said.calls and said.calls == own.calls))
        parts = (place for place, own in spoken if said.is_part_of(own))
        found = next(chain(exact, parts), None)
        following = answered + 1
        if found is None and following < len(self._turns) and self._is_like(said, following):
            return following
        return found

    def _is_like(self, said: Utterance, place: int) -> bool:
        recorded = self._turns[place].said
        return said == recorded or said.is_part_of(recorded) or (bool(said.calls) and said.tools == recorded.tools)

    def _after_words(self, messages: Sequence[JsonObject], answered: int) -> int:
        """Return the place after a user's words: the answer before the call that first has them."""
        for message in messages:
            if message.get("role") == "user":
                text = message_text(message)
                places = range(answered + 1, len(self._turns))
                first = next((place for place in places if self._is_new(text, place)), 0)
                answered = max(answered, first - 1)
        return answered

    def _is_new(self, text: str, place: int) -> bool:
        """Return whether these words of a user are new in a call."""
        return text in self._turns[place].asked and not (place and text in self._turns[place - 1].asked)

    def _is_asked_again(self, messages: Sequence[JsonObject]) -> bool:
        """Return whether the request ends with an empty answer, or with words that the clean run does not have."""
        if not messages or is_tool_result(messages[-1]):
            return False
        final = messages[-1]
        if final.get("role") == "assistant":
            return True
        has_spoken = any(message.get("role") == "assistant" for message in messages)
        is_longer = len(messages) > len(opening_of(self._turns[0].messages))
        return message_text(final) not in self._known and (has_spoken or is_longer)


def _decoded(call: ScriptedCall) -> _Turn:
    fields = orjson.loads(call.fields)
    response = call.stored.exchange.response(model=str(fields.get("model") or ""), provider="")
    messages = fields["messages"]
    asked = frozenset(message_text(message) for message in messages if message.get("role") == "user")
    return _Turn(call, messages, asked, _tool_names(fields), response, Utterance.of_response(response))


def _tool_names(fields: JsonObject) -> frozenset[str]:
    """Return the names of the tools that a request offers."""
    tools = [tool.get("function", tool) for tool in fields.get("tools") or () if isinstance(tool, dict)]
    return frozenset(str(tool.get("name")) for tool in tools if isinstance(tool, dict))


def _fits(turn: _Turn, offered: frozenset[str]) -> bool:
    """Return whether the answer of a turn requests only offered tools. Without declared tools, all are offered."""
    return set(turn.said.tools) <= offered or not set(turn.said.tools) <= turn.tools


def _messages_hash(fields: JsonObject) -> str:
    return sha256(canonical_bytes(normalise_fields({"messages": fields["messages"]}))).hexdigest()


def _alikeness(opening: Sequence[JsonObject], messages: Sequence[JsonObject], texts: Sequence[str]) -> float:
    """Return the similarity of a request's beginning to an opening: the longest equal one is most similar."""
    if [message_text(message) for message in opening] == texts[: len(opening)]:
        return 100.0 + len(opening)
    return similarity({"messages": list(opening)}, {"messages": list(messages[: len(opening)])})


def _repeated(place: _ScriptPlace) -> _Turn:
    """Return the recorded answer that the model gave last once more: only the tool calls that failed, if any did."""
    turn, last = place.turns[place.answered], place.last
    if last is None or not place.failed:
        return turn
    calls = _recorded_calls(turn, [last.said.calls[position] for position in place.failed])
    if len(calls) == len(turn.response.tool_calls):
        return turn
    return replace(turn, response=replace(turn.response, content="", reasoning=None, tool_calls=tuple(calls)))


def _recorded_calls(turn: _Turn, wanted: Sequence[tuple[str, str]]) -> list[ToolCall]:
    """Return the wanted calls of a turn: with equal arguments, or else of the same tools."""
    calls = list(zip(turn.response.tool_calls, turn.said.calls, strict=True))
    same = [call for call, said in calls if said in wanted]
    return same or [call for call, (name, _) in calls if name in {tool for tool, _ in wanted}]


def _rest_of(place: _ScriptPlace) -> str:
    """Return the rest of a truncated answer, if the model is asked to continue, or ""."""
    last, turn = place.last, place.next_turn
    if last is None or last.said.calls or not last.said.text or turn.said.calls:
        return ""
    is_beginning = turn.response.content.lstrip().startswith(last.said.text) and turn.said.text != last.said.text
    asks_to_go_on = not last.after or any(_GO_ON.search(message_text(message)) for message in last.after)
    return turn.response.content.lstrip()[len(last.said.text) :] if is_beginning and asks_to_go_on else ""


def _give_up(request: Request, mark: str) -> ContinuedAnswer:
    return ContinuedAnswer(Response(gave_up_text(mark), request.model))


def _with_new_id(call: ToolCall, used: set[str]) -> ToolCall:
    """Return the call with an id that is new in the conversation."""
    if call.id is None or call.id not in used:
        return call
    numbers: Iterator[str] = (f"{call.id}_{number}" for number in range(2, len(used) + 3))
    return replace(call, id=next(each for each in numbers if each not in used))
