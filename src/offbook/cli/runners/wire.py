"""The common part of `exec` and `serve`: server arguments, the program's environment and effects, call counts, exit
code.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from signal import SIGINT
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli import FAILED, FINE, MISMATCH, SIGNALLED, TIMED_OUT
from offbook.cli.options import recorded_size, require_record_mode
from offbook.cli.output.console import FaultTally, print_message, tally_faults
from offbook.cli.run_program import ChildExit
from offbook.cli.runners.events import EventOptions
from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.presets.preset import UNKNOWN, KnownProgram, known_program, presets_of
from offbook.private_folder import PrivateFolder
from offbook.recording.call_cache import CacheCounts
from offbook.recording.format.keys import short_key
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.mismatch import MASK_IT
from offbook.recording.stores.locate import open_store
from offbook.session.log import Log
from offbook.settings import arguments_of, find_project
from offbook.text import pluralize
from offbook.tools.effects import EFFECTS_VARIABLE, Effect, read_effect_lines, split_reached
from offbook.vendors import (
    keys_from_environment,
    named_base_urls,
    plain_environment,
    tls_keys_from_environment,
    upstreams_from_environment,
)
from offbook.wire.backend import SessionTotals
from offbook.wire.intercept.program_network import ProgramNetwork
from offbook.wire.options import DEFAULT_RESPONSE, END_WAIT_S, ProgramToolOptions, WireOptions
from offbook.wire.recordings import OverusedExchange, UnusedExchange
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import Miss, WireCall
from offbook.wire.settings import ExecArguments, ServeArguments, WireArguments
from offbook.working_folder import Change

if TYPE_CHECKING:
    from offbook.recording.format.exchange import RecordedToolCall
    from offbook.wire.intercept.interception import NetworkTally


def parse_upstreams(lines: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the address of each vendor: from a line, else from its SDK's environment variable.

    Raises:
        InputError: a line is not like `openai=https://…`.
    """
    return upstreams_from_environment(environment) | dict(map(_parse_upstream, lines))


def _parse_upstream(line: str) -> tuple[str, str]:
    vendor, separator, url = line.partition("=")
    if not (vendor and separator and url):
        hint = "use openai=http://127.0.0.1:8000/v1"
        raise InputError(f"expected VENDOR=URL, got {line!r}", source="--upstream", hint=hint)
    return vendor, url


def wire_options_of(
    options: WireArguments,
    environment: Mapping[str, str],
    *,
    has_own_key: bool = False,
    normalise: NormaliseRules = NO_RULES,
    on_call: Callable[[WireCall], None] | None = None,
) -> WireOptions:
    """Return the options of the server. If it `has_own_key`, it takes the API keys from the environment.

    A recording without exchanges gets the rules to `normalise` by.

    Raises:
        InputError: an option is invalid.
    """
    text = options.default_response
    read_keys = keys_from_environment if has_own_key else tls_keys_from_environment
    return WireOptions(
        recording=options.replay,
        strict=False if options.lenient else None,
        default_response=DEFAULT_RESPONSE if options.answers_alone and text is None else text,
        lenient_requests=options.lenient_requests,
        exact=options.exact,
        faults=options.fault_plan() if options.faults or options.plan else (),
        latency_model=options.latency_model,
        latency_ms=options.latency_ms,
        retry_after_ms=options.retry_after_ms,
        on_call=on_call,
        record=options.record,
        record_mode=options.record_mode or "append",
        normalise=normalise if options.record is not None and _is_new(options) else NO_RULES,
        live_from=options.live_from_call,
        live_model=options.model if isinstance(options, ExecArguments) else "",
        upstreams=None if options.record is None else parse_upstreams(options.upstreams, environment),
        upstream_keys=None if options.record is None else read_keys(environment) or None,
        upstream_end_wait_s=END_WAIT_S if options.upstream_end_wait_s is None else options.upstream_end_wait_s,
        allow_hosts=options.allow_hosts if isinstance(options, ServeArguments) else (),
        allow_origins=options.allow_origins if isinstance(options, ServeArguments) else (),
        has_tools=options.mcp is not None or isinstance(options, ExecArguments),
        tools=ProgramToolOptions.of(options.tools, run_all=options.run_tools)
        if isinstance(options, ExecArguments)
        else None,
    )


def _is_new(options: WireArguments) -> bool:
    """Return whether the recording has no exchanges, or none that stay."""
    return options.record_mode == "fresh" or not recorded_size(options.record or "")[0]


def events_of(options: WireArguments) -> EventOptions:
    """Return where the events of a run go."""
    return EventOptions(trace=options.trace, metrics=options.metrics, spans=options.spans, otel=options.otel)


def recognise(options: ExecArguments, command: Sequence[str]) -> KnownProgram:
    """Return a command's program with its preset, and report which one was recognised.

    Raises:
        InputError: the options name an unknown preset, or a preset of the config is invalid.
    """
    program = known_program(options.preset, command, presets_of(find_project()))
    if program.name and not options.quiet:
        announcement = program.announcement(runs_tools=options.replay is not None)
        print_message("offbook: ", announcement, is_err=True)
    return program


W = TypeVar("W", bound=WireArguments)


def with_record_mode(options: W) -> W:
    """Return the arguments with their record mode, if they record.

    Raises:
        InputError: the recording has exchanges and no mode is given, or it cannot be read.
    """
    if options.record is None or options.live_from_call is not None:
        return options
    return replace(options, record_mode=require_record_mode(options.record, options.record_mode))


def child_environment(
    environment: Mapping[str, str],
    server: WireServer,
    network: ProgramNetwork,
    base_url_vars: Iterable[str] = (),
    *,
    program: KnownProgram = UNKNOWN,
) -> dict[str, str]:
    """Return a program's environment: with the variables that lead to the server, and those that the user names."""
    plain = plain_environment(environment, server.url, is_replayed=not server.is_live)
    own = server.env | named_base_urls(base_url_vars, server.url)
    environment = network.environment_of(own, server.url, plain=plain)
    return program.environment(environment, is_replayed=not server.is_live)


class EffectReports:
    """The file for a command's effect reports, for a block.

    Inside another run, that run's file is used, and nothing is read here.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._is_outermost = EFFECTS_VARIABLE not in environment
        self._folder = PrivateFolder()
        self._file = Path(self._folder.name) / "effects.jsonl"

    @property
    def variables(self) -> dict[str, str]:
        return {EFFECTS_VARIABLE: str(self._file)} if self._is_outermost else {}

    def read(self, server: WireServer, *, is_cut_off: bool) -> list[Effect]:
        """Return the effects that were reported to the file, and over HTTP.

        Raises:
            InputError: a report is not an effect.
        """
        for session in server.sessions:
            for problem in islice(session.refused_effects, 1):
                raise problem
        data = self._file.read_bytes() if self._file.exists() else b""
        in_file = read_effect_lines(data, source=EFFECTS_VARIABLE, is_cut_off=is_cut_off)
        return [*split_reached(in_file)[0], *(effect for session in server.sessions for effect in session.effects)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._folder.cleanup()


def print_notes(options: WireArguments) -> None:
    """Report on stderr what the command will do for real, and the edits of its recording without effect.

    Raises:
        InputError: the recording cannot be read.
    """
    if options.replay is not None and options.mcp is None:
        from offbook.recording.recorded_tools import RecordedTools

        recorded = RecordedTools(options.replay)
        runs_all = isinstance(options, ExecArguments) and options.run_tools
        quiet = {name for name, tool in options.tools.items() if tool.read_only or tool.run}
        quiet |= set() if runs_all else recorded.answered | recorded.steering
        if tools := ", ".join(name for name in recorded.called if name not in quiet):
            message = (
                f"no result of {tools} is recorded: a tool is refused if it can be taken over, and else runs for real"
            )
            if runs_all:
                message = f"the program runs its tools for real; the recording asks for {tools}"
            print_message("offbook: ", message, is_err=True)
        if not options.is_folder:
            _warn_of_edits(options.replay)


MAX_CHECKED_EXCHANGES = 500
"""Recordings above this size are not checked for edited entries: too large to edit by hand, and slow to check."""


def _warn_of_edits(location: str) -> None:
    """Name the entries that were edited without effect, because their bytes are served."""
    from offbook.cli.commands.recording.check import disagreement

    for key, exchange in islice(open_store(location).load(), MAX_CHECKED_EXCHANGES):
        if problem := disagreement(exchange):
            print_message("warning: ", f"{location}: {short_key(key)}: {problem}", is_err=True)
            return


@contextmanager
def discard_empty_recording(location: str | None) -> Iterator[None]:
    """Remove the file at `location` if it is new and nothing was recorded in it.

    A database stays, because others may have it open.

    Raises:
        InputError: the location names no store.
    """
    was_there = location is None or open_store(location).exists()
    try:
        yield
    finally:
        if not was_there and location is not None:
            open_store(location).remove_if_empty()


class WireTally(Struct, frozen=True):
    """The outcome of a run over the wire. `totals` include sessions that were deleted; calls and misses do not.

    `effects` are the side effects that the program has reported. It `got_no_answer` if real APIs answered no call.
    `cache` is what a shared recording was used for. `tool_turns` are the tool calls of each answer that has some.
    If it `ignored_mcp`, the program reached none of the MCP servers that the recording is about. `tools` are the names
    of its function tools that were taken over, `untaken` those of others that its model was told the results of,
    `unseen` those of them that are recorded, and `remarks` say what else is to be known about them. `files` are those
    that it has created, changed or deleted in its working folder.
    """

    totals: SessionTotals
    calls: list[WireCall]
    misses: list[Miss]
    unused: list[UnusedExchange]
    overused: list[OverusedExchange]
    faults: FaultTally
    effects: Sequence[Effect] = ()
    got_no_answer: bool = False
    cache: CacheCounts | None = None
    network: NetworkTally | None = None
    tool_turns: Sequence[Sequence[RecordedToolCall]] = ()
    ignored_mcp: bool = False
    tools: frozenset[str] = frozenset()
    untaken: Sequence[str] = ()
    unseen: Sequence[str] = ()
    remarks: Sequence[str] = ()
    files: Mapping[str, Change] | None = None

    @property
    def failed(self) -> int:
        """The number of recorded calls that failed."""
        return self.totals.failures.total()

    @property
    def but_for(self) -> dict[str, int]:
        """The number of calls answered despite a harmless difference, by the kind of difference."""
        return {" and ".join(kinds): count for kinds, count in sorted(self.totals.but_for.items())}

    @property
    def unrecorded(self) -> int:
        """The number of calls that could not be recorded."""
        return self.totals.unrecorded.total()

    @property
    def counts(self) -> dict[str, int]:
        """The number of calls and attempts, and the number of attempts with each outcome."""
        counts = {"calls": self.totals.calls, "tries": self.totals.tries}
        counts |= self.totals.outcomes.items()
        counts |= {"failed": self.failed} if self.failed else {}
        return counts | ({"unrecorded": self.unrecorded} if self.unrecorded else {})

    def document(self, *, with_calls: bool) -> dict[str, Any]:
        """Return it for JSON, without the requests: they may be large, and secret."""
        document: dict[str, Any] = {"counts": self.counts}
        if with_calls:
            document["calls"] = [_call_document(call) for call in self.calls]
        rest = {"misses": self.misses, "unused": self.unused, "faults": self.faults}
        rest |= {"overused": self.overused} if self.overused else {}
        rest |= {"but_for": self.but_for} if self.but_for else {}
        rest |= {"effects": self.effects} if self.effects else {}
        rest |= {"cache": self.cache} if self.cache is not None else {}
        rest |= {"network": self.network} if self.network is not None else {}
        rest |= {"unseen": self.unseen} if self.unseen else {}
        rest |= {"remarks": self.remarks} if self.remarks else {}
        rest |= {"files": dict(self.files)} if self.files is not None else {}
        document.update(msgspec.to_builtins(rest))
        return document


def has_reached(live_from: int | None, tally: WireTally) -> bool:
    """Return whether the run reached its `--live-from` call. True without one."""
    return live_from is None or any(call.call >= live_from for call in tally.calls)


def tally_wire_calls(
    server: WireServer,
    usage: tuple[list[UnusedExchange], list[OverusedExchange]],
    plan: FaultPlan,
    effects: Sequence[Effect] = (),
) -> WireTally:
    """Return the tally of a server that has ended. `usage` is its unused and overused exchanges, `plan` its initial
    fault plan.
    """
    totals = server.totals()
    faults = tally_faults(Log(faults=[totals.faults], plan=plan))
    tally = WireTally(
        totals, server.calls, server.misses, *usage, faults, effects, server.got_no_answer, server.cache_counts
    )
    return replace(
        tally,
        tool_turns=[turn for session in server.sessions for turn in session.tool_turns],
        tools=frozenset(name for tools in server.program_tools for name in tools.taken),
        remarks=[remark for tools in server.program_tools for remark in tools.remarks],
    )


def _call_document(call: WireCall) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(replace(call, request=None))
    del document["request"]
    return document


class ExitDecision(Struct, frozen=True):
    """The exit code, with a reason and a hint, if any."""

    code: int
    reason: str = ""
    hint: str = ""


class ExitPolicy(Struct, frozen=True):
    """Decides the exit code of a command.

    A command stopped at its time limit is late, whatever it did before. A miss, or a recorded tool that ran for real
    unseen, overrides the command's exit code; the hint to record again is omitted if a fault had fired before every
    miss. Otherwise the exit code of a failed command stands. A successful one fails if it made no call, or reached none
    of its MCP servers here (unless `allow_no_calls`), if no call got an answer or one could not be recorded, if a
    planned fault never fired, or, with `strict_unused`, if exchanges were unused or overused.
    """

    options: ExecArguments
    command: Sequence[str]

    def decide(self, end: ChildExit, tally: WireTally) -> ExitDecision:
        """Return the exit code for a command that ended so."""
        if end.is_late:
            return ExitDecision(TIMED_OUT, "the command reached its time limit and was stopped", _TIME_LIMIT_HINT)
        if tally.totals.outcomes["missed"]:
            return self._mismatch(tally)
        if tally.unseen:
            reason = f"the program ran {', '.join(tally.unseen)} for real: it is recorded, but was not taken over"
            return ExitDecision(MISMATCH, reason, place_hint(tally.unseen[0], self.options, self.command))
        if end.code == FINE:
            return self._success(tally)
        if tally.got_no_answer:
            return ExitDecision(end.code, _NO_ANSWER, _NO_ANSWER_HINT)
        is_interrupted = end.code == SIGNALLED + SIGINT
        is_explained = tally.totals.tries or self.options.quiet or self.options.allow_no_calls or is_interrupted
        return ExitDecision(end.code) if is_explained else self._early_end(end, tally)

    def _early_end(self, end: ChildExit, tally: WireTally) -> ExitDecision:
        by = f" by signal {end.code - SIGNALLED}" if end.code > SIGNALLED else ""
        reason = f"the command {'was ended' if by else 'failed'}{by}, and made no call to the server"
        return ExitDecision(end.code, reason, f"if it got that far, {_no_call_hint(tally.network)}")

    def _success(self, tally: WireTally) -> ExitDecision:
        if tally.ignored_mcp and not tally.faults.fired and not self.options.allow_no_calls:
            return self._ignored_mcp()
        if not tally.totals.tries and not self.options.allow_no_calls:
            return ExitDecision(MISMATCH, "the command made no call to the server", _no_call_hint(tally.network))
        if not has_reached(self.options.live_from_call, tally):
            made = pluralize(tally.totals.calls, "call")
            reason = f"call {self.options.live_from_call} was never made, so nothing was live: the run made {made}"
            return ExitDecision(FAILED, reason, "name an earlier call, or run the command as it was recorded")
        if tally.got_no_answer:
            return ExitDecision(FAILED, _NO_ANSWER, _NO_ANSWER_HINT)
        if tally.unrecorded or tally.faults.unfired:
            return ExitDecision(FAILED)
        return ExitDecision(MISMATCH if self.options.strict_unused and (tally.unused or tally.overused) else FINE)

    def _ignored_mcp(self) -> ExitDecision:
        from offbook.mcp.config import UNREACHED_HINT

        ran = "ran" if self.options.record is None else "were not recorded, and ran"
        reason = f"the command reached none of the MCP servers of {self.options.mcp} here: their tools {ran} for real"
        return ExitDecision(MISMATCH, reason, f"{UNREACHED_HINT}; add -o allow_no_calls=true if it calls none of them")

    def _mismatch(self, tally: WireTally) -> ExitDecision:
        is_listed = len(tally.misses) == tally.totals.outcomes["missed"]
        if is_listed and all(miss.is_after_fault for miss in tally.misses):
            return ExitDecision(MISMATCH)
        if is_listed and all(miss.kind == "rejected" for miss in tally.misses):
            hint = "correct them, or answer them with -o lenient_requests=true"
            return ExitDecision(MISMATCH, "the real API would refuse requests of the command", hint)
        has_matched = bool(tally.totals.outcomes["served"]) or self.options.record is not None
        reason = f"the recording {'does not match' if has_matched else 'matches none of'} the calls"
        if is_listed and all(MASK_IT in miss.text for miss in tally.misses):
            return ExitDecision(MISMATCH, reason, MASK_IT)
        return ExitDecision(MISMATCH, reason, self._record_again(has_matched=has_matched))

    def _record_again(self, *, has_matched: bool) -> str:
        if misplaced := next((word for word in self.command if word in _FAULT_OPTIONS), ""):
            return f"{misplaced} went to the program: put options of offbook before the command"
        path = "PATH" if self.options.is_folder else shlex.quote(self.options.recording)
        words = arguments_of(self.options, among={"intercept", "intercept_hosts", "mcp"})
        kept = "".join(f"{shlex.quote(word)} " for word in words)
        again = f"offbook exec {kept}--record {path} --record-mode fresh -- {shlex.join(self.command)}"
        hint = f"record it again, or undo the change: {again}"
        return hint if has_matched else f"is {path} the recording of this program? If it is, {hint}"


def place_hint(tool: str, options: WireArguments, command: Sequence[str]) -> str:
    """Return how to take over a tool that no framework announces."""
    finding = shlex.join(["offbook", "tools", "--", *command])
    if tool in options.tools and (named := options.tools[tool].function):
        return f"[tools.{tool}] names {named}, which was not called; to find what was: {finding}"
    return f'say where it is: [tools.{tool}] function = "module:name"; to find it: {finding}'


def _no_call_hint(network: NetworkTally | None) -> str:
    if network is None or not network.passed:
        return _BASE_URL_HINT
    hosts = ", ".join(sorted(network.passed)[:SHOWN_HOSTS])
    return f"it connected to {hosts}; name a model's host by -o intercept_hosts=HOST, or add -o allow_no_calls=true"


SHOWN_HOSTS = 5
_FAULT_OPTIONS = ("--fault", "--plan", "--replay", "--recording")  # easily written behind the command
_BASE_URL_HINT = (
    "let its clients take their base URL from OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST"
    " or OFFBOOK_URL, as SDKs do by default, or try --intercept; add -o allow_no_calls=true if it makes no calls"
)
_NO_ANSWER = "no call got an answer, so there is nothing to replay"
_NO_ANSWER_HINT = (
    "recording calls the real APIs: check the network, and the address of the API (--upstream, or the variable of its"
    " SDK); then record again with --record-mode fresh"
)
_TIME_LIMIT_HINT = (
    "a timeout or a stall lasts until the client gives up, after ten minutes with most SDKs: set a shorter timeout"
    " in the client, or a longer time_limit"
)
