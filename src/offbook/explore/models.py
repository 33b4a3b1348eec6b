"""The models of an explored run: a stand-in that answers from the recording, and forgives what a fault brings about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import RecordingMismatchError
from offbook.explore.divergence import STOP, Divergence
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.cursor import Cursor
from offbook.recording.document import rules_of
from offbook.recording.exchange import Exchange
from offbook.recording.fingerprint import fingerprint
from offbook.recording.latency import Latency
from offbook.recording.miss import mismatch_error
from offbook.recording.playback import Player
from offbook.recording.script import Prompter, Script
from offbook.recording.stores.store import Shelf, Stored

_Try: TypeAlias = tuple[str, str | None, int, int]


class RecordedModels:
    """A recording of models that many runs are answered from. The first run is the clean one and writes the script."""

    def __init__(self, shelf: Shelf, divergence: Divergence = STOP) -> None:
        self.shelf, self.divergence = shelf, divergence
        self.rules = rules_of(shelf.meta, source=shelf.source)
        self.script: Script[Stored[Exchange]] = Script()

    def clean(self) -> ExploredModels:
        """Models for the clean run: a strict replay."""
        return ExploredModels(self, prompter=None)

    def again(self) -> ExploredModels:
        """Models for a run with faults: a request that is made again gets its recorded answer again."""
        return ExploredModels(self, prompter=self.script.prompter())


class ExploredModels(Provider):
    """Answers one run. `on_diverged` is told why a request has no recorded answer."""

    name = "explore"

    def __init__(self, recorded: RecordedModels, *, prompter: Prompter[Stored[Exchange]] | None) -> None:
        self._recorded, self._prompter = recorded, prompter
        self._cursor: Cursor[Exchange] = Cursor(recorded.shelf)
        self._answered: dict[_Try, tuple[str, str]] = {}
        latency = Latency("replay", latency_ms=0.0, seed=0)
        self._player = Player(latency=latency, clock=SYSTEM_CLOCK, provider=self.name)
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
        self._answered[_try_of(request)] = line
        return await self._player.play(stored.exchange, request)

    def give_back(self, request: Request) -> None:
        """The answer to this try of a call, if it had one, was lost on its way: it is due again."""
        line = self._answered.pop(_try_of(request), None)
        if line is not None and self._prompter is not None:
            self._prompter.give_back(*line)

    def _known(self, request: Request, line: tuple[str, str]) -> Stored[Exchange] | None:
        """What answers, or None if that is left to the policy for what was never recorded."""
        known = None if self._prompter is None else self._prompter.take(*line)
        if known is not None:
            return known
        match = self._cursor.match(request.step_id, line[1])
        stored = match.stored
        if stored is not None and match.mismatch is None and (self._prompter is None or stored.fingerprint == line[1]):
            learn = self._recorded.script.add if self._prompter is None else self._prompter.learn
            learn(*line, stored)
            return stored
        refusal = mismatch_error(request, match, self._recorded.shelf, self._recorded.rules)
        self.on_diverged(str(refusal))
        if self._prompter is None or self._recorded.divergence.policy == "stop":
            self.end(refusal)
            raise refusal
        return None

    def end(self, refusal: RecordingMismatchError) -> None:
        """Answer nothing any more: a run that was stopped must not go on, even if it has swallowed the refusal."""
        self._end = refusal


def _try_of(request: Request) -> _Try:
    return request.workflow, request.step_id, request.call, request.attempt
