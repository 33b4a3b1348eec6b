"""The doubles of HTTP APIs and MCP servers in a test: clients of this process, and servers for programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from typing_extensions import Unpack

from offbook.errors import InputError, RecordingFormatError
from offbook.faults import FaultPlan
from offbook.recording.format.document import LENIENT_ADVICE
from offbook.recording.format.exchange import RecordedToolCall
from offbook.session.log import Log
from offbook.vendors import upstreams_from_environment
from offbook.wire.api import StandIn
from offbook.wire.backend import CallInspection
from offbook.wire.options import StandInOptions, WireOptions
from offbook.wire.session import Miss

if TYPE_CHECKING:
    from offbook.mcp.answer import McpSource
    from offbook.mcp.config import ServerConfig
    from offbook.mcp.session import McpToolCall
    from offbook.scenarios.mocks import Mocks
    from offbook.server import McpWireServer, ServedMcp
    from offbook.tools.toolbox import GivenTool, GivenTools
    from offbook.wire.intercept.in_process import InProcessInterception
    from offbook.wire.server.wire_server import WireServer

GivenMcpTools: TypeAlias = "Iterable[GivenTool | GivenTools | Mocks]"


@contextmanager
def marker_advice() -> Iterator[None]:
    """Name the marker in the hint of a recording that is too old for a strict replay."""
    __tracebackhide__ = True
    try:
        yield
    except RecordingFormatError as error:
        hint = error.hint.replace(LENIENT_ADVICE, "mark the test: @pytest.mark.offbook(strict=False)")
        raise RecordingFormatError(error.reason, source=error.source, place=error.place, hint=hint) from None


class HttpDoubles:
    """The doubles of HTTP APIs and MCP servers in one test, opened on first use."""

    def __init__(self, recording: str | None = None, **options: Unpack[StandInOptions]) -> None:
        self._recording, self._options = recording, options
        self._opened: list[CallInspection] = []
        self._interceptions: list[InProcessInterception] = []
        self._tool_faults = FaultPlan()
        self._has_recorded_mcp = False
        self._used_silently: StandIn | None = None

    @cached_property
    def stand_in(self) -> StandIn:
        """Answers clients in this process."""
        with marker_advice():
            stand_in = StandIn(self._recording, **self._options)
        self._opened.append(stand_in)
        return stand_in

    def intercept(self, hosts: Iterable[str]) -> InProcessInterception:
        """Answer all clients of this process that request the hosts of vendors, or these, until the test ends."""
        interception = self.stand_in.intercept(*hosts)
        self._interceptions.append(interception)
        return interception

    def intercept_all(self) -> None:
        """Intercept for a test that does not declare that it uses the recording."""
        self.intercept(())
        self._used_silently = self.stand_in

    @contextmanager
    def serving(
        self, *, upstreams: Mapping[str, str] | None, upstream_keys: Mapping[str, str] | None
    ) -> Iterator[WireServer]:
        """Answer programs at an address, for a block. `upstreams` and `upstream_keys` are for recording; the
        environment has the addresses of other APIs.
        """
        from offbook.wire.server.wire_server import WireServer  # noqa: PLC0415 - few tests need a server

        options = WireOptions(recording=self._recording, **self._options)
        if options.record is not None:
            urls = upstreams_from_environment(os.environ) | dict(upstreams or {})
            options = replace(options, upstreams=urls, upstream_keys=upstream_keys)
        with marker_advice():
            opened = WireServer(options)
        with opened as server:
            self._opened.append(server)
            yield server

    @contextmanager
    def mcp(self, server: ServerConfig, tools: GivenMcpTools | None = None) -> Iterator[ServedMcp]:
        """Stand in for an MCP server, for a block: by the recording, or by `tools`. All blocks of a test share one
        session."""
        self._has_recorded_mcp |= tools is None
        served = self._mcp_server.add_mcp(server, mock=None if tools is None else mock_of(server.name, tools))
        try:
            yield served
        finally:
            self._mcp_server.remove_mcp(server.name)

    @cached_property
    def _mcp_server(self) -> McpWireServer:
        from offbook.mcp.config import McpConfig  # noqa: PLC0415 - few tests need MCP servers
        from offbook.mcp.recorder import McpRecorder  # noqa: PLC0415
        from offbook.server import McpWireServer  # noqa: PLC0415

        record, recorder = self._options.get("record"), None
        if record is not None:
            recorder = McpRecorder(record, mode=self._options.get("record_mode", "append"))
        options = WireOptions(
            recording=self._recording,
            strict=True,
            lenient_requests=self._options.get("lenient_requests", False),
            faults=self._tool_faults,
        )
        options = options if self._recording is not None else replace(options, responses={})
        with marker_advice():
            server = McpWireServer(options, McpConfig.of(()), recorder=recorder)
        self._opened.append(server)
        return server.start()

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls of MCP tools, in order."""
        return self._mcp_server.tool_calls if "_mcp_server" in vars(self) else []

    @property
    def tool_turns(self) -> list[list[RecordedToolCall]]:
        """The tool calls of each answer that has some, in order, server by server."""
        return [turn for opened in self._opened for session in opened.sessions for turn in session.tool_turns]

    def served_by_mcp(self) -> tuple[int, int]:
        """Return the numbers of MCP calls that the recording answered, and that it could not answer."""
        outcomes = self._mcp_server.totals().outcomes if "_mcp_server" in vars(self) else {}
        return outcomes.get("served", 0), outcomes.get("missed", 0)

    @property
    def is_opened(self) -> bool:
        """Whether something declares its use of the recording. Functions in place of an MCP server do not."""
        others = (vars(self).get("_mcp_server"), self._used_silently)
        return self._has_recorded_mcp or any(opened not in others for opened in self._opened)

    def missing_key_advice(self) -> str:
        """Return which key is not set, if live calls have failed that need one; else empty."""
        from offbook.wire.proxy.upstream import missing_key_advice  # noqa: PLC0415 - only failures need it

        return missing_key_advice([call for opened in self._opened for call in opened.calls], os.environ)

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for opened in self._opened for miss in opened.misses]

    @property
    def forgotten_misses(self) -> int:
        """The number of such calls in deleted sessions."""
        return sum(opened.totals().outcomes["missed"] for opened in self._opened) - len(self.misses)

    @property
    def log(self) -> Log:
        """The log of all sessions, including deleted ones, and the fired faults."""
        logs = [session.log for opened in self._opened for session in opened.sessions]
        if "_mcp_server" in vars(self):
            logs += [self._mcp_server.hub.log_of(session) for session in self._mcp_server.sessions]
        return Log(Log.of(logs).cursors, faults=[opened.totals().faults for opened in self._opened])

    def follow(self, plan: FaultPlan) -> None:
        """Follow this plan from now on. Tool faults fire where tools are called, here at MCP servers."""
        model_faults = FaultPlan([line for line in plan if line.at.tool is None], chaos=plan.chaos)
        self._options["faults"] = model_faults
        self._tool_faults = FaultPlan([line for line in plan if line.at.tool is not None])
        mcp_server = vars(self).get("_mcp_server")
        for opened in self._opened:
            opened.follow(self._tool_faults if opened is mcp_server else model_faults)

    def close(self) -> None:
        """Stop the running servers, end interception, and close the recording."""
        for interception in self._interceptions:
            interception.close()
        if "stand_in" in vars(self):
            self.stand_in.close()
        if "_mcp_server" in vars(self):
            self._mcp_server.stop()


def mock_of(name: str, tools: GivenMcpTools) -> Callable[[], McpSource]:
    """Return the function that makes an MCP server of functions, tools and mocks.

    Raises:
        InputError: one cannot be a tool.
    """
    from offbook.mcp.mock import MockServer, given_tools  # noqa: PLC0415 - few tests need it

    start = given_tools(tools)
    return lambda: MockServer(name, start())


def server_config(name: str, given: Mapping[str, Any], *, is_recording: bool) -> ServerConfig:
    """Return an MCP server from the arguments of `offbook.mcp`. A replay needs no server.

    Raises:
        InputError: they do not describe a server, or recording needs one.
    """
    __tracebackhide__ = True
    from offbook.mcp.config import parse_config  # noqa: PLC0415

    fields = {key: value for key, value in given.items() if value is not None}
    source = f"offbook.mcp({name!r})"
    if len({"command", "url", "tools"} & fields.keys()) > 1:
        raise InputError("give a command, a url or tools, and only one of them", source=source)
    if is_recording and not {"command", "url", "tools"} & fields.keys():
        hint = 'name the real server: command=["npx", "-y", "some-mcp-server"], or url="https://…"'
        raise InputError("there is no server to record", source=source, hint=hint)
    fields.pop("tools", None)
    if "url" not in fields:
        command = fields.get("command", ["none"])
        words = None if isinstance(command, str | bytes) else [os.fspath(word) for word in command]
        if not words:
            hint = 'like command=["npx", "-y", "some-mcp-server"]'
            raise InputError("expected a list of str", source=source, place="command", hint=hint)
        fields |= {"command": words[0], "args": words[1:]}
    return parse_config({"mcpServers": {name: fields}}, source=source).servers[0]
