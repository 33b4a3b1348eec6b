"""What `exec` and `serve` share: server arguments, the program's environment, call counts, exit code."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli.exit_codes import FAILED, FINE, MISMATCH, TIMED_OUT
from offbook.cli.options import LatencyModel, RecordMode
from offbook.cli.output.tally import FaultTally
from offbook.cli.process import ChildExit
from offbook.errors import InputError
from offbook.faults import FaultPlan, parse_fault
from offbook.recording.stores.locate import open_store
from offbook.vendors import keys_from_environment, upstreams_from_environment
from offbook.wire.backend import UnusedExchange
from offbook.wire.calls import Miss, WireCall, ignore_call
from offbook.wire.options import WireOptions
from offbook.wire.server.wire_server import WireServer, no_proxy_variables
from offbook.wire.session import SessionTotals


def parse_upstreams(lines: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The address of each vendor that one is told for: where its SDK would have asked, unless a line says otherwise.

    Raises:
        InputError: a line is not like `openai=https://…`.
    """
    return upstreams_from_environment(environment) | dict(map(_parse_upstream, lines))


def _parse_upstream(line: str) -> tuple[str, str]:
    vendor, separator, url = line.partition("=")
    if not (vendor and separator and url):
        hint = "name a vendor and its address: openai=http://127.0.0.1:8000/v1"
        raise InputError(f"cannot be read: {line!r}", source="--upstream", hint=hint)
    return vendor, url


class WireArguments(Struct, frozen=True, kw_only=True):
    """What a command was told of the calls that it answers or records."""

    replay: str | None = None
    record: str | None = None
    record_mode: RecordMode | None = None
    faults: Sequence[str] = ()
    plan: str | None = None
    upstreams: Sequence[str] = ()
    is_lenient: bool = False
    default_response: str | None = None
    latency_model: LatencyModel = "constant"
    latency_ms: float = 0.0
    retry_after_ms: float | None = None

    @property
    def recording(self) -> str:
        """The recording that answers, or is made."""
        return self.replay or self.record or ""

    @property
    def is_folder(self) -> bool:
        """Whether calls are answered from a folder, in which each session may have a recording of its own."""
        return self.replay is not None and "://" not in self.replay and Path(self.replay).is_dir()

    def fault_plan(self) -> FaultPlan:
        """The faults of the lines, and behind them those of the file.

        Raises:
            InputError: a line or the file cannot be read.
        """
        plan = FaultPlan() if self.plan is None else FaultPlan.load(self.plan)
        return FaultPlan([*map(parse_fault, self.faults), *plan], chaos=plan.chaos)

    def wire_options(
        self,
        environment: Mapping[str, str],
        *,
        has_own_key: bool = False,
        on_call: Callable[[WireCall], None] = ignore_call,
    ) -> WireOptions:
        """What the server is started with. If it `has_own_key`, the keys for the real APIs are the environment's.

        Raises:
            InputError: options exclude each other or say nothing, or one cannot be read.
        """
        self._check()
        return WireOptions(
            recording=self.replay,
            strict=False if self.is_lenient else None,
            default_response=self.default_response,
            faults=self.fault_plan() if self.faults or self.plan else (),
            latency_model=self.latency_model,
            latency_ms=self.latency_ms,
            retry_after_ms=self.retry_after_ms,
            on_call=on_call,
            record=self.record,
            record_mode=self.record_mode or "append",
            upstreams=None if self.record is None else parse_upstreams(self.upstreams, environment),
            upstream_keys=keys_from_environment(environment) if has_own_key and self.record is not None else None,
        )

    def _check(self) -> None:
        if (self.replay is None) == (self.record is None):
            told = "--record and --replay exclude each other" if self.record else "there is nothing to answer with"
            hint = "leave one of them out" if self.record else "add --replay PATH, or --record PATH to make a recording"
            raise InputError(told, hint=hint)
        if self.record is None and (self.record_mode is not None or self.upstreams):
            option = "--upstream" if self.upstreams else "--record-mode"
            raise InputError(f"{option} says nothing without --record", hint="add --record PATH")
        if self.replay is None and (self.is_lenient or self.default_response is not None):
            option = "--lenient" if self.is_lenient else "--default-response"
            raise InputError(f"{option} says nothing without --replay", hint="leave it out")
        if self.record is not None and "://" not in self.record and Path(self.record).suffix != ".json":
            hint = f"name it {Path(self.record).with_suffix('.json')}, or sqlite:///path.db: a folder has only those"
            raise InputError("a recording is a file named *.json", source=self.record, hint=hint)


def single_value(given: Sequence[str], option: str) -> str | None:
    """What an option was given, which may be given once.

    Raises:
        InputError: it was given again.
    """
    if len(given) > 1:
        raise InputError(f"{option} is given {len(given)} times", hint=f"keep one of: {', '.join(given)}")
    return given[0] if given else None


def child_environment(environment: Mapping[str, str], server: WireServer) -> dict[str, str]:
    """The `environment`, with the variables that lead to the server, past any proxy."""
    return {**environment, **server.env, **no_proxy_variables(environment)}


@contextmanager
def discard_empty_recording(location: str | None) -> Iterator[None]:
    """Remove the file at `location`, if it was not there before the block and nothing was recorded in it.

    A database is left: others may have it open, and would go on writing to what is gone.

    Raises:
        InputError: the location names no store.
    """
    was_there = location is None or "://" in location or open_store(location).exists()
    try:
        yield
    finally:
        if not was_there and location is not None:
            _remove_if_empty(location)


def _remove_if_empty(location: str) -> None:
    store = open_store(location)
    if store.exists() and store.load().size == 0:
        Path(location).unlink(missing_ok=True)


class WireTally(Struct, frozen=True):
    """What became of a run over the wire. `totals` count the sessions that are gone, too; calls and misses do not."""

    totals: SessionTotals
    calls: list[WireCall]
    misses: list[Miss]
    unused: list[UnusedExchange]
    faults: FaultTally

    @property
    def failed(self) -> int:
        """How often a real API failed that was recorded."""
        return self.totals.failures.total()

    @property
    def counts(self) -> dict[str, int]:
        """How many calls there were, in how many tries, and how many of those ended in which way."""
        counts = {"calls": self.totals.calls, "tries": self.totals.tries}
        counts |= self.totals.outcomes.items()
        return counts | {"failed": self.failed} if self.failed else counts

    def document(self, *, with_calls: bool) -> dict[str, Any]:
        """All of it for machines. What was asked of models is left out: it may be large, and secret."""
        told: dict[str, Any] = {"counts": self.counts}
        if with_calls:
            told["calls"] = [_call_document(call) for call in self.calls]
        rest = {"misses": self.misses, "unused": self.unused, "faults": self.faults}
        told.update(msgspec.to_builtins(rest))
        return told


def tally_wire_calls(server: WireServer, left: list[UnusedExchange], plan: FaultPlan) -> WireTally:
    """The tally of a server that has ended, and had `left` before that. `plan` is the one that it was started with."""
    totals = server.totals()
    fired, unfired = map(str, totals.fired), [str(line) for line in plan if line not in totals.fired_lines]
    return WireTally(totals, server.calls, server.misses, left, FaultTally(list(fired), unfired))


def _call_document(call: WireCall) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(replace(call, request=None))
    del told["request"]
    return told


class ExitDecision(Struct, frozen=True):
    """The exit code, and where there is more to say, what is wrong and what to do."""

    code: int
    reason: str = ""
    hint: str = ""


class ExitPolicy(Struct, frozen=True):
    """Says how a command ends.

    One that had to be ended is late, whatever it did before. A miss counts more than what the command made of it; that
    the recording is of something else is not said if a fault has fired before every miss. Where nothing was missed, a
    command that failed has the last word; one that did not is refused if it asked nothing (unless it
    `may_ask_nothing`), if a planned fault never fired, or, `is_strict`, if it left exchanges.
    """

    options: WireArguments
    command: Sequence[str]
    is_strict: bool = False
    may_ask_nothing: bool = False

    def verdict(self, end: ChildExit, tally: WireTally) -> ExitDecision:
        """The verdict on the command, which has ended so."""
        if end.is_late:
            return ExitDecision(TIMED_OUT, "the command had not ended in time, and was ended", _TIME_LIMIT_HINT)
        if tally.misses:
            return self._mismatch(tally)
        if end.code != FINE:
            return ExitDecision(end.code)
        if not tally.totals.tries and not self.may_ask_nothing:
            return ExitDecision(MISMATCH, "nothing was asked: the command did not reach the stand-in", _BASE_URL_HINT)
        if tally.faults.unfired:
            return ExitDecision(FAILED)
        return ExitDecision(MISMATCH if self.is_strict and tally.unused else FINE)

    def _mismatch(self, tally: WireTally) -> ExitDecision:
        if all(miss.is_after_fault for miss in tally.misses):
            return ExitDecision(MISMATCH)
        return ExitDecision(MISMATCH, "the recording is not of what was asked", self._record_again())

    def _record_again(self) -> str:
        path = "PATH" if self.options.is_folder else shlex.quote(self.options.recording)
        again = f"offbook exec --record {path} --record-mode fresh -- {shlex.join(self.command)}"
        return f"record it again, or undo the change: {again}"


_BASE_URL_HINT = (
    "let its clients take their address from OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST"
    " or OFFBOOK_URL, as SDKs do that are given none; --allow-no-calls if there is nothing to ask"
)
_TIME_LIMIT_HINT = (
    "a call with a timeout or a stall lasts as long as its client waits, with most SDKs ten minutes: let it wait"
    " for less, or give a longer --time-limit"
)
