"""Explores a program in any language: its model calls are answered over HTTP."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import ClassVar, Literal, Self

from msgspec import Struct

from offbook.child_process import ChildProcess
from offbook.errors import InputError
from offbook.explore.harness import MAX_CLEAN_CALLS, max_calls_after
from offbook.explore.options import WIRE_VARIANTS, FaultVariant
from offbook.explore.run import Continuation, ErrorKind, Run, RunFailure, normalize_text
from offbook.faults import FaultPlan
from offbook.recording.match.cursor import ResponseScript
from offbook.subjects.wire_observer import WireObserver
from offbook.vendors import api_key_variables, base_url_variables
from offbook.wire.options import DEFAULT_RESPONSE, WireOptions
from offbook.wire.replay import ExploredRun, ReplayMatch
from offbook.wire.server.wire_server import WireServer, no_proxy_variables
from offbook.wire.session import WireSession

MAX_OUTPUT_BYTES = 1024 * 1024
"""How much of each output is read, from its start."""


class ProgramExit(Struct, frozen=True):
    """How a program ended: its exit code, -N if signal N ended it, None if it was killed from here."""

    code: int | None
    stdout: str
    stderr: str


class ProgramProcess:
    """A run of a program that can be killed from another thread, even before it has started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._child: ChildProcess | None = None
        self._is_killed = False

    def run(self, deadline_s: float) -> ProgramExit:
        """Run it until it ends, at most for `deadline_s`.

        Raises:
            InputError: it cannot be started.
        """
        child = self._child = self._start()
        if self._is_killed:
            child.kill()
        code = child.wait_for(deadline_s)
        return ProgramExit(None if self._is_killed else code, child.stdout.text, child.stderr.text)

    def kill(self) -> None:
        """Kill it now, or as soon as it starts. May be called from any thread, and after it has ended."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def _start(self) -> ChildProcess:
        try:
            return ChildProcess(self._command, environment=self._environment, limit_bytes=MAX_OUTPUT_BYTES)
        except OSError as error:
            reason = "there is no such program" if isinstance(error, FileNotFoundError) else error.strerror
            raise InputError(f"it cannot be started: {reason}", source=self._command[0]) from None


MAX_ERROR_CHARS = 500
_ERROR_LINE = re.compile(r"(?:Uncaught )?[\w.$]*(?:Error|Exception|Timeout|Interrupt|Fault)\b.*")


def error_line(stderr: str) -> str:
    """Return the last line that names an error, else the last line; empty if there is none."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR_LINE.fullmatch(line)]
    return (named or lines or [""])[-1][:MAX_ERROR_CHARS]


RETRY_AFTER_MS = 1.0
"""The `retry-after` of injected errors that do not have one: SDKs then retry at once."""

_URL_ALIAS = "http://offbook"


class ProgramSubject:
    """A program, run on a recording. One server answers all runs.

    The result of a run is its exit code and its output. A tool counts as run when a complete answer asks for it. Every
    run has its own folder for temporary files.

    Args:
        command: the program and its arguments.
        replay: the recording, or a folder of recordings.
        env: further environment variables.
        deadline_s: how long a run may take in real time; a longer one is killed and counts as hung.
        side_effects: the tools that must not run twice.
        declared_exits: the exit codes with which it gives up, beside 0 for success.
        on_divergence: whether a request that was never recorded is refused or answered with `default_response`.

    Raises:
        InputError: the recording cannot be read, or no command is given; from `run`, the program cannot be started.
    """

    variants: ClassVar[Sequence[FaultVariant]] = WIRE_VARIANTS
    """The faults that can fire: those of models, because tools run inside the program."""

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
            raise InputError("the command is empty", source="explore")
        self.name = shlex.join(command)
        self._command, self._env, self._deadline_s = list(command), dict(env or {}), deadline_s
        self._side_effects, self._declared_exits = frozenset(side_effects), frozenset(declared_exits)
        self._goes_on = on_divergence == "default"
        self._script: ResponseScript[ReplayMatch] = ResponseScript()
        self._max_calls = 0
        self._numbers = count(1)
        self._running: set[ProgramProcess] = set()
        self._is_stopped = False
        options = WireOptions(
            recording=replay, strict=True, default_response=default_response, retry_after_ms=RETRY_AFTER_MS
        )
        self._server = WireServer(options).start()

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        name = f"explore-{next(self._numbers)}"
        is_first = not self._max_calls
        with tempfile.TemporaryDirectory(prefix="offbook-") as folder:
            process = ProgramProcess(self._command, self._environment(name, folder))
            observer = WireObserver(max_calls=self._max_calls or MAX_CLEAN_CALLS, on_endless=process.kill)
            explored_run = ExploredRun(self._script, observer, self._goes_on)
            session = self._server.start_session(name, faults=plan, explored_run=explored_run)
            program_exit = self._wait_for(process)
            run = self._run_of(program_exit, observer, session, self._aliases(name, folder))
        self._server.end_session(name)
        if is_first:
            self._max_calls = max_calls_after(len(run.calls))
        return run

    def stop(self) -> None:
        """Kill the running programs, and those that are started from now on."""
        self._is_stopped = True
        for process in list(self._running):
            process.kill()

    def close(self) -> None:
        """Kill the running programs and stop the server."""
        self.stop()
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, process: ProgramProcess) -> ProgramExit:
        self._running.add(process)
        if self._is_stopped:
            process.kill()
        try:
            return process.run(self._deadline_s)
        finally:
            self._running.discard(process)

    def _environment(self, name: str, folder: str) -> dict[str, str]:
        url = self._server.session_url(name)
        inherited = {"PYTHONHASHSEED": "0"} | os.environ | self._env
        own = {**base_url_variables(url), **api_key_variables(), "OFFBOOK_URL": url, "TMPDIR": folder}
        return {**inherited, **own, **no_proxy_variables(inherited)}

    def _aliases(self, name: str, folder: str) -> dict[str, str]:
        """Return what differs in the texts of every run, and what replaces it."""
        url = self._server.url
        return {
            self._server.session_url(name): _URL_ALIAS,
            url: _URL_ALIAS,
            url.removeprefix("http://"): "offbook",
            folder: "$TMPDIR",
        }

    def _run_of(
        self, ended: ProgramExit, observer: WireObserver, session: WireSession, aliases: Mapping[str, str]
    ) -> Run:
        calls = observer.calls
        retries = sum(call.attempt > 1 for call in calls)
        has_hung = ended.code is None
        return Run(
            result=None if has_hung else {"exit": ended.code, "stdout": normalize_text(ended.stdout, aliases)},
            error=self._error(ended, aliases),
            calls=calls,
            tools=observer.tools(self._side_effects),
            fired=tuple(str(planned) for planned in session.fired),
            diverged=normalize_text(session.misses[0].text, aliases) if session.misses else "",
            hung=(observer.endless or f"it had not ended after {self._deadline_s:g} s") if has_hung else "",
            paths={"retry": retries} if retries else {},
        )

    def _error(self, ended: ProgramExit, aliases: Mapping[str, str]) -> RunFailure | None:
        """Return the error that ended the program, by its exit code."""
        if not ended.code:
            return None
        kind: ErrorKind = "declared" if ended.code in self._declared_exits else "undeclared"
        name = f"exit {ended.code}" if ended.code > 0 else f"signal {-ended.code}"
        return RunFailure(kind, name, normalize_text(error_line(ended.stderr), aliases))
