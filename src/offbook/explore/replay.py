"""Replays recorded models and tools for explored runs: repeated requests again, unrecorded ones by a continuation."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias, get_origin

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.explore.options import Divergence
from offbook.messages import JsonObject, Reply, Request, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.exchange import Exchange, error_from_record, json_arguments
from offbook.recording.latency import Latency
from offbook.recording.match.cursor import ExchangeMatch, RequestKey
from offbook.recording.match.fingerprint import fingerprint
from offbook.session.call import ProviderCall
from offbook.session.provider import Playback
from offbook.session.script import ScriptedModels, ScriptedTools
from offbook.tools import ToolDef
from offbook.tools.definition import WrappedTool

_AttemptKey: TypeAlias = tuple[str, str | None, int, int]


class ExploredModels(Provider):
    """Answers the model calls of one run from its `source`.

    `diverged` is the error of the first unrecorded request, if any.
    """

    name = "explore"

    def __init__(self, source: ScriptedModels, divergence: Divergence) -> None:
        self.diverged: RecordingMismatchError | None = None
        self.source, self._divergence = source, divergence
        self._answered: dict[_AttemptKey, RequestKey] = {}
        self._unrecorded = set[_AttemptKey]()
        latency = Latency("replay", latency_ms=0.0, seed=0)
        self._playback = Playback(latency=latency, clock=SYSTEM_CLOCK, provider=self.name)
        self._end: RecordingMismatchError | None = None

    async def send(self, request: Request) -> Reply:
        if self._end is not None:
            raise self._end
        call = ProviderCall(request, fingerprint(request, self.source.tape.rules))
        match = self.source.look_up(call, request.step_id)
        if match.mismatch is not None or match.stored is None:
            return await self._answer_unrecorded(call, match)
        self.source.use(match)
        if match.stored.is_conditional:
            self._unrecorded.add(_attempt_key(request))
        else:
            self._answered[_attempt_key(request)] = match.script_key
        return await self._playback.play(match.exchange, request)

    def take_back(self, request: Request) -> None:
        """Make the answer to this attempt of a call, if it had one, the next one again: it was lost on its way."""
        key = self._answered.pop(_attempt_key(request), None)
        if key is not None:
            self.source.take_back(key)

    def end(self, refusal: RecordingMismatchError) -> None:
        """Answer nothing from now on: a stopped run must not continue, even if it has swallowed the refusal."""
        self._end = self._end or refusal
        self.source.end()

    def is_unrecorded(self, request: Request) -> bool:
        """Return whether the recording had no answer to this attempt of a call."""
        return _attempt_key(request) in self._unrecorded

    async def play_turn(self, request: Request, number: int) -> Reply:
        """Return the recorded answer of the `number`-th call of its step, from 0, for any request.

        The last one repeats. The clean run is a strict replay here as well.
        """
        turn = None if self._end is not None else self.source.turn(request.step_id, number)
        if turn is None or turn.stored is None:
            return await self.send(request)
        return await self._playback.play(turn.exchange, request)

    async def _answer_unrecorded(self, call: ProviderCall, match: ExchangeMatch[Exchange]) -> Reply:
        """Answer according to the policy.

        Raises:
            RecordingMismatchError: the run must stop.
        """
        request, source = call.request, self.source
        self._unrecorded.add(_attempt_key(request))
        if not source.continued_by:
            refusal = source.refusal(call, request.step_id, match)
            self.diverged = self.diverged or refusal
            if not source.can_continue:
                self.end(refusal)
                raise refusal
        if self._divergence.policy == "live":
            source.continued_by = "live"
            return await self._divergence.answer(request)
        answer = source.continued(call, request.step_id)
        if answer is None or (answer.stored is None and answer.given is None):
            return await self._divergence.answer(request)
        if answer.stored is not None:
            return await self._playback.play(answer.exchange, request)
        assert answer.given is not None
        return WholeReply(answer.given)


def _attempt_key(request: Request) -> _AttemptKey:
    return request.workflow, request.step_id, request.call, request.attempt


class RecordedUsers(Provider):
    """Plays simulated users by their own recording: the next recorded turn, whatever the agent says."""

    name = "explore"

    def __init__(self, models: ExploredModels) -> None:
        self._models, self._turns = models, Counter[str | None]()

    async def send(self, request: Request) -> Reply:
        number = self._turns[request.step_id]
        self._turns[request.step_id] += 1
        return await self._models.play_turn(request, number)


class ExploredTools:
    """Answers the tool calls of one run from its `source`. A call that stops the run stops its `models`."""

    def __init__(self, source: ScriptedTools, divergence: Divergence, *, models: ExploredModels) -> None:
        self.source, self._models, self._divergence = source, models, divergence

    def answer(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """Return the result of the call. Raises the error that was recorded, if one was.

        Raises:
            RecordingMismatchError: the run is to stop.
        """
        try:
            match = self.source.find(tool.name, json_arguments(arguments))
        except RecordingMismatchError as refusal:
            self._models.end(refusal)
            raise
        if match.matched_by != "default":
            self.source.use(match)
        if match.stored is None:
            is_default = self._divergence.policy == "default"
            return self._divergence.default_response if is_default else plausible_result(tool)
        exchange = match.exchange
        if exchange.error is not None:
            raise error_from_record(exchange.error, tool=tool)
        return exchange.answer


_PLAUSIBLE: dict[object, Any] = {bool: True, int: 0, float: 0.0, type(None): None, None: None, "None": None}


def plausible_result(tool: ToolDef) -> Any:
    """Return a plausible result of a successful tool by its function's declared type; a text by default."""
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
    """Opens a provider for each request and closes it again, so no run leaves a connection to another.

    Nothing is opened, and no key is needed, before the first request.
    """

    name = "live"

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Provider]]) -> None:
        self._open = open

    async def send(self, request: Request) -> Reply:
        async with self._open() as provider:
            reply = await provider.send(request)
            return WholeReply(await reply.collect())
