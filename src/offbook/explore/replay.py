"""Replays recorded models and tools for explored runs, and accepts repeated requests after a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.explore.options import STOP_ON_DIVERGENCE, Divergence
from offbook.messages import JsonObject, Reply, Request, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import E, rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange, error_from_record, hash_arguments, json_arguments
from offbook.recording.latency import Latency
from offbook.recording.match.cursor import Cursor, ExchangeMatch, RequestKey, ResponseScript, ScriptedRun
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.match.mismatch import mismatch_error, tool_mismatch_error
from offbook.recording.replay import Playback
from offbook.recording.stores.store import ExchangeIndex, RecordingReader, StoredExchange
from offbook.tools import ToolDef

_AttemptKey: TypeAlias = tuple[str, str | None, int, int]
ScriptLine: TypeAlias = tuple[RequestKey, int]
"""A request of the clean run, and the id of the exchange that answered it."""


def script_lines(script: ResponseScript[StoredExchange[E]]) -> tuple[ScriptLine, ...]:
    """Return a script as plain values, which another process can load."""
    return tuple((key, stored.id) for key, stored in script.log)


def load_script(
    script: ResponseScript[StoredExchange[E]], lines: Iterable[ScriptLine], index: ExchangeIndex[E]
) -> None:
    """Load a script that another process wrote on the same recording."""
    stored = {each.id: each for each in index}
    script.load((key, stored[number]) for key, number in lines)


class ModelRecording:
    """A recording of models that answers many runs. The first run is the clean one and writes the script."""

    def __init__(self, reader: RecordingReader, divergence: Divergence = STOP_ON_DIVERGENCE) -> None:
        self.reader, self.divergence = reader, divergence
        self.rules = rules_from_meta(reader.meta, source=reader.source)
        self.script: ResponseScript[StoredExchange[Exchange]] = ResponseScript()

    def start_run(self) -> ExploredModels:
        """Return the models of a run: a strict replay first, then one that answers a repeated request again."""
        return ExploredModels(self, self.script.start_run())


class ToolRecording:
    """A recording of tools that answers many runs. The first run is the clean one and writes the script."""

    def __init__(self, index: ExchangeIndex[ToolExchange], divergence: Divergence = STOP_ON_DIVERGENCE) -> None:
        self.index, self.divergence = index, divergence
        self.script: ResponseScript[StoredExchange[ToolExchange]] = ResponseScript()

    @property
    def is_empty(self) -> bool:
        return len(self.index) == 0

    def start_run(self) -> ExploredTools:
        """Return the tools of a run: a strict replay first, then one that answers a repeated call again."""
        return ExploredTools(self, self.script.start_run())


class _ScriptedReplay(Generic[E]):
    """Finds what answers the requests of one run. `on_diverged` is called with what was never recorded."""

    def __init__(
        self, index: ExchangeIndex[E], run: ScriptedRun[StoredExchange[E]], *, continues_after_divergence: bool
    ) -> None:
        self._cursor, self._run = Cursor(index), run
        self._continues = continues_after_divergence and not run.is_first
        self.on_diverged: Callable[[str], object] = lambda _: None

    def find(
        self,
        key: RequestKey,
        match: Callable[[], ExchangeMatch[E]],
        refuse: Callable[[ExchangeMatch[E]], RecordingMismatchError],
    ) -> StoredExchange[E] | None:
        """Return what answers: by the script, else the recorded exchange of that very request. It counts as served.

        Returns None if the run continues without a recorded answer.

        Raises:
            RecordingMismatchError: by `refuse`, if the run is to stop.
        """
        stored = self._run.next_answer(key)
        if stored is None:
            found = match()
            stored = found.stored
            if stored is None or found.mismatch is not None or not self._run.accepts(key, stored.fingerprint):
                self._diverge(refuse(found))
                return None
        self._cursor.use(stored)
        self._run.use(key, stored)
        return stored

    def _diverge(self, refusal: RecordingMismatchError) -> None:
        self.on_diverged(str(refusal))
        if not self._continues:
            raise refusal


class ExploredModels(_ScriptedReplay[Exchange], Provider):
    """Answers the model calls of one run."""

    name = "explore"

    def __init__(self, recording: ModelRecording, run: ScriptedRun[StoredExchange[Exchange]]) -> None:
        continues = recording.divergence.policy != "stop"
        super().__init__(recording.reader, run, continues_after_divergence=continues)
        self._recording = recording
        self._answered: dict[_AttemptKey, RequestKey] = {}
        latency = Latency("replay", latency_ms=0.0, seed=0)
        self._playback = Playback(latency=latency, clock=SYSTEM_CLOCK, provider=self.name)
        self._end: RecordingMismatchError | None = None

    async def send(self, request: Request) -> Reply:
        if self._end is not None:
            raise self._end
        key = (request.step_id or "", fingerprint(request, self._recording.rules))
        try:
            stored = self.find(
                key,
                lambda: self._cursor.match(request.step_id, key[1]),
                lambda match: mismatch_error(request, match, self._recording.reader, self._recording.rules),
            )
        except RecordingMismatchError as refusal:
            self.end(refusal)
            raise
        if stored is None:
            return await self._recording.divergence.answer(request)
        self._answered[_attempt_key(request)] = key
        return await self._playback.play(stored.exchange, request)

    def take_back(self, request: Request) -> None:
        """Make the answer to this attempt of a call, if it had one, the next one again: it was lost on its way."""
        key = self._answered.pop(_attempt_key(request), None)
        if key is not None:
            self._run.take_back(key)

    def end(self, refusal: RecordingMismatchError) -> None:
        """Answer nothing any more: a run that was stopped must not go on, even if it has swallowed the refusal."""
        self._end = refusal


def _attempt_key(request: Request) -> _AttemptKey:
    return request.workflow, request.step_id, request.call, request.attempt


class ExploredTools(_ScriptedReplay[ToolExchange]):
    """Answers the tool calls of one run. `on_end` is called with the refusal that ends the run."""

    def __init__(self, recording: ToolRecording, run: ScriptedRun[StoredExchange[ToolExchange]]) -> None:
        continues = recording.divergence.policy == "default"
        super().__init__(recording.index, run, continues_after_divergence=continues)
        self._recording = recording
        self.on_end: Callable[[RecordingMismatchError], object] = lambda _: None

    def answer(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """Return the result of the call. Raises the error that was recorded, if one was."""
        stored = self._find_call(tool.name, json_arguments(arguments))
        if stored is None:
            return self._recording.divergence.default_response
        if stored.exchange.error is not None:
            raise error_from_record(stored.exchange.error, tool=tool)
        return stored.exchange.answer

    def _find_call(self, tool: str, arguments: JsonObject) -> StoredExchange[ToolExchange] | None:
        key = (tool, hash_arguments(arguments))
        try:
            return self.find(
                key,
                lambda: self._cursor.match_key(tool, "step_id", key[1]) or ExchangeMatch("default", mismatch="missing"),
                lambda match: tool_mismatch_error(tool, arguments, match, self._recording.index),
            )
        except RecordingMismatchError as refusal:
            self.on_end(refusal)
            raise


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
