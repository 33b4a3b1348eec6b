"""Exploring a program, in whatever language: its calls of models are answered over the wire."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import ClassVar, Literal, Self

from offbook.errors import InputError
from offbook.explore.child import Child, Ended
from offbook.explore.last_words import last_words
from offbook.explore.menu import WIRE_MENU, Dish
from offbook.explore.run import Ending, ErrorKind, Run
from offbook.explore.scrubbing import scrubbed
from offbook.explore.theatre import MAX_CLEAN_CALLS, max_calls_after
from offbook.explore.wire_witness import WireWitness
from offbook.faults import FaultPlan
from offbook.recording.script import Script
from offbook.wire.environment import addresses, keys, past_proxies
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.replay import Found
from offbook.wire.serving import WireServer
from offbook.wire.session import WireSession
from offbook.wire.stage import DEFAULT_RESPONSE, StageOptions

RETRY_AFTER_MS = 1.0
"""The wait that injected errors ask for which say nothing of it: SDKs then try again at once."""

_URL = "http://offbook"


class ProgramSubject:
    """A program that is run on a recording, once for each case, with one server for all.

    The result of a run is its exit code and its output. It is taken to have run the tools that it was asked to, where
    an answer came to its end. Every run has a folder of its own for temporary files.

    Args:
        command: the program and its arguments.
        replay: the recording that answers, or a folder of them.
        env: further variables of its environment.
        deadline_s: how long a run may take, in real time; then it is ended, and has hung.
        side_effects: the tools whose running twice does harm.
        declared_exits: the exit codes by which it says that it has given up, beside 0 for success.
        on_divergence: whether what was never recorded is refused, or answered with `default_response`.

    Raises:
        InputError: the recording cannot be read, or no command is given; from `run`, the program cannot be started.
    """

    menu: ClassVar[Sequence[Dish]] = WIRE_MENU
    """The faults that can strike it: those of models, as its tools are its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        replay: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        deadline_s: float = 20.0,
        side_effects: Sequence[str] = (),
        declared_exits: Sequence[int] = (),
        on_divergence: Literal["stop", "default"] = "stop",
        default_response: str = DEFAULT_RESPONSE,
    ) -> None:
        if not command:
            raise InputError("no command is given", source="explore")
        self.name = shlex.join(command)
        self._command, self._env, self._deadline_s = list(command), dict(env or {}), deadline_s
        self._side_effects, self._declared_exits = frozenset(side_effects), frozenset(declared_exits)
        self._goes_on = on_divergence == "default"
        self._script: Script[Found] = Script()
        self._max_calls = 0
        self._numbers = count(1)
        self._running: set[Child] = set()
        self._is_stopped = False
        options = StageOptions(
            recording=replay, strict=True, default_response=default_response, retry_after_ms=RETRY_AFTER_MS
        )
        self._server = WireServer(options).start()

    def run(self, plan: FaultPlan) -> Run:
        name = f"explore-{next(self._numbers)}"
        is_first = not self._max_calls
        with tempfile.TemporaryDirectory(prefix="offbook-") as folder:
            child = Child(self._command, self._environment(name, folder))
            witness = WireWitness(max_calls=self._max_calls or MAX_CLEAN_CALLS, on_endless=child.kill)
            rehearsal = Rehearsal(self._script, witness, is_first, self._goes_on)
            session = self._server.start_session(name, faults=plan, rehearsal=rehearsal)
            ended = self._ended(child)
            run = self._told(ended, witness, session, self._aliases(name, folder))
        self._server.end_session(name)
        if is_first:
            self._max_calls = max_calls_after(len(run.calls))
        return run

    def stop(self) -> None:
        """End the programs that are running, and those that are started from now on."""
        self._is_stopped = True
        for child in list(self._running):
            child.kill()

    def close(self) -> None:
        """End what is running, and the server."""
        self.stop()
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ended(self, child: Child) -> Ended:
        self._running.add(child)
        if self._is_stopped:
            child.kill()
        try:
            return child.run(self._deadline_s)
        finally:
            self._running.discard(child)

    def _environment(self, name: str, folder: str) -> dict[str, str]:
        url = self._server.session_url(name)
        given = {"PYTHONHASHSEED": "0"} | os.environ | self._env
        led = {**addresses(url), **keys(), "OFFBOOK_URL": url, "TMPDIR": folder}
        return {**given, **led, **past_proxies(given)}

    def _aliases(self, name: str, folder: str) -> dict[str, str]:
        """What the texts of a run have that no other run has, and what is told instead."""
        url = self._server.url
        return {
            self._server.session_url(name): _URL,
            url: _URL,
            url.removeprefix("http://"): "offbook",
            folder: "$TMPDIR",
        }

    def _told(self, ended: Ended, witness: WireWitness, session: WireSession, aliases: Mapping[str, str]) -> Run:
        calls = witness.calls
        retries = sum(call.attempt > 1 for call in calls)
        has_hung = ended.code is None
        return Run(
            result=None if has_hung else {"exit": ended.code, "stdout": scrubbed(ended.stdout, aliases)},
            error=self._error(ended, aliases),
            calls=calls,
            tools=witness.tools(self._side_effects),
            struck=tuple(str(planned) for planned in session.fired),
            diverged=scrubbed(session.misses[0].text, aliases) if session.misses else "",
            hung=(witness.endless or f"it had not ended after {self._deadline_s:g} s") if has_hung else "",
            paths={"retry": retries} if retries else {},
        )

    def _error(self, ended: Ended, aliases: Mapping[str, str]) -> Ending | None:
        """The error that ended the program, by its exit code."""
        if not ended.code:
            return None
        kind: ErrorKind = "declared" if ended.code in self._declared_exits else "undeclared"
        name = f"exit {ended.code}" if ended.code > 0 else f"signal {-ended.code}"
        return Ending(kind, name, scrubbed(last_words(ended.stderr), aliases))
