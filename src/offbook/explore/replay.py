"""Replays recorded models and tools for explored runs, and accepts repeated requests after a fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.explore.options import STOP_ON_DIVERGENCE, Divergence
from offbook.messages import JsonObject, Reply, Request, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange, error_from_record, hash_arguments, json_arguments
from offbook.recording.latency import Latency
from offbook.recording.match.cursor import Cursor, ExchangeMatch, ResponseScript, ScriptReader
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.match.mismatch import mismatch_error, tool_mismatch_error
from offbook.recording.replay import Playback
from offbook.recording.stores.store import ExchangeIndex, RecordingReader, StoredExchange
from offbook.tools import ToolDef

_AttemptKey: TypeAlias = tuple[str, str | None, int, int]


class ModelRecording:
    """A recording of models that many runs are answered from. The first run is the clean one and writes the script."""

    def __init__(self, shelf: RecordingReader, divergence: Divergence = STOP_ON_DIVERGENCE) -> None:
        self.shelf, self.divergence = shelf, divergence
        self.rules = rules_from_meta(shelf.meta, source=shelf.source)
        self.script: ResponseScript[StoredExchange[Exchange]] = ResponseScript()

    def clean(self) -> ExploredModels:
        """Models for the clean run: a strict replay."""
        return ExploredModels(self, script_reader=None)

    def again(self) -> ExploredModels:
        """Models for a run with faults: a request that is made again gets its recorded answer again."""
        return ExploredModels(self, script_reader=self.script.script_reader())


class ExploredModels(Provider):
    """Answers one run. `on_diverged` is told why a request has no recorded answer."""

    name = "explore"

    def __init__(
        self, recorded: ModelRecording, *, script_reader: ScriptReader[StoredExchange[Exchange]] | None
    ) -> None:
        self._recorded, self._script_reader = recorded, script_reader
        self._cursor: Cursor[Exchange] = Cursor(recorded.shelf)
        self._answered: dict[_AttemptKey, tuple[str, str]] = {}
        latency = Latency("replay", latency_ms=0.0, seed=0)
        self._player = Playback(latency=latency, clock=SYSTEM_CLOCK, provider=self.name)
        self.on_diverged: Callable[[str], object] = lambda _: None
        self._end: RecordingMismatchError | None = None

    async def send(self, request: Request) -> Reply:
        if self._end is not None:
            raise self._end
        line = (request.step_id or "", fingerprint(request, self._recorded.rules))
        stored = self._known(request, line)
        if stored is None:
            return await self._recorded.divergence.answer(request)
        self._cursor.use(stored)
        self._answered[_attempt_key(request)] = line
        return await self._player.play(stored.exchange, request)

    def give_back(self, request: Request) -> None:
        """The answer to this try of a call, if it had one, was lost on its way: it is due again."""
        line = self._answered.pop(_attempt_key(request), None)
        if line is not None and self._script_reader is not None:
            self._script_reader.give_back(*line)

    def _known(self, request: Request, line: tuple[str, str]) -> StoredExchange[Exchange] | None:
        """What answers, or None if that is left to the policy for what was never recorded."""
        known = None if self._script_reader is None else self._script_reader.take(*line)
        if known is not None:
            return known
        match = self._cursor.match(request.step_id, line[1])
        stored = match.stored
        if (
            stored is not None
            and match.mismatch is None
            and (self._script_reader is None or stored.fingerprint == line[1])
        ):
            learn = self._recorded.script.add if self._script_reader is None else self._script_reader.learn
            learn(*line, stored)
            return stored
        refusal = mismatch_error(request, match, self._recorded.shelf, self._recorded.rules)
        self.on_diverged(str(refusal))
        if self._script_reader is None or self._recorded.divergence.policy == "stop":
            self.end(refusal)
            raise refusal
        return None

    def end(self, refusal: RecordingMismatchError) -> None:
        """Answer nothing any more: a run that was stopped must not go on, even if it has swallowed the refusal."""
        self._end = refusal


def _attempt_key(request: Request) -> _AttemptKey:
    return request.workflow, request.step_id, request.call, request.attempt


class ToolRecording:
    """A recording of tools that many runs are answered from. The first run is the clean one and writes the script."""

    def __init__(self, row: ExchangeIndex[ToolExchange], divergence: Divergence = STOP_ON_DIVERGENCE) -> None:
        self.row, self.divergence = row, divergence
        self.script: ResponseScript[ToolExchange] = ResponseScript()

    @property
    def is_empty(self) -> bool:
        return len(self.row) == 0

    def clean(self) -> ExploredTools:
        """Tools for the clean run: a strict replay."""
        return ExploredTools(self, script_reader=None)

    def again(self) -> ExploredTools:
        """Tools for a run with faults: a call that is made again has its recorded result again."""
        return ExploredTools(self, script_reader=self.script.script_reader())


class ExploredTools:
    """Answers the calls of tools of one run. `on_diverged` is told why a call has no recorded result.

    `on_end` is told of the refusal that ends the run.
    """

    def __init__(self, recorded: ToolRecording, *, script_reader: ScriptReader[ToolExchange] | None) -> None:
        self._recorded, self._script_reader = recorded, script_reader
        self._cursor: Cursor[ToolExchange] = Cursor(recorded.row)
        self.on_diverged: Callable[[str], object] = lambda _: None
        self.on_end: Callable[[RecordingMismatchError], object] = lambda _: None

    def answer(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """What the call gives. Raises the error that was recorded, if one was."""
        exchange = self._known(tool.name, json_arguments(arguments))
        if exchange is None:
            return self._recorded.divergence.default_response
        if exchange.error is not None:
            raise error_from_record(exchange.error, tool=tool)
        return exchange.answer

    def _known(self, tool: str, arguments: JsonObject) -> ToolExchange | None:
        asked = hash_arguments(arguments)
        known = None if self._script_reader is None else self._script_reader.take(tool, asked)
        if known is not None:
            return known
        match = self._cursor.match_key(tool, "step_id", asked) or ExchangeMatch("default", mismatch="missing")
        stored = match.stored
        if (
            stored is not None
            and match.mismatch is None
            and (self._script_reader is None or stored.fingerprint == asked)
        ):
            self._cursor.use(stored)
            learn = self._recorded.script.add if self._script_reader is None else self._script_reader.learn
            learn(tool, asked, stored.exchange)
            return stored.exchange
        refusal = tool_mismatch_error(tool, arguments, match, self._recorded.row)
        self.on_diverged(str(refusal))
        if self._script_reader is None or self._recorded.divergence.policy != "default":
            self.on_end(refusal)
            raise refusal
        return None


class LazyProvider(Provider):
    """Opens what `open` gives for each request, asks it, and closes it: no run leaves a connection to another.

    Nothing is opened, and no key is needed, before something is asked.
    """

    name = "live"

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Provider]]) -> None:
        self._open = open

    async def send(self, request: Request) -> Reply:
        async with self._open() as provider:
            reply = await provider.send(request)
            return WholeReply(await reply.collect())
