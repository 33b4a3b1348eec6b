"""The output of `exec` and `serve`: a notice at the start, a line for each call, a summary, and a JSON report."""

from __future__ import annotations

import logging
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
import typer
from msgspec import Struct

from offbook.cli.output.console import echo, echo_json, print_message
from offbook.cli.runners.wire import SHOWN_HOSTS, ExitDecision, WireTally
from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.faults import parse_fault
from offbook.recording.call_cache import CacheCounts
from offbook.recording.format.keys import short_fingerprint
from offbook.text import pluralize, printable, printable_line
from offbook.tools.effects import Effect
from offbook.wire.recordings import OverusedExchange, UnusedExchange
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import STEP_HEADER, Miss, WireCall, WireOutcome
from offbook.wire.settings import ExecArguments, ServeArguments
from offbook.working_folder import Change

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from offbook.wire.intercept.interception import NetworkTally

MAX_WAITING = 1_000
MAX_ALIKE, RATE_S = 100, 10.0
CLOSING_S = 0.3
STYLES = {"missed": "bold red", "refused": "bold red", "default": "yellow", "fault": "magenta"}
FAILED_STYLE = "bold red"


class WireCallLog(logging.Handler):
    """Writes a line for each call, and the server's log, to stderr.

    It writes on its own thread: neither a slow reader of stderr nor the import of rich delays an answer. It drops lines
    when a thousand are waiting, and messages of one kind above a hundred in ten seconds, and says how many. If quiet,
    it does not write calls.
    """

    def __init__(self, *, is_quiet: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(logging.WARNING)
        self._is_quiet, self._clock = is_quiet, clock
        self._counts: Counter[str] = Counter()
        self._since_s = -RATE_S
        self._dropped = self._written = 0
        self._is_sending = False
        self._lines: Queue[WireCall | str | None] = Queue(MAX_WAITING)

    def on_call(self, call: WireCall) -> None:
        if not self._is_quiet:
            self._put(call)

    def emit(self, record: logging.LogRecord) -> None:
        now_s, kind = self._clock.monotonic_s(), str(record.msg)
        if now_s - self._since_s >= RATE_S:
            self._since_s, self._counts = now_s, Counter()
        self._counts[kind] += 1
        if self._counts[kind] <= MAX_ALIKE:
            from offbook.recording.redact.rules import mask_shown

            self._put(printable(mask_shown(self.format(record))).replace("\n", "\n  "))
        else:
            self._dropped += 1

    def __enter__(self) -> Self:
        logging.getLogger("offbook.wire").addHandler(self)
        # not made before: a thread that a fork finds made and not started counts as ended there
        self._thread = Thread(target=self._write, name="offbook-call-log", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.getLogger("offbook.wire").removeHandler(self)
        with suppress(Full):
            self._lines.put(None, timeout=CLOSING_S)
        written, is_stuck = self._written, False
        while self._thread.is_alive() and not is_stuck:  # importing rich may take longer than any reader should
            self._thread.join(CLOSING_S)
            is_stuck = self._is_sending and self._written == written
            written = self._written

    def _put(self, line: WireCall | str) -> None:
        try:
            self._lines.put_nowait(line)
        except Full:
            self._dropped += 1

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write_dropped()
            self._print(_red_line(line) if isinstance(line, str) else call_line(line))
        self._write_dropped()

    def _print(self, line: Text) -> None:
        console = self._console
        self._is_sending = True
        console.print(line)
        self._is_sending = False
        self._written += 1

    def _write_dropped(self) -> None:
        """Report the number of dropped lines before the next one."""
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._print(_red_line(f"… and {dropped:,} more"))

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, soft_wrap=True, highlight=False)


def _red_line(message: str) -> Text:
    from rich.text import Text

    return Text(message, style="red")


def call_line(call: WireCall) -> Text:
    """Return `POST /v1/chat/completions  200  served  gpt-4o`, with any attempt, fault, session and failure."""
    from rich.text import Text

    from offbook.recording.redact.rules import mask_shown

    status = "no answer" if call.status is None else str(call.status)
    more = [
        call.model,
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        f"fault {call.fault}" if call.fault else "",
        f"session {call.session}" if call.session else "",
        f"failed: {call.failure}" if call.failure else "",
    ]
    style = FAILED_STYLE if call.failure else STYLES.get(call.outcome, "green")
    details = printable_line(mask_shown("".join(f"  {part}" for part in more if part)))
    return Text.assemble(
        printable_line(mask_shown(f"{call.method} {call.place}  {status}  ")),
        (call.outcome, style),
        details,
    )


ALL_INTERFACES_NOTE = "clients that use a name of this machine are refused; allow it with -o allow_hosts=NAME"


class ServingNotice(Struct, frozen=True, kw_only=True):
    """The notice of a server: its address, the variables for SDKs with further `variables`, and the URLs of MCP servers
    by name. It may have several `processes`.
    """

    server: WireServer
    options: ServeArguments
    variables: dict[str, str]
    mcp_urls: Mapping[str, str]
    processes: int = 1

    def print(self, *, api_key: str, is_json: bool) -> None:
        """Print it, as text or as one line of JSON."""
        url, variables = self.server.url, self.server.env | self.variables
        if is_json:
            mcp = {"mcp": self.mcp_urls} if self.mcp_urls else {}
            echo_json(msgspec.json.encode({"url": url, "env": variables} | mcp).decode(), is_own=True)
            return
        if self.server.is_on_all_interfaces and not self.options.allow_hosts:
            print_message("offbook: ", ALL_INTERFACES_NOTE, is_err=True)
        options = self.options
        does = f"recording to {options.record}" if options.record is not None else f"answering from {options.replay}"
        does = "answering every call with a default" if options.answers_alone else does
        many = f" in {self.processes} processes" if self.processes > 1 else ""
        echo(f"{url}: {printable(does)}{many}; Ctrl-C stops it")
        for name, value in variables.items():
            shown = '"$OFFBOOK_API_KEY"' if api_key and value == api_key else shlex.quote(value)
            typer.echo(printable(f"  export {name}={shown}"))
        for name, address in self.mcp_urls.items():
            echo(f"  {address}: the MCP server {printable(name)}")
        if self.processes > 1:  # each has sessions of its own
            return
        echo(f"for a separate session, use {url}/s/NAME instead of {url}, or the header x-offbook-session: NAME")
        echo(f"its outcome: GET {url}/_offbook/sessions/NAME; DELETE removes it")


SHOWN_UNUSED = 10


def describe_unused_wire(unused: Sequence[UnusedExchange], recording: str, *, is_folder: bool, has_fired: bool) -> str:
    """Return the number of unused exchanges of a recording, and a line for each of the first.

    In a folder, each line names its file. A fault that `has_fired` may be the reason.
    """
    said = "exchange of {} was" if len(unused) == 1 else "exchanges of {} were"
    lines = [f"{len(unused):,} {said.format(recording)} not used:"]
    lines += [f"  {_unused_line(left, is_folder=is_folder)}" for left in unused[:SHOWN_UNUSED]]
    if len(unused) > SHOWN_UNUSED:
        lines.append(f"  and {len(unused) - SHOWN_UNUSED:,} more")
    if has_fired:
        lines.append("  hint: a fault fired, which may be why")
    return "\n".join(lines)


def describe_overused(overused: Sequence[OverusedExchange], recording: str) -> str:
    """Return the number of overused exchanges, and a line for each of the first."""
    said = "exchange of {} was" if len(overused) == 1 else "exchanges of {} were"
    lines = [f"{len(overused):,} {said.format(recording)} served more often than recorded:"]
    for each in overused[:SHOWN_UNUSED]:
        session = f"  (session {each.session})" if each.session else ""
        line = f"{short_fingerprint(each.key)}  {each.about}  {each.served:,} times instead of once{session}"
        lines.append(f"  {printable(line).replace(chr(10), ' ')}")
    if len(overused) > SHOWN_UNUSED:
        lines.append(f"  and {len(overused) - SHOWN_UNUSED:,} more")
    return "\n".join(lines)


def _unused_line(left: UnusedExchange, *, is_folder: bool) -> str:
    where = [left.recording if is_folder else "", f"session {left.session}" if left.session else ""]
    source = ", ".join(filter(None, where))
    line = f"{short_fingerprint(left.key)}[{left.position}]  {left.about}{f'  ({source})' if source else ''}"
    return printable_line(line)


SHOWN_MISSES = 10
SHOWN_FAULTS = 5
_ATTEMPT = re.compile(r" attempt=\d+")
SHOWN_EFFECTS = 10
SHOWN_FAILURES = 3
_OUTCOME_WORDS: dict[WireOutcome, str] = {
    "served": "served",
    "passed": "forwarded, not recorded",
    "default": "answered with the default",
    "continued": "continued",
    "synthetic": "synthetic",
    "fault": "with a fault",
    "refused": "refused",
    "missed": "missed",
    "recorded": "recorded",
}


class WireSummary(Struct, frozen=True):
    """Prints the outcome of the calls; if quiet, only problems. Problems go to stderr.

    `recording` is the replayed or written recording, or a folder. A failed run's exchanges are `recorded_in` another
    file. Unused and overused exchanges are a problem if `is_strict`. If it `is_closing_log`, misses have been logged
    already, and the rest goes to stdout.
    """

    tally: WireTally
    recording: str
    recorded_in: str = ""
    is_folder: bool = False
    is_quiet: bool = False
    is_strict: bool = False
    is_closing_log: bool = False

    def print(self, decision: ExitDecision | None = None) -> None:
        """Print the summary, and the reason and hint of the decision."""
        if self.tally.failed or not self.is_quiet:
            place = self.recorded_in or self.recording
            self._say(self._describe_calls() + (f" ({place})" if place else ""), is_wrong=bool(self.tally.failed))
        if self.tally.cache is not None and not self.is_quiet:
            self._say(_describe_cache(self.tally.cache))
        if not self.is_quiet:
            self._print_happenings()
        for remark in self.tally.remarks:
            self._say(remark)
        self._print_problems()
        if self.tally.unused and (self.is_strict or not self.is_quiet):
            unused = describe_unused_wire(
                self.tally.unused, self.recording, is_folder=self.is_folder, has_fired=bool(self.tally.faults.fired)
            )
            self._say(unused, is_wrong=self.is_strict)
        if self.tally.overused and (self.is_strict or not self.is_quiet):
            self._say(describe_overused(self.tally.overused, self.recording), is_wrong=self.is_strict)
        if decision is not None and decision.reason:
            self._say(f"{decision.reason}\n  hint: {decision.hint}", is_wrong=True)

    def _print_happenings(self) -> None:
        """Print what did not count in calls, the faults that fired, and the effects that were reported."""
        if self.tally.but_for:
            parts = [f"{pluralize(count, 'call')} but for {kinds}" for kinds, count in self.tally.but_for.items()]
            self._say(f"matched: {', '.join(parts)}")
        if self.tally.faults.fired:
            self._say(_describe_fired(self.tally.faults.fired))
        if self.tally.effects:
            self._say(_describe_effects(self.tally.effects))
        if self.tally.files is not None:
            self._say(_describe_files(self.tally.files))

    def _print_network(self, network: NetworkTally) -> None:
        """Print the refused hosts, and the hosts whose clients do not trust the run's authority."""
        if network.refused and not self.is_quiet:
            self._say(f"block_network refused {_describe_hosts(network.refused)}")
        if network.distrusted:
            message = f"the program did not accept our certificate for {_describe_hosts(network.distrusted)}"
            self._say(f"{message}\n  hint: {_DISTRUST_HINT}", is_wrong=True)

    def _print_problems(self) -> None:
        """Print hosts that were not reached, misses, calls that could not be recorded, and faults that never fired."""
        if self.tally.network is not None:
            self._print_network(self.tally.network)
        if not self.is_closing_log:
            self._print_misses()
        self.print_unrecorded()
        faults = self.tally.faults
        for line, described in zip(faults.unfired, faults.describe_unfired(), strict=True):
            tool = parse_fault(line).at.tool
            why = f"{line!r} never fired: {tool} was not taken over" if tool in self.tally.untaken else described
            self._say(f"the fault {why}{_step_hint(line)}", is_wrong=True)

    def print_unrecorded(self) -> None:
        """Print the number of calls that could not be recorded, with the reason."""
        if self.tally.unrecorded:
            self._say(_describe_unrecorded(self.tally.totals.unrecorded, self.recording), is_wrong=True)

    def _print_misses(self) -> None:
        misses = self.tally.misses
        for miss in misses[:SHOWN_MISSES]:
            self._say(_describe_miss(miss), is_wrong=True)
        if len(misses) > SHOWN_MISSES:
            self._say(f"{len(misses) - SHOWN_MISSES:,} more calls have no answer", is_wrong=True)

    def _describe_calls(self) -> str:
        totals = self.tally.totals
        calls = pluralize(totals.calls, "call")
        calls += "" if totals.calls == totals.tries else f" in {pluralize(totals.tries, 'attempt')}"
        outcomes = [
            f"{totals.outcomes[outcome]:,} {word}"
            for outcome, word in _OUTCOME_WORDS.items()
            if totals.outcomes[outcome]
        ]
        return ", ".join([calls, *outcomes, *self._describe_failures()])

    def _describe_failures(self) -> list[str]:
        if not self.tally.failed:
            return []
        reasons = list(self.tally.totals.failures)
        more = "; …" if len(reasons) > SHOWN_FAILURES else ""
        return [f"of which {self.tally.failed:,} failed: {'; '.join(reasons[:SHOWN_FAILURES])}{more}"]

    def _say(self, text: str, *, is_wrong: bool = False) -> None:
        """Print a line."""
        print_message(
            "offbook: ", text, style="bold red" if is_wrong else "bold", is_err=is_wrong or not self.is_closing_log
        )


def _describe_cache(cache: CacheCounts) -> str:
    parts = [pluralize(cache.hits, "hit"), pluralize(cache.misses, "miss", "misses"), pluralize(cache.waits, "wait")]
    parts += [f"{cache.gone:,} expired or evicted"] if cache.gone else []
    parts += [f"{pluralize(cache.unreached, 'call')} made live because the server was away"] if cache.unreached else []
    return f"shared recording: {', '.join(parts)}"


_DISTRUST_HINT = (
    "it does not read SSL_CERT_FILE, REQUESTS_CA_BUNDLE, NODE_EXTRA_CA_CERTS or similar: make it trust the file that "
    "SSL_CERT_FILE names, or use a base URL"
)


def _describe_hosts(counts: Mapping[str, int]) -> str:
    hosts = [f"{host} ({pluralize(count, 'time')})" for host, count in sorted(counts.items())]
    more = f" and {len(hosts) - SHOWN_HOSTS:,} more" if len(hosts) > SHOWN_HOSTS else ""
    return ", ".join(hosts[:SHOWN_HOSTS]) + more


def _describe_fired(fired: list[str]) -> str:
    """Return the number of fired faults and the first few, grouping the attempts of a call."""
    attempts: dict[str, list[str]] = {}
    for line in fired:
        attempts.setdefault(_ATTEMPT.sub("", line, count=1), []).append(line)
    lines = [alike[0] if len(alike) == 1 else f"{line} ({len(alike):,} attempts)" for line, alike in attempts.items()]
    more = ", …" if len(lines) > SHOWN_FAULTS else ""
    return f"{pluralize(len(fired), 'fault')} fired: {', '.join(lines[:SHOWN_FAULTS])}{more}"


def _describe_files(files: Mapping[str, Change]) -> str:
    """Return `2 files: created hello.txt, changed README.md`, at most the first few."""
    shown = [f"{change} {printable_line(name)}" for name, change in islice(files.items(), SHOWN_EFFECTS)]
    more = ", …" if len(files) > SHOWN_EFFECTS else ""
    return f"{pluralize(len(files), 'file')}: {', '.join(shown)}{more}" if files else "no file was changed"


def _describe_effects(effects: Sequence[Effect]) -> str:
    shown = [f"{effect}{'' if effect.outcome == 'done' else f' {effect.outcome}'}" for effect in effects]
    more = ", …" if len(effects) > SHOWN_EFFECTS else ""
    return f"{pluralize(len(effects), 'effect')} reported: {', '.join(shown[:SHOWN_EFFECTS])}{more}"


def _describe_unrecorded(reasons: Mapping[str, int], recording: str) -> str:
    calls = pluralize(sum(reasons.values()), "call")
    shown = "; ".join(list(reasons)[:SHOWN_FAILURES]) + ("; …" if len(reasons) > SHOWN_FAILURES else "")
    return f"{calls} could not be recorded in {recording}: {shown}"


def _step_hint(line: str) -> str:
    if parse_fault(line).at.step_id is None:
        return ""
    return f"\n  hint: over the wire, a call names its step in {STEP_HEADER}; leave step out for others"


def _describe_miss(miss: Miss) -> str:
    call = f"call {miss.call}" if miss.call else f"{miss.method} {miss.place}"
    attempt = f", attempt {miss.attempt}," if miss.attempt > 1 else ""
    session = f" of session {miss.session!r}" if miss.session else ""
    return f"{call}{session}{attempt} has no answer: {miss.text}"


class WireReportFile:
    """Writes a JSON report to `path`, if given: without an exit code at the start, and in full at the end.

    Raises:
        InputError: the path is `-`, since stdout belongs to the command.
    """

    def __init__(self, path: str | None, options: ExecArguments, command: Sequence[str]) -> None:
        if path == "-":
            raise InputError("stdout belongs to the command", source="--report", hint="name a file")
        self._path = None if path is None else Path(path)
        self._head: dict[str, Any] = {
            "command": list(command),
            "mode": "record" if options.replay is None else "replay",
            "recording": options.recording,
        }

    def begin(self) -> None:
        """Write the report without an exit code.

        Raises:
            InputError: the file cannot be written.
        """
        self._write({"exit_code": None, **self._head})

    def finish(self, tally: WireTally, *, exit_code: int, command_exit_code: int) -> None:
        """Write the whole report.

        Raises:
            InputError: the file cannot be written.
        """
        head = {"exit_code": exit_code, "command_exit_code": command_exit_code, **self._head}
        self._write(head | tally.document(with_calls=True))

    def _write(self, document: dict[str, Any]) -> None:
        if self._path is not None:
            from offbook.report.reporter import encode_json, write_report

            write_report(self._path, msgspec.json.format(encode_json(document), indent=2) + b"\n")
