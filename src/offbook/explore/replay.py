"""Replays recorded models and tools for explored runs: repeated requests again, unrecorded ones by a continuation."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, TypeAlias, get_origin

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.explore.options import EXPLORE_DIVERGENCE, Divergence
from offbook.messages import JsonObject, Reply, Request, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import E, rules_from_meta
from offbook.recording.format.exchange import Exchange, ToolExchange, error_from_record, hash_arguments, json_arguments
from offbook.recording.latency import Latency
from offbook.recording.match.continuation import (
    Continuation,
    ConversationScript,
    ScriptedCall,
    WrittenAnswers,
    written_answers,
)
from offbook.recording.match.conversation import tells_failure
from offbook.recording.match.cursor import Cursor, ExchangeMatch, RequestKey, ResponseScript, ScriptedRun
from offbook.recording.match.fingerprint import canonical_fields, fingerprint, identify
from offbook.recording.match.mismatch import mismatch_error, nearest_success, tool_mismatch_error
from offbook.recording.replay import Playback
from offbook.recording.stores.store import ExchangeIndex, RecordingReader, StoredExchange
from offbook.tools import ToolDef
from offbook.tools.definition import WrappedTool

_AttemptKey: TypeAlias = tuple[str, str | None, int, int]


class ScriptLine(Struct, frozen=True):
    """A line of a script for another process: the request, the id of its answer, and of a model call the request."""

    key: RequestKey
    answer: int
    fields: bytes = b""


def model_lines(script: ResponseScript[ScriptedCall]) -> tuple[ScriptLine, ...]:
    """Return a script of model calls for another process, which has the same recording."""
    return tuple(ScriptLine(key, call.stored.id, call.fields) for key, call in script.log)


def tool_lines(script: ResponseScript[StoredExchange[ToolExchange]]) -> tuple[ScriptLine, ...]:
    """Return a script of tool calls for another process."""
    return tuple(ScriptLine(key, stored.id) for key, stored in script.log)


class ModelRecording:
    """A recording of models that answers many runs. The first run is the clean one and writes the script."""

    def __init__(self, reader: RecordingReader, divergence: Divergence = EXPLORE_DIVERGENCE) -> None:
        self.reader, self.divergence = reader, divergence
        self.rules = rules_from_meta(reader.meta, source=reader.source)
        self.script: ResponseScript[ScriptedCall] = ResponseScript()
        self.conversations = ConversationScript(lambda: [call for _, call in self.script.log])

    @cached_property
    def written(self) -> list[StoredExchange[Exchange]]:
        """The answers that were written by hand for requests that nothing else answers."""
        return written_answers(self.reader)

    def load(self, lines: Sequence[ScriptLine]) -> None:
        """Take over the script that the clean run wrote in another process."""
        answers = exchanges_by_id(self.reader, lines)
        self.script.load((line.key, ScriptedCall(line.key, line.fields, answers[line.answer])) for line in lines)
        self.conversations.prepare()

    def start_run(self, continuation: Continuation = "stubborn", *, mark: str = "") -> ExploredModels:
        """Return the models of a run: a strict replay first, then one that answers a repeated request again.

        Args:
            continuation: answers what was never recorded, if that is the policy.
            mark: is part of the text of a model that gives up.
        """
        return ExploredModels(self, self.script.start_run(), continuation, mark)


class ToolRecording:
    """A recording of tools that answers many runs. The first run is the clean one and writes the script."""

    def __init__(self, index: ExchangeIndex[ToolExchange], divergence: Divergence = EXPLORE_DIVERGENCE) -> None:
        self.index, self.divergence = index, divergence
        self.script: ResponseScript[StoredExchange[ToolExchange]] = ResponseScript()

    @property
    def is_empty(self) -> bool:
        return len(self.index) == 0

    def load(self, lines: Sequence[ScriptLine]) -> None:
        """Take over the script that the clean run wrote in another process."""
        answers = exchanges_by_id(self.index, lines)
        self.script.load((line.key, answers[line.answer]) for line in lines)

    def start_run(self, continuation: Continuation = "stubborn") -> ExploredTools:
        """Return the tools of a run: a strict replay first, then one that answers a repeated call again."""
        return ExploredTools(self, self.script.start_run(), continuation)


def exchanges_by_id(index: ExchangeIndex[E], lines: Sequence[ScriptLine]) -> dict[int, StoredExchange[E]]:
    """Return the exchanges that answer the lines of a script, by their ids."""
    wanted = {line.answer for line in lines}
    return {stored.id: stored for stored in index if stored.id in wanted}


class ExploredModels(Provider):
    """Answers the model calls of one run.

    `on_diverged` is called with the first request that was never recorded, and `continued_by` names what answered such
    requests: a continuation, `default` or `live`; it is empty if nothing had to.
    """

    name = "explore"

    def __init__(
        self, recording: ModelRecording, run: ScriptedRun[ScriptedCall], continuation: Continuation, mark: str
    ) -> None:
        self.on_diverged: Callable[[str], object] = lambda _: None
        self.continued_by = ""
        self._recording, self._run, self._continuation, self._mark = recording, run, continuation, mark
        self._cursor: Cursor[Exchange] = Cursor(recording.reader)
        self._written = WrittenAnswers(lambda: recording.written)
        self._answered: dict[_AttemptKey, RequestKey] = {}
        self._unrecorded = set[_AttemptKey]()
        latency = Latency("replay", latency_ms=0.0, seed=0)
        self._playback = Playback(latency=latency, clock=SYSTEM_CLOCK, provider=self.name)
        self._end: RecordingMismatchError | None = None

    async def send(self, request: Request) -> Reply:
        if self._end is not None:
            raise self._end
        key = (request.step_id or "", fingerprint(request, self._recording.rules))
        call = self._run.next_answer(key)
        if call is None:
            match = self._cursor.match(request.step_id, key[1])
            call = self._recorded(key, match, request) or self._asked_of_another_model(request)
        if call is None:
            return await self._answer_unrecorded(key, match, request)
        self._use(call)
        self._answered[_attempt_key(request)] = call.key
        return await self._playback.play(call.stored.exchange, request)

    def take_back(self, request: Request) -> None:
        """Make the answer to this attempt of a call, if it had one, the next one again: it was lost on its way."""
        key = self._answered.pop(_attempt_key(request), None)
        if key is not None:
            self._run.take_back(key)

    def end(self, refusal: RecordingMismatchError) -> None:
        """Answer nothing any more: a run that was stopped must not go on, even if it has swallowed the refusal."""
        self._end = refusal

    def is_unrecorded(self, request: Request) -> bool:
        """Return whether the recording had no answer to this attempt of a call."""
        return _attempt_key(request) in self._unrecorded

    def tells_failure(self, request: Request) -> bool:
        """Return whether the request tells its model of a failure that the clean run did not have."""
        if self._run.is_first:
            return False
        return tells_failure(request.messages, self._recording.conversations.known_texts)

    async def play_turn(self, request: Request, number: int) -> Reply:
        """Return the recorded answer of the `number`-th call of its step, from 0, whatever is asked.

        After the last one it is given again. The clean run is a strict replay here too.
        """
        calls = [] if self._run.is_first else self._recording.conversations.calls_of(request.step_id or "")
        if not calls or self._end is not None:
            return await self.send(request)
        return await self._playback.play(calls[min(number, len(calls) - 1)].stored.exchange, request)

    def _recorded(self, key: RequestKey, match: ExchangeMatch[Exchange], request: Request) -> ScriptedCall | None:
        """Return the recorded exchange that answers; in a later run only one of that very request may."""
        stored = match.stored
        if stored is None or match.mismatch is not None or not self._run.accepts(key, stored.fingerprint):
            return None
        fields = identify(request, self._recording.rules)[1] if self._run.is_first else b""
        return ScriptedCall(key, fields, stored)

    def _asked_of_another_model(self, request: Request) -> ScriptedCall | None:
        """Return the answer to the same messages, which the clean run sent to another model."""
        if self._run.is_first:
            return None
        fields = canonical_fields(request)
        key = self._recording.conversations.same_conversation(request.step_id or "", fields)
        return None if key is None else self._run.next_answer(key)

    def _use(self, call: ScriptedCall) -> None:
        self._cursor.use(call.stored)
        self._run.use(call.key, call)

    async def _answer_unrecorded(self, key: RequestKey, match: ExchangeMatch[Exchange], request: Request) -> Reply:
        """Answer by what was written by hand, else by the policy.

        Raises:
            RecordingMismatchError: the run is to stop.
        """
        recording = self._recording
        self._unrecorded.add(_attempt_key(request))
        if recording.written and not self._run.is_first:
            condition = recording.conversations.condition(key[0], canonical_fields(request))
            written = self._written.find(key, condition)
            if written is not None:
                return await self._playback.play(written.exchange, request)
        if not self.continued_by:
            refusal = mismatch_error(request, match, recording.reader, recording.rules)
            self.on_diverged(str(refusal))
            if self._run.is_first or recording.divergence.policy == "stop":
                self.end(refusal)
                raise refusal
        return await self._continue(key[0], request)

    async def _continue(self, step: str, request: Request) -> Reply:
        """Answer as the policy says; a run that the clean run says nothing about is answered as one that gives up."""
        divergence = self._recording.divergence
        if divergence.policy != "explore":
            self.continued_by = divergence.policy
            return await divergence.answer(request)
        self.continued_by = self._continuation
        answer = self._recording.conversations.answer(step, request, self._continuation, self._mark)
        if answer.stored is None:
            return WholeReply(answer.response)
        return await self._playback.play(answer.stored.exchange, request)


def _attempt_key(request: Request) -> _AttemptKey:
    return request.workflow, request.step_id, request.call, request.attempt


class RecordedUsers(Provider):
    """Plays simulated users by their own recording: their next recorded turn follows, whatever the agent has said."""

    name = "explore"

    def __init__(self, models: ExploredModels) -> None:
        self._models, self._turns = models, Counter[str | None]()

    async def send(self, request: Request) -> Reply:
        number = self._turns[request.step_id]
        self._turns[request.step_id] += 1
        return await self._models.play_turn(request, number)


class ExploredTools:
    """Answers the tool calls of one run.

    `on_diverged` is called with each call that was never recorded, `on_end` with the refusal that ends the run.
    `continued_by` names what answered such calls; it is empty if nothing had to.
    """

    def __init__(
        self, recording: ToolRecording, run: ScriptedRun[StoredExchange[ToolExchange]], continuation: Continuation
    ) -> None:
        self.on_diverged: Callable[[str], object] = lambda _: None
        self.on_end: Callable[[RecordingMismatchError], object] = lambda _: None
        self.continued_by = ""
        self._recording, self._run, self._continuation = recording, run, continuation
        self._cursor: Cursor[ToolExchange] = Cursor(recording.index)

    def answer(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """Return the result of the call. Raises the error that was recorded, if one was."""
        given = json_arguments(arguments)
        stored = self._find(tool.name, given)
        if stored is None:
            return self._answer_unrecorded(tool, given)
        if stored.exchange.error is not None:
            raise error_from_record(stored.exchange.error, tool=tool)
        return stored.exchange.answer

    def _find(self, tool: str, arguments: JsonObject) -> StoredExchange[ToolExchange] | None:
        """Return what answers: by the script, else the recorded exchange of that very call. It counts as served."""
        key = (tool, hash_arguments(arguments))
        stored = self._run.next_answer(key)
        if stored is None:
            match = self._match(key)
            stored = match.stored
            if stored is None or match.mismatch is not None or not self._run.accepts(key, stored.fingerprint):
                return None
        self._cursor.use(stored)
        self._run.use(key, stored)
        return stored

    def _match(self, key: RequestKey) -> ExchangeMatch[ToolExchange]:
        return self._cursor.match_key(key[0], "step_id", key[1]) or ExchangeMatch("default", mismatch="missing")

    def _answer_unrecorded(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """Answer by the policy. Raises RecordingMismatchError if the run is to stop."""
        match = self._match((tool.name, hash_arguments(arguments)))
        refusal = tool_mismatch_error(tool.name, arguments, match, self._recording.index)
        self.on_diverged(str(refusal))
        divergence = self._recording.divergence
        if self._run.is_first or divergence.policy in ("stop", "live"):
            self.on_end(refusal)
            raise refusal
        self.continued_by = divergence.policy if divergence.policy == "default" else self._continuation
        if divergence.policy == "default":
            return divergence.default_response
        nearest = nearest_success(self._recording.index, tool.name, arguments)
        return plausible_result(tool) if nearest is None else nearest.answer


_PLAUSIBLE: dict[object, Any] = {bool: True, int: 0, float: 0.0, type(None): None, None: None, "None": None}


def plausible_result(tool: ToolDef) -> Any:
    """Return what a tool that has succeeded might return, by the type that its function declares; a text by default."""
    while isinstance(tool, WrappedTool):
        tool = tool.original
    try:
        declared = inspect.signature(tool.callable, eval_str=True).return_annotation
    except (NameError, TypeError, ValueError):
        declared = str
    kind = get_origin(declared) or declared
    if kind in (dict, list, tuple, set):
        return {"status": "ok"} if kind is dict else []
    return _PLAUSIBLE.get(kind, "ok") if isinstance(kind, type) or kind is None else "ok"


class LazyProvider(Provider):
    """Opens a provider for each request, asks it, and closes it: no run leaves a connection to another.

    Nothing is opened, and no key is needed, before the first request.
    """

    name = "live"

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Provider]]) -> None:
        self._open = open

    async def send(self, request: Request) -> Reply:
        async with self._open() as provider:
            reply = await provider.send(request)
            return WholeReply(await reply.collect())
