"""Runs a suite's conversations in workers: the worker's side and the caller's.

`python -m offbook.workers.suite FD` handles the spec and the conversations from the socket FD until it ends, for a Ray
worker.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapreplace
from pathlib import Path
from socket import socket
from traceback import format_exc

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, run
from offbook.config import (
    Config,
    RunPlan,
    collect_scenarios,
    import_from,
    load_config,
    open_participants,
    plan_run,
    scenario_files,
)
from offbook.config.participants import OpenParticipants
from offbook.decoding import convert, decode, decode_msgpack
from offbook.errors import InputError, OffbookError
from offbook.events import RecordedCallCounter
from offbook.pipeline import Live, Record, Replay
from offbook.recording.redact.rules import add_rules_of
from offbook.recording.stores.store import log_warning
from offbook.scenarios.mocks import Mocks
from offbook.scenarios.result import ConversationResult
from offbook.scenarios.runner import ConversationPlace, ConversationRunner, RunRules, mocks_of
from offbook.scenarios.scenario import Scenario
from offbook.workers.process import WorkerEndedError, WorkerPool, receive_frames, send_frame, serve_jobs


class _Job(Struct, frozen=True):
    """A conversation to run: the number of the pair of scenario and agent in the plan, and its index."""

    pair: int
    index: int


class _Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report of a worker: the conversation and the called tools, or the error that ends the run.

    `used` are the exchanges that the worker has served since its last report, by file. `borrowed` names a step that
    another step's equal request answered. `recorded` is the new count of `RecordedCallCounter`.
    """

    result: ConversationResult | None = None
    called: frozenset[str] = frozenset()
    borrowed: str = ""
    used: dict[str, list[int]] = {}
    recorded: dict[str, int] = {}
    refusal: dict[str, str] | None = None
    error: str = ""
    is_defect: bool = False


def _encode(report: _Report) -> bytes:
    """Return the report as msgpack, or as JSON for values unknown to msgpack: large ints, lone surrogates."""
    try:
        return b"\0" + msgspec.msgpack.encode(report)
    except (OverflowError, UnicodeEncodeError):
        return b"\1" + json.dumps(msgspec.to_builtins(report)).encode()


def _decode(data: bytes) -> _Report:
    if data[:1] == b"\0":
        return decode_msgpack(memoryview(data)[1:], _Report)
    return convert(json.loads(data[1:]), _Report)


class SuiteWorker:
    """Runs conversations of a plan, in a worker. It opens the participants for itself."""

    def __init__(self, config: Config, plan: RunPlan, mode: Live | Record | Replay, rules: RunRules) -> None:
        self._config, self._plan, self._mode, self._rules = config, plan, mode, rules
        self._mocks: dict[int, Mocks] = {}
        self._reported: dict[str, tuple[int, int]] = {}
        self._recorded = RecordedCallCounter()

    async def serve(self, connection: socket) -> None:
        """Run the conversations that come by a connection, until it ends."""
        async with open_participants(self._config, self._plan, self._mode, sink=self._recorded) as opened:
            self.begin(opened)
            await serve_jobs(connection, self.handle)

    def begin(self, opened: OpenParticipants) -> None:
        """Let conversations talk to these participants."""
        self._opened, self._runner = opened, ConversationRunner(opened.participants, self._rules)

    async def handle(self, job: bytes) -> bytes:
        """Run a conversation and return the report about it."""
        asked = decode_msgpack(job, _Job)
        try:
            report = await self._run(asked.pair, asked.index)
        except InputError as error:
            report = _Report(refusal=error.fields)
        except OffbookError as error:
            report = _Report(error=str(error))
        except Exception:
            report = _Report(error=format_exc(), is_defect=True)
        return _encode(report)

    async def _run(self, pair: int, index: int) -> _Report:
        scenario, agent = self._plan.pairs[pair]
        if pair not in self._mocks:
            self._mocks[pair] = mocks_of(scenario, self._rules)
        result = await self._runner.run(ConversationPlace(pair, scenario, agent, index), self._mocks[pair])
        used, borrowed = self._served_since()
        recorded, self._recorded.outcomes = self._recorded.outcomes, Counter()
        called = self._mocks[pair].called
        return _Report(result=result, called=called, used=used, borrowed=borrowed, recorded=recorded)

    def _served_since(self) -> tuple[dict[str, list[int]], str]:
        """Return the exchanges served since the last call, and a step with a borrowed answer."""
        used, borrowed = dict[str, list[int]](), ""
        for file, mock in self._opened.replays().items():
            served, called = self._reported.get(file, (0, 0))
            used[file] = mock.used_ids(start=served)
            calls = mock.calls[called:]
            self._reported[file] = served + len(used[file]), called + len(calls)
            borrowed = next((call.step_id or "" for call in calls if call.matched_by == "prompt_hash"), borrowed)
        return used, borrowed


MAX_ATTEMPTS = 3
"""The number of workers that may end during a conversation before the run fails."""


class SuiteSpec(Struct, frozen=True, kw_only=True):
    """The data of a run for a worker that is not a fork.

    `pairs` are the names of running scenarios and agents, in order. `replay` is None for a live run. `folder` is the
    working directory; None means the worker's.
    """

    config: str
    paths: tuple[str, ...]
    requested_agents: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    rules: RunRules
    replay: str | None
    is_virtual: bool
    folder: str | None

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    def plan(self, config: Config, files: Sequence[Path]) -> RunPlan:
        """Return the plan of the run from the same files.

        Raises:
            InputError: the files are wrong, or lack these scenarios.
        """
        names = {name for name, _ in self.pairs}
        scenarios = [each for each in collect_scenarios(files) if each.name in names]
        plan = plan_run(config, scenarios, agents=self.requested_agents)
        left: dict[tuple[str, str], list[tuple[Scenario, str]]] = {}
        for scenario, agent in plan.pairs:
            left.setdefault((scenario.name, agent), []).append((scenario, agent))
        try:
            return replace(plan, pairs=tuple(left[pair].pop(0) for pair in self.pairs))
        except (KeyError, IndexError):
            raise InputError("the files of a worker declare other scenarios", source=config.source) from None


def serve(connection: socket) -> None:
    """Load the suite of the first frame, and run the conversations of all others."""
    frames = receive_frames(connection)
    number, first = next(frames)
    spec = decode(first, SuiteSpec)
    send_frame(connection, number, b"")
    if spec.folder is not None:
        os.chdir(spec.folder)
    try:
        config = load_config(spec.config)
        add_rules_of(config.source)
        files = scenario_files(config, spec.paths)
        with import_from([config.folder, *(file.parent for file in files)]):
            mode = Live() if spec.replay is None else Replay(spec.replay)
            worker = SuiteWorker(config, spec.plan(config, files), mode, spec.rules)
            run(worker.serve(connection), virtual_time=spec.is_virtual)
    except InputError as error:
        for number, _ in frames:
            send_frame(connection, number, _encode(_Report(refusal=error.fields)))


class SuiteConversations:
    """Runs the conversations of a run in the workers of a pool.

    In virtual time, a run takes as long as in one process: `concurrency` conversations at once. If a worker ends, its
    conversations run again, unless they are recorded: their calls would be recorded twice.

    Raises:
        InputError: from `run`, a worker's input error; from `used`, if another conversation could have got the exchange
            that answered one: their order would decide.
    """

    def __init__(self, pool: WorkerPool, rules: RunRules, *, is_virtual: bool, is_recorded: bool) -> None:
        self._pool, self._rules, self._is_virtual = pool, rules, is_virtual
        self._attempts = 1 if is_recorded else MAX_ATTEMPTS
        self._used: dict[str, set[int]] = {}
        self._borrowed = ""
        self.recorded = Counter[str]()
        self._reported: WorkerEndedError | None = None

    async def run(self, place: ConversationPlace, mocks: Mocks) -> ConversationResult:
        job = msgspec.msgpack.encode(_Job(place.number, place.index))
        report = _decode(await self._run(job, name=f"the conversation {place.prefix!r}"))
        if report.refusal is not None:
            raise InputError(**report.refusal)
        if report.is_defect:
            raise RuntimeError(report.error)
        if report.error:
            raise OffbookError(report.error)
        mocks.note_called(report.called)
        self._borrowed = self._borrowed or report.borrowed
        self.recorded.update(report.recorded)
        for file, ids in report.used.items():
            self._used.setdefault(file, set()).update(ids)
        assert report.result is not None
        return report.result

    async def _run(self, job: bytes, *, name: str) -> bytes:
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._pool.run(job, name=name)
            except WorkerEndedError as error:
                if attempt == self._attempts:
                    raise
                if error is not self._reported:  # it is that of all conversations of the worker
                    log_warning("offbook.workers", "%s; another one runs what it had", error)
                self._reported = error
        raise AssertionError

    def elapsed_s(self, started_s: float, results: Sequence[ConversationResult]) -> float:
        if not self._is_virtual:
            return SYSTEM_CLOCK.monotonic_s() - started_s
        latencies_s = [each.latency_s for each in results]
        is_in_order = self._rules.budget_usd is not None
        return elapsed_in_slots(latencies_s, self._rules.concurrency, is_in_order=is_in_order)

    def used(self) -> Mapping[str, set[int]]:
        """Return which exchanges of a replay the workers have used, by file."""
        if self._borrowed:
            reason = f"the step {self._borrowed!r} is not in the recording, and was answered by an equal request"
            hint = "which conversation gets it depends on their order: use --workers 1, or record it again"
            raise InputError(reason, source="--workers", hint=hint)
        return self._used


def elapsed_in_slots(latencies_s: Iterable[float], slots: int, *, is_in_order: bool) -> float:
    """Return the duration of work started in this order, `slots` pieces at once.

    With `is_in_order`, a piece also starts only when all but the last `slots` - 1 before it have ended.
    """
    ends, free, last_end = list[float](), [0.0] * slots, 0.0
    ended = 0.0
    for at, latency_s in enumerate(latencies_s):
        if is_in_order and at >= slots:
            ended = max(ended, ends[at - slots])
        start_s = max(free[0], ended)
        ends.append(start_s + latency_s)
        heapreplace(free, ends[-1])
        last_end = max(last_end, ends[-1])
    return last_end


if __name__ == "__main__":
    serve(socket(fileno=int(sys.argv[1])))
