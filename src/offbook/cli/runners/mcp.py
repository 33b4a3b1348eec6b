"""The work of `offbook mcp`: serving, recording and verifying a single server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.errors import InputError

if TYPE_CHECKING:
    from offbook.cli.options import LatencyModel, RecordMode
    from offbook.mcp.hub import McpHub
    from offbook.mcp.recorder import McpRecorder
    from offbook.mcp.surface import Surface
    from offbook.mcp.verify import McpVerification
    from offbook.recording.format.document import Document
    from offbook.recording.latency import Latency
    from offbook.recording.match.fingerprint import NormaliseRules
    from offbook.tools import ToolDef
    from offbook.wire.options import WireOptions
    from offbook.wire.session import WireSession


class ServedRecording(Struct, frozen=True, kw_only=True):
    """A recording that `mcp serve` serves: all its MCP servers, or the one called `name`."""

    location: str
    name: str | None = None
    faults: Sequence[str] = ()
    plan: str | None = None
    latency_model: LatencyModel = "constant"
    latency_ms: float = 0.0

    def wire_options(self) -> WireOptions:
        from offbook.cli.runners.wire import wire_options_of
        from offbook.wire.settings import WireArguments

        arguments = WireArguments(
            replay=self.location,
            faults=tuple(self.faults),
            plan=self.plan,
            mcp=self.location,
            latency_model=self.latency_model,
            latency_ms=self.latency_ms,
        )
        return wire_options_of(arguments, os.environ)

    def servers(self) -> list[str]:
        """Return the names of the servers to serve.

        Raises:
            InputError: the recording has none, or lacks the named one.
        """
        from offbook.mcp.replay import recorded_servers
        from offbook.recording.stores.locate import open_store
        from offbook.text import suggestion

        reader = open_store(self.location).read()
        try:
            known = recorded_servers(reader.tools)
        finally:
            reader.close()
        if self.name is None and not known:
            hint = "record one with 'offbook mcp record', or name the server of its tools with --name"
            raise InputError("the recording has no MCP server", source=self.location, hint=hint)
        if self.name is not None and known and self.name not in known:
            hint = suggestion(self.name, known, kind="servers")
            raise InputError(f"no server {self.name!r}", source=self.location, hint=hint)
        return known if self.name is None else [self.name]

    def only_server(self) -> str:
        """Return the name of the server for a client at stdin.

        Raises:
            InputError: there are several.
        """
        names = self.servers()
        if len(names) > 1:
            hint = f"choose one with --name: {', '.join(names)}"
            raise InputError(f"the recording has {len(names)} servers", source=self.location, hint=hint)
        return names[0]


def serve_recording_at_stdio(served: ServedRecording) -> int:
    """Serve a client at our stdin and stdout from a recording, until its input ends; return the exit code."""
    from offbook.mcp.hub import McpHub
    from offbook.mcp.stdio import serve_stdio
    from offbook.wire.backend import WireBackend

    name = served.only_server()
    backend = WireBackend(served.wire_options())
    try:
        session = McpHub([name], latency=_latency(served)).session(name, backend.sessions.named(""))
        return _exit_code(asyncio.run(serve_stdio(session)), session.session)
    finally:
        backend.close()


def hub_of(served: ServedRecording) -> McpHub:
    """Return the servers of a recording, to be mounted on a server."""
    from offbook.mcp.hub import McpHub

    return McpHub(served.servers(), latency=_latency(served))


def _latency(served: ServedRecording) -> Latency:
    from offbook.recording.latency import Latency

    return Latency(served.latency_model, latency_ms=served.latency_ms, seed=0)


class MockedServer(Struct, frozen=True, kw_only=True):
    """The tools that `mcp mock` serves: a Python file, or a JSON file with schemas."""

    path: str
    given_name: str | None = None
    faults: Sequence[str] = ()
    plan: str | None = None

    @property
    def name(self) -> str:
        return self.given_name or Path(self.path).stem

    def wire_options(self) -> WireOptions:
        from offbook.wire.options import WireOptions
        from offbook.wire.settings import WireArguments

        plan = WireArguments(faults=tuple(self.faults), plan=self.plan).fault_plan()
        return WireOptions(responses={}, strict=True, faults=plan, has_tools=True)

    @contextmanager
    def hub(self) -> Iterator[McpHub]:
        """Load the tools, and return their server; each session has its own.

        Raises:
            InputError: the file cannot be read, or has no tools.
        """
        from offbook.config.discovery import execute_file, import_from
        from offbook.mcp.hub import McpHub
        from offbook.mcp.mock import MockServer, annotated, module_tools, schema_tools
        from offbook.settings import configured_tools, find_project
        from offbook.text import did_you_mean_file
        from offbook.tools.effects import declared_tools

        path = Path(self.path)
        if path.suffix not in (".py", ".json"):
            hint = "name a Python file with functions, or a JSON file with schemas"
            raise InputError("expected a .py or .json file", source=self.path, hint=hint)
        if not path.is_file():
            raise InputError("no such file", source=self.path, hint=did_you_mean_file(path))
        with import_from([path.resolve().parent]):
            is_module = path.suffix == ".py"
            start = module_tools(execute_file(path), source=self.path) if is_module else schema_tools(path)
            hub = McpHub([])
            declared = declared_tools(configured_tools(find_project()))
            hub.add(self.name, mock=lambda: MockServer(self.name, annotated(start(), declared)))
            yield hub


def serve_mocks_at_stdio(mocked: MockedServer) -> int:
    """Serve a client at our stdin and stdout by mocked tools, until its input ends; return the exit code."""
    with _own_stdout() as output, mocked.hub() as hub:
        return _serve_hub(hub, mocked.name, mocked.wire_options(), output=output)


def serve_tools_at_stdio(name: str, tools: Sequence[ToolDef]) -> int:
    """Serve a client at our stdin and stdout by tools, until its input ends; return the exit code."""
    from offbook.mcp.hub import McpHub
    from offbook.mcp.mock import MockServer, given_tools
    from offbook.wire.options import WireOptions

    start, hub = given_tools(tools), McpHub([])
    hub.add(name, mock=lambda: MockServer(name, start()))
    with _own_stdout() as output:
        return _serve_hub(hub, name, WireOptions(responses={}, strict=True, has_tools=True), output=output)


def _serve_hub(hub: McpHub, name: str, options: WireOptions, *, output: int) -> int:
    from offbook.mcp.stdio import serve_stdio
    from offbook.wire.backend import WireBackend

    backend = WireBackend(options)
    try:
        session = hub.session(name, backend.sessions.named(""))
        return asyncio.run(serve_stdio(session, output=output))
    finally:
        backend.close()


@contextmanager
def _own_stdout() -> Iterator[int]:
    """Return a file descriptor of our stdout. Other output in the block goes to stderr."""
    import sys

    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield output
    finally:
        sys.stdout.flush()
        os.dup2(output, 1)
        os.close(output)


class RecordedServer(Struct, frozen=True, kw_only=True):
    """A real server that `mcp record` records under `name` at `output`: a command, or a URL."""

    output: str
    name: str
    command: Sequence[str] = ()
    url: str | None = None
    record_mode: RecordMode = "append"
    faults: Sequence[str] = ()

    def wire_options(self) -> WireOptions:
        from offbook.wire.options import WireOptions

        return WireOptions(responses={}, strict=True, faults=self.faults, has_tools=True)

    @contextmanager
    def recorder(self) -> Iterator[McpRecorder]:
        """Open the recording."""
        from offbook.cli.runners.wire import discard_empty_recording
        from offbook.mcp.recorder import McpRecorder

        with discard_empty_recording(self.output):
            recorder = McpRecorder(self.output, mode=self.record_mode)
            try:
                yield recorder
            finally:
                recorder.close()


def record_at_stdio(recorded: RecordedServer) -> int:
    """Run the real server for a client at our stdin and stdout, and record it; return its exit code."""
    from offbook.mcp.hub import McpHub
    from offbook.mcp.stdio import ServerProcess, serve_stdio
    from offbook.wire.backend import WireBackend

    backend = WireBackend(recorded.wire_options())
    with recorded.recorder() as recorder:
        hub = McpHub([recorded.name], recorder=recorder)
        session = hub.session(recorded.name, backend.sessions.named(""))
        upstream = ServerProcess(recorded.command, environment=os.environ) if recorder.is_live else None
        return _exit_code(asyncio.run(serve_stdio(session, upstream=upstream)), session.session)


def _exit_code(code: int, session: WireSession) -> int:
    """Print a stdio session's problems, and return the exit code: the server's own, if it failed."""
    from offbook.cli import FAILED, MISMATCH
    from offbook.cli.output.console import print_message
    from offbook.faults.log import describe_unfired
    from offbook.text import pluralize

    for reason, count in session.failures.items():
        message = f"{pluralize(count, 'request')} had no answer: {reason}"
        print_message("offbook: ", message, style="bold red", is_err=True)
    for reason, count in session.unrecorded.items():
        message = f"{pluralize(count, 'call')} could not be recorded: {reason}"
        print_message("offbook: ", message, style="bold red", is_err=True)
    for line in session.unfired():
        message = f"the fault {describe_unfired(line, session.faults.reached)}"
        print_message("offbook: ", message, style="bold red", is_err=True)
    if session.misses:
        return code or MISMATCH
    return code or (FAILED if session.unrecorded or session.unfired() else code)


def hub_to(recorded: RecordedServer, recorder: McpRecorder) -> McpHub:
    """Return the real server at a URL, recorded, to be mounted on a server."""
    from offbook.mcp.config import ServerConfig
    from offbook.mcp.hub import McpHub

    return McpHub([ServerConfig(recorded.name, "http", {"url": recorded.url})], recorder=recorder)


def recorded_surfaces(location: str) -> dict[str, Surface]:
    """Return what the MCP servers of a recording offer, by name.

    Raises:
        InputError: it cannot be read, or has no MCP server.
    """
    from offbook.mcp.surface import surfaces_of
    from offbook.recording.format.document import each_exchange
    from offbook.recording.stores.locate import open_store

    surfaces = surfaces_of(each_exchange(open_store(location).load().tools))
    if not surfaces:
        hint = "record one with 'offbook mcp record'"
        raise InputError("the recording has no MCP server", source=location, hint=hint)
    return surfaces


class VerifiedServer(Struct, frozen=True, kw_only=True):
    """A live server that `mcp verify` compares with a recording: a command, or a URL."""

    recording: str
    name: str | None = None
    command: Sequence[str] = ()
    url: str | None = None
    headers: Sequence[str] = ()
    ignore: Sequence[str] = ()
    runs_tools: bool = False
    limit_s: float = 30.0

    def rules(self, document: Document) -> NormaliseRules:
        """Return the rules that exclude parts from the comparison: the recording's, and `ignore`. Raises InputError for
        a bad path.
        """
        from msgspec.structs import replace

        from offbook.recording.format.document import rules_from_meta
        from offbook.recording.match.fingerprint import check_rules

        declared = rules_from_meta(document.meta, source=self.recording)
        rules = replace(declared, ignore=(*declared.ignore, *self.ignore))
        check_rules(rules, source="--ignore")
        return rules

    def header_fields(self) -> dict[str, str]:
        """Return the headers by name. Raises InputError if one is not like NAME=VALUE."""
        if any("=" not in each for each in self.headers):
            raise InputError("expected NAME=VALUE", source="--header", hint="like Authorization='Bearer …'")
        pairs = (each.partition("=") for each in self.headers)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}


def verify_server(verified: VerifiedServer) -> McpVerification:
    """Repeat the recorded requests at a live server, and compare. Raises InputError if the server does not answer."""
    from offbook.mcp.verify import LiveClient, live_process, live_url, verify
    from offbook.recording.stores.locate import open_store
    from offbook.settings import configured_tools, find_project

    server = ServedRecording(location=verified.recording, name=verified.name).only_server()
    document = open_store(verified.recording).load()
    rules, headers = verified.rules(document), verified.header_fields()
    read_only = [name for name, tool in configured_tools(find_project()).items() if tool.read_only]

    async def work() -> McpVerification:
        url = verified.url
        async with live_process(verified.command, os.environ) if url is None else live_url(url, headers) as live:
            client = LiveClient(live, limit_s=verified.limit_s)
            return await verify(
                document, server, client, rules=rules, runs_tools=verified.runs_tools, read_only=read_only
            )

    return asyncio.run(work())


def serve_until_signal(hub: McpHub, options: WireOptions, *, port: int, does: str, is_quiet: bool) -> bool:
    """Serve MCP servers over HTTP until a signal, and return whether a request had no answer."""
    from signal import SIGHUP, SIGINT, SIGTERM

    import typer
    from msgspec.structs import replace

    from offbook.cli.output.wire import WireCallLog
    from offbook.cli.run_program import SignalPipe
    from offbook.text import printable
    from offbook.wire.server.wire_server import WireServer

    log = WireCallLog(is_quiet=is_quiet)
    server = WireServer(replace(options, on_call=log.on_call), port=port, mount=hub)
    with SignalPipe(SIGINT, SIGTERM, SIGHUP) as signals, log, server:
        for name in hub.names:
            place = hub.prefix if len(hub.names) == 1 else f"{hub.prefix}/{name}"
            typer.echo(printable(f"{server.url}{place}: {name}, {does}; Ctrl-C stops it"))
        next(iter(signals))
        return bool(server.misses)
