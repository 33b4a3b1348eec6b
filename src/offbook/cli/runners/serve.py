"""Serves the vendors' APIs for a command until a signal, in this process or in several on one port."""

from __future__ import annotations

import os
import secrets
import select
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from signal import SIGCHLD, SIGHUP, SIGINT, SIGTERM
from socket import socket
from typing import NamedTuple, Never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli.output.console import FaultTally, print_message
from offbook.cli.output.wire import ServingNotice, WireCallLog
from offbook.cli.run_program import SignalPipe
from offbook.cli.runners.wire import WireTally, discard_empty_recording, events_of, tally_wire_calls, wire_options_of
from offbook.clock import SYSTEM_CLOCK
from offbook.decoding import decode
from offbook.errors import InputError, OffbookError
from offbook.faults.catalog import ORDER_FAULT_TYPES
from offbook.wire.backend import SessionTotals
from offbook.wire.options import WireOptions
from offbook.wire.recordings import UnusedExchange
from offbook.wire.server.listener import bind_sockets
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import Miss
from offbook.wire.settings import ServeArguments

STOP_S = 15.0
"""The time limit for processes to end. Those still running then are killed, and count as dead."""
READ_BYTES = 1 << 16


class ServedTally(Struct, frozen=True):
    """The answers of a server in all its processes, and the endings of those that died."""

    tally: WireTally
    died: Sequence[str] = ()


def serve_here(options: ServeArguments) -> ServedTally:
    """Serve in this process until a signal, and return the tally of the calls.

    All servers of a `session_group` share sessions.

    Raises:
        InputError: an option is wrong, MCP servers are to be recorded behind a key, or a group is impossible.
    """
    from offbook.cli.runners.mcp_servers import McpServers

    if options.session_group:
        check_independent(options)
    log = WireCallLog(is_quiet=options.quiet)
    has_own_key = bool(options.api_key)
    wire_options = wire_options_of(options, os.environ, has_own_key=has_own_key, on_call=log.on_call)
    with (
        events_of(options).open() as sink,
        discard_empty_recording(options.record),
        McpServers(options, os.environ, sink=sink, has_own_key=has_own_key) as mcp,
    ):
        wire_options = replace(wire_options, sink=sink)
        server = WireServer(
            wire_options,
            host=options.host,
            port=options.port,
            api_key=options.api_key,
            token="" if options.open else None,
            mount=mcp.hub,
            has_peers=bool(options.session_group),
        )
        if options.session_group:
            server.share_sessions(options.session_group)
        with SignalPipe(SIGINT, SIGTERM, SIGHUP) as signals, log, server:
            variables, urls = mcp.point_to(server), mcp.urls(server)
            notice = ServingNotice(server=server, options=options, variables=variables, mcp_urls=urls)
            notice.print(api_key=options.api_key, is_json=options.as_json)
            next(iter(signals))
            signals.restore()
            usage = [*server.unused_exchanges(), *mcp.uncalled(server)], server.overused_exchanges()
    tally = tally_wire_calls(server, usage, options.fault_plan())
    return ServedTally(replace(tally, cache=mcp.cache_counts(tally.cache)))


def serve_in_processes(options: ServeArguments) -> ServedTally:
    """Serve in several processes on one port until a signal or a death, and return their tally.

    The kernel gives each connection to one of them. With a recording in Redis they share the sessions' positions, also
    with other servers of a `session_group`. Anything else that depends on earlier calls is refused.

    Raises:
        InputError: an option is wrong, or the answers depend on earlier calls.
        OffbookError: a process did not start.
    """
    check_independent(options)
    log = WireCallLog(is_quiet=options.quiet)
    wire_options = wire_options_of(options, os.environ, has_own_key=bool(options.api_key), on_call=log.on_call)
    with discard_empty_recording(options.record), _listening(wire_options, options) as (server, sockets):
        server.share_sessions(options.session_group or secrets.token_hex(8))
        with SignalPipe(SIGINT, SIGTERM, SIGHUP, SIGCHLD) as signals:
            processes = _Processes(server, sockets, options, log)
            try:
                processes.wait_until_ready()
                notice = ServingNotice(
                    server=server, options=options, variables={}, mcp_urls={}, processes=options.processes
                )
                notice.print(api_key=options.api_key, is_json=options.as_json)
                _wait_for_end(signals, processes)
                signals.restore()
            finally:
                processes.stop()
    return ServedTally(merge_tallies(processes.tallies(), options.recording), processes.died)


@contextmanager
def _listening(wire_options: WireOptions, options: ServeArguments) -> Iterator[tuple[WireServer, list[socket]]]:
    """Yield an unstarted server, and a listening socket for each process. All are closed at the end."""
    sockets = bind_sockets(options.host, options.port, options.processes)
    try:
        port = sockets[0].getsockname()[1]
        server = WireServer(
            wire_options,
            host=options.host,
            port=port,
            api_key=options.api_key,
            token="" if options.open else None,
            listener=sockets[0],
            has_peers=True,
        )
        try:
            yield server, sockets
        finally:
            server.stop()
    finally:
        for each in sockets:
            each.close()


def _wait_for_end(signals: SignalPipe, processes: _Processes) -> None:
    """Wait for a signal to end, or until a process has died."""
    for number in signals:
        if number != SIGCHLD or processes.note_dead():
            return


def check_independent(options: ServeArguments) -> None:
    """Refuse options that make an answer depend on earlier calls, which processes do not share.

    Raises:
        InputError: there is such an option.
    """
    hint = "leave it out, or use one process"
    if options.mcp is not None:
        reason = "sessions of MCP clients live in one process, and there are several"
        raise InputError(reason, source="--mcp", hint=hint)
    if options.record_mode not in (None, "append"):
        reason = "several processes can only add to a recording: they do not see what others record"
        raise InputError(reason, source=f"--record-mode {options.record_mode}", hint="use append, or one process")
    if given := events_of(options).given:
        raise InputError("each process has its own events", source=given[0], hint=hint)
    plan = options.fault_plan()
    if plan.chaos is not None:
        raise InputError(
            "chaos is drawn by the numbers of calls, which each process counts itself", source="--plan", hint=hint
        )
    for line in plan:
        numbers = (line.at.call, line.at.since, line.at.from_, line.at.until, line.at.attempt)
        if any(each is not None for each in numbers) or line.fault.type in ORDER_FAULT_TYPES:
            reason = "it fires at a certain call, and each process counts its own"
            raise InputError(
                reason,
                source=str(line),
                hint="use a fault of every call: 'everywhere: http_error 429'; or one process",
            )


class ProcessTally(Struct, frozen=True, kw_only=True):
    """The tally of one process, as JSON. `opened` are the recordings that it has answered from."""

    calls: int
    outcomes: dict[str, int]
    failures: dict[str, int]
    unrecorded: dict[str, int]
    fired: list[str]
    unfired: list[str]
    misses: list[Miss]
    unused: list[UnusedExchange]
    opened: list[str]
    got_no_answer: bool


def _process_tally(server: WireServer, unused: list[UnusedExchange], options: ServeArguments) -> ProcessTally:
    tally = tally_wire_calls(server, (unused, []), options.fault_plan())
    totals = tally.totals
    return ProcessTally(
        calls=totals.calls,
        outcomes={str(outcome): count for outcome, count in totals.outcomes.items()},
        failures=dict(totals.failures),
        unrecorded=dict(totals.unrecorded),
        fired=tally.faults.fired,
        unfired=tally.faults.unfired,
        misses=tally.misses,
        unused=tally.unused,
        opened=[source.reader.source for source in totals.uses],
        got_no_answer=tally.got_no_answer,
    )


def merge_tallies(tallies: Sequence[ProcessTally], recording: str) -> WireTally:
    """Return the tally of all processes. An exchange is unused if no process that has opened its recording used it."""
    totals = SessionTotals()
    for each in tallies:
        totals.calls += each.calls
        totals.outcomes.update(Counter(each.outcomes))  # type: ignore[arg-type]
        totals.failures.update(each.failures)
        totals.unrecorded.update(each.unrecorded)
    fired = [line for each in tallies for line in each.fired]
    planned = dict.fromkeys(line for each in tallies for line in each.unfired)
    unfired = [line for line in planned if all(line in each.unfired for each in tallies)]
    misses = [miss for each in tallies for miss in each.misses]
    is_silent = bool(tallies) and all(each.got_no_answer or not each.calls for each in tallies) and totals.calls > 0
    return WireTally(
        totals, [], misses, _unused(tallies, recording), [], FaultTally(fired, unfired), got_no_answer=is_silent
    )


def _unused(tallies: Sequence[ProcessTally], recording: str) -> list[UnusedExchange]:
    used = [each for each in tallies if each.opened] or tallies
    known = dict.fromkeys(entry for each in used for entry in each.unused)
    return [
        entry
        for entry in known
        if all(
            entry in each.unused for each in used if not each.opened or {entry.recording, recording} & {*each.opened}
        )
    ]


class _Process(NamedTuple):
    """A process and its report pipe: a line when it is ready, and its tally when it ends."""

    pid: int
    number: int
    report: int


class _Processes:
    """The processes of a server. They end when a pipe closes that only this process holds, even after a kill."""

    def __init__(
        self, server: WireServer, sockets: Sequence[socket], options: ServeArguments, log: WireCallLog
    ) -> None:
        self._alive, self._life = os.pipe()
        self._data: dict[int, bytearray] = {}
        self._count = len(sockets)
        self.died: list[str] = []
        self._ended = set[int]()
        self._running: list[_Process] = []
        for number, listener in enumerate(sockets, 1):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(self._life)
                for other in sockets:
                    if other is not listener:
                        other.close()
                _serve_until_eof(server, listener, options, log=log, alive=self._alive, report=writing)
            os.close(writing)
            self._running.append(_Process(pid, number, reading))
            self._data[reading] = bytearray()

    def wait_until_ready(self) -> None:
        """Wait until all listen.

        Raises:
            OffbookError: one ended before.
        """
        for process in self._running:
            if os.read(process.report, 1) != b"\n":
                raise OffbookError(f"process {process.number} of {self._count} did not start")

    def note_dead(self) -> bool:
        """Note the dead processes, and return whether there are any."""
        for process in self._running:
            if process.pid not in self._ended:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    self._ended.add(pid)
                    self.died.append(f"process {process.number} of {self._count} (pid {pid}) {_describe(status)}")
        return bool(self.died)

    def stop(self) -> None:
        """End all processes and collect their tallies. Those that do not end in time are killed. Safe to call twice."""
        if self._life < 0:
            return
        os.close(self._life)
        os.close(self._alive)
        self._life = -1
        deadline_s = SYSTEM_CLOCK.monotonic_s() + STOP_S
        open_pipes = {process.report for process in self._running}
        while open_pipes and (left_s := deadline_s - SYSTEM_CLOCK.monotonic_s()) > 0:
            for pipe in select.select(list(open_pipes), [], [], left_s)[0]:
                data = os.read(pipe, READ_BYTES)
                self._data[pipe] += data
                if not data:
                    open_pipes.discard(pipe)
        self._reap(open_pipes)

    def _reap(self, late: set[int]) -> None:
        for process in self._running:
            os.close(process.report)
            if process.pid in self._ended:
                continue
            if process.report in late:
                os.kill(process.pid, signal.SIGKILL)
            status = os.waitpid(process.pid, 0)[1]
            if status:
                self.died.append(f"process {process.number} of {self._count} (pid {process.pid}) {_describe(status)}")

    def tallies(self) -> list[ProcessTally]:
        """Return the tallies of the surviving processes."""
        return [decode(data, ProcessTally) for data in self._data.values() if data]


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _serve_until_eof(
    server: WireServer, listener: socket, options: ServeArguments, *, log: WireCallLog, alive: int, report: int
) -> Never:
    """Serve in a forked process until the pipe `alive` is closed, report the tally, and end."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (SIGINT, SIGHUP):  # a terminal sends them to all processes; the parent ends this one
            signal.signal(number, signal.SIG_IGN)
        for number in (SIGTERM, SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        server.listen_on(listener)
        with log, server:
            os.write(report, b"\n")
            os.read(alive, 1)
            unused = server.unused_exchanges()
        _write_all(report, msgspec.json.encode(_process_tally(server, unused, options)))
        code = 0
    except OffbookError as error:
        print_message("error: ", str(error), style="bold red", is_err=True)
    finally:
        os._exit(code)  # neither the parent's cleanup nor its buffers belong to this process


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
