"""The fixture `offbook`: models and tools for a test, answered from its recording."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar

import pytest
from msgspec.structs import replace

import offbook as package
from offbook.clock import refuse_in_loop, run
from offbook.errors import InputError, RecordingMismatchError
from offbook.faults import FaultInjector, FaultLog, FaultPlan, PlannedFault, inject_tools, parse_fault
from offbook.faults.log import describe_unfired
from offbook.faults.order import CallOrder
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.pipeline import live_provider
from offbook.providers.provider import Provider, WrappedProvider
from offbook.pytest_plugin.backend import (
    AnsweredCall,
    RecordingBackend,
    RecordingUsage,
    backend_for,
    record_again_hint,
    record_first_hint,
)
from offbook.pytest_plugin.http_doubles import GivenMcpTools, HttpDoubles, server_config
from offbook.pytest_plugin.markers import RecordingPlan
from offbook.pytest_plugin.recordings import fail_if_overused, fail_if_unused
from offbook.recording.stores.locate import open_store
from offbook.session.log import Log, Served
from offbook.text import did_you_mean, pluralize
from offbook.tools import Toolbox
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.wire.api import StandIn

if TYPE_CHECKING:
    import httpx2

    from offbook.mcp.session import McpToolCall
    from offbook.pytest_plugin.golden import GoldenTrajectories
    from offbook.server import ServedMcp
    from offbook.wire.intercept.in_process import InProcessInterception
    from offbook.wire.server.wire_server import WireServer


class RuntimeFaultInjector(WrappedProvider):
    """Passes requests on to `provider` with faults that may change during the run. Call numbers continue.

    Closing it leaves the provider open. `fault_log` has the fired faults. An unrecorded request raises an error with
    `hint`, and is one of `misses`.
    """

    def __init__(
        self, provider: Provider, plan: FaultPlan, *, fault_log: FaultLog, order: CallOrder, hint: str
    ) -> None:
        super().__init__(provider)
        self.misses: list[RecordingMismatchError] = []
        self._injector = FaultInjector(provider, plan, fault_log=fault_log, order=order)
        self._hint = hint

    def follow(self, plan: FaultPlan) -> None:
        """Follow this plan from now on."""
        self._injector.follow(plan)

    async def send(self, request: Request) -> Reply:
        try:
            return await self._injector.send(request)
        except RecordingMismatchError as error:
            self.misses.append(error.replace(hint=self._hint))
            raise self.misses[-1] from None


MAX_SHOWN_MISSES = 3
NOTHING_EXPLORED = (
    "the run made no call that could fail\n"
    "  hint: let the test use offbook.provider, offbook.gateway, an HTTP client of offbook or offbook.tools(…), or "
    "remove mark.explore"
)
NOTHING_CALLED = (
    "the test is marked offbook and makes no call that the marker answers, so nothing is replayed\n"
    "  hint: the marker answers httpx, httpx2, requests and aiohttp in this process; for programs use "
    "offbook.serving(), and remove the marker if the test makes no call"
)
NOTHING_USED = (
    "the test takes the fixture offbook and does not use it, so nothing is replayed\n"
    "  hint: use offbook.provider, offbook.http_client(), offbook.tools(…) or offbook.intercept(); or mark the test "
    "instead: @pytest.mark.offbook"
)
UNEXPLORED = frozenset(("serving", "mcp"))
"""Features that the fixture of an explored test lacks."""


def refuse_unexplored(name: str) -> Never:
    """Refuse features that an explored test cannot use, also while recording."""
    __tracebackhide__ = True
    hint = "explore it as a program: offbook explore --replay PATH -- COMMAND"
    what = "MCP servers" if name == "mcp" else "servers for other programs"
    raise InputError(f"{what} are not explored in a test", source=f"offbook.{name}", hint=hint)


T = TypeVar("T")


class PackageNames:
    """Has the public names of the package, which the fixture hides in a test that imports it: `offbook.effect(…)`."""

    def __getattr__(self, name: str) -> Any:
        if name in dir(package):
            return getattr(package, name)
        own = [each for each in dir(self) if not each.startswith("_")]
        hint = did_you_mean(name, own, kind="attributes")
        raise AttributeError(f"the fixture offbook has no attribute {name!r}. {hint}")


class Offbook(PackageNames, Served):
    """The fixture `offbook` of one test: models and tools, replayed from `recording` or recorded to it."""

    def __init__(self, plan: RecordingPlan) -> None:
        self._plan = plan
        self._is_used = False
        self._live_source: Provider | Callable[[], Provider] = self._vendor
        self._fault_injector: RuntimeFaultInjector | None = None
        self._gateway: ProviderGateway | None = None
        self._has_http = False
        self._faults, self._fault_log = FaultPlan(), FaultLog()
        self._order = CallOrder()
        self._faulty_tools = inject_tools((), self._faults, fault_log=self._fault_log, order=self._order)
        self._reported_misses = set[str]()

    def __repr__(self) -> str:
        return f"<offbook {'recording' if self.is_recording else 'replaying'} {self._plan.location}>"

    def __getattr__(self, name: str) -> Any:
        self._is_used = True
        return super().__getattr__(name)

    @property
    def recording(self) -> str:
        """The location of the test's recording."""
        self._is_used = True
        return self._plan.location

    @property
    def is_recording(self) -> bool:
        """Whether the test calls the real models and tools."""
        return self._plan.record is not None

    @property
    def provider(self) -> Provider:
        """The provider that answers model calls.

        Raises:
            InputError: there is no recording to replay.
        """
        __tracebackhide__ = True
        if self._fault_injector is None:
            hint = record_again_hint(self._plan.node_id)
            self._fault_injector = RuntimeFaultInjector(
                self._backend.provider, self._faults, fault_log=self._fault_log, order=self._order, hint=hint
            )
        return self._fault_injector

    @property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls. Raises like `provider`."""
        __tracebackhide__ = True
        if self._gateway is None:
            self._gateway = ProviderGateway()
            self._gateway.register(self.provider)
        return self._gateway

    @property
    def stand_in(self) -> StandIn:
        """The stand-in for the APIs of HTTP clients in this process. Raises like `provider`, also in explored tests."""
        __tracebackhide__ = True
        return self._http("stand_in").stand_in

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """Return a client for an SDK: `AsyncOpenAI(http_client=offbook.http_client())`.

        Recording goes through `transport`, by default over the network. Raises like `provider`.
        """
        __tracebackhide__ = True
        return self._http("http_client").stand_in.http_client(transport)

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """Return a client for a synchronous SDK: `OpenAI(http_client=offbook.sync_http_client())`."""
        __tracebackhide__ = True
        return self._http("sync_http_client").stand_in.sync_http_client(transport)

    def intercept(self, *hosts: str) -> InProcessInterception:
        """Answer all requests of httpx, httpx2, requests and aiohttp in this process to vendors' APIs.

        Clients may be created anywhere. `hosts` are further hosts, or patterns like `*.example.org`. It lasts until the
        end of the test, or of a block: `with offbook.intercept(): …`. Raises like `provider`.
        """
        __tracebackhide__ = True
        return self._http("intercept").intercept(hosts)

    def intercept_all(self) -> None:
        """Answer all clients of a test that has the marker alone. Without a recording, each call is a miss."""
        self._http("intercept", needs_recording=False).intercept_all()

    def serving(
        self,
        *,
        upstreams: Mapping[str, str] | None = None,
        upstream_keys: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[WireServer]:
        """Serve the APIs at an address: `with offbook.serving() as server: …`; see `offbook.serving`.

        `upstreams` and `upstream_keys` are for recording. Other APIs have their SDKs' addresses, which environment
        variables like OPENAI_BASE_URL may set. Raises like `provider`.
        """
        __tracebackhide__ = True
        return self._http("serving").serving(upstreams=upstreams, upstream_keys=upstream_keys)

    def mcp(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        tools: GivenMcpTools | None = None,
    ) -> AbstractContextManager[ServedMcp]:
        """Stand in for an MCP server: `with offbook.mcp("github", command=["npx", …]) as github: …`.

        `github.config` is its entry for a client's `mcpServers`, `github.url` its URL over HTTP, and `github.path` a
        config file with all open servers.

        Args:
            name: the name of the server, before that of its tools: `github.create_issue`.
            command, env: starts the real server when recording, with variables in addition to the client's.
            url, headers: the real server over HTTP, instead.
            tools: functions, tools or `Mocks` that answer instead of a server, without a recording.

        Raises:
            InputError: the arguments do not describe a server, or there is no recording to replay.
        """
        __tracebackhide__ = True
        given = {"command": command, "env": env, "url": url, "headers": headers, "tools": tools}
        config = server_config(name, given, is_recording=self.is_recording)
        return self._http("mcp", needs_recording=tools is None).mcp(config, tools)

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls of MCP tools in order, which `assert_trajectory` takes. Each has a `name` (`github.create_issue`),
        `arguments`, a `result` or an `error`, and the `fault` that fired."""
        return self._backend.http_without_recording.tool_calls if self._has_http else []

    @property
    def calls(self) -> list[AnsweredCall]:
        """The answered model calls in order: ReplayServed, or CallRecorded."""
        return list(self._backend.answered.calls)

    def live(self, provider: Provider | Callable[[], Provider]) -> None:
        """Set the provider to record from, or a function that returns one.

        The function is called on the first live request only: a replay needs no key.
        """
        self._live_source = provider

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools to be recorded or replayed: `tools(search, book)`, or `tools([search, book])`.

        They fail where `faults` have a fault for them.

        Raises:
            InputError: one of them is not a tool, or there is no recording to replay.
        """
        __tracebackhide__ = True
        tools, recorded = Toolbox.of(*given), self._backend.toolbox
        return Toolbox([self._faulty_tools.wrap(recorded.wrap(tool)) for tool in tools.values()])

    def faults(self, *faults: str | PlannedFault) -> None:
        """Add faults from now on: `faults("call=1: http_error 500", "tool=refund: tool_lost")`.

        Earlier ones take precedence.

        Raises:
            InputError: a str is not a fault.
        """
        __tracebackhide__ = True
        try:
            planned = [parse_fault(each) if isinstance(each, str) else each for each in faults]
        except InputError as error:
            raise error.with_traceback(None) from None  # pytest shows the line of the test alone
        self._faults = FaultPlan([*self._faults, *planned])
        self._faulty_tools.follow(self._faults)
        if self._fault_injector is not None:
            self._fault_injector.follow(self._faults)
        if self._has_http:
            self._backend.http_without_recording.follow(self._faults)

    def assert_golden(self, calls: Iterable[object] | None = None, *, name: str = "") -> None:
        """Assert that the tool calls are as approved. `pytest --offbook-approve` approves them, once the test passes.

        Args:
            calls: the calls in any common shape, or the messages of an agent; by default those that models have
                requested of HTTP clients and servers of this fixture. Calls of one message have no order.
            name: for a test with several trajectories.

        Raises:
            AssertionError: they differ from every golden trajectory; the message shows the nearest one.
            InputError: an item is not a tool call, or the golden file cannot be read.
        """
        __tracebackhide__ = True
        recorded = self._backend.http_without_recording.tool_turns if calls is None and self._has_http else None
        self._golden.check(recorded, calls, name=name, approves=self._plan.approves)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine: in virtual time when replaying, in which waits take no time, else in real time.

        Raises:
            EventLoopError: the test is async itself; await `work` instead.
        """
        __tracebackhide__ = True
        self._is_used = True
        refuse_in_loop(work)
        return run(self._run_and_disconnect(work), virtual_time=not self.is_recording)

    @property
    def log(self) -> Log:
        """The log of the recording so far, and the fired faults. Nothing is unused while recording."""
        return Log.of([self._fault_outcome, Log(self._backend.log.cursors)])

    @property
    def _fault_outcome(self) -> Log:
        """The faults alone. The unused rest of the recording is read only on demand."""
        over_http = self._backend.http_without_recording.log.faults if self._has_http else ()
        return Log(faults=[self._fault_log, *over_http], plan=self._faults)

    def check_missed(self) -> None:
        """Fail the test if it made an unrecorded call since the last check, even if the error was caught."""
        __tracebackhide__ = True
        if message := self.describe_missed():
            pytest.fail(message, pytrace=False)

    def describe_missed(self) -> str:
        """Return the unrecorded calls since the last call, and how to record the test again, or "".

        The hint is omitted if all of them follow a fault, because nothing after a fault is recorded.
        """
        new = [(text, is_drift) for text, is_drift in self._misses() if text not in self._reported_misses]
        texts = [text for text, _ in new]
        self._reported_misses.update(texts)
        if not new:
            return ""
        lines = [f"{pluralize(len(new), 'call')} not recorded:", *texts[:MAX_SHOWN_MISSES]]
        lines += [f"… and {len(new) - MAX_SHOWN_MISSES:,} more"] if len(new) > MAX_SHOWN_MISSES else []
        if not self.is_recording and not open_store(self._plan.location).exists():
            told = [line.replace(": responses: ", ": ", 1).removesuffix(" The recording is empty.") for line in lines]
            lines = [f"{self._plan.location}: no such recording", *told]
            return "\n".join([*lines, f"  hint: {record_first_hint(self._plan)}"])
        hint = record_again_hint(self._plan.node_id) if any(is_drift for _, is_drift in new) else ""
        if hint and self._plan.is_named and not self._backend.answered.served:
            hint = f"is {Path(self._plan.location).name} the recording of this test? If it is, {hint}"
        return "\n".join([*lines, f"  hint: {hint}"] if hint else lines)

    def missing_key_advice(self) -> str:
        """Return which key is not set, if live calls over HTTP have failed that need one; else empty."""
        is_live = self.is_recording and self._has_http
        return self._backend.http_without_recording.missing_key_advice() if is_live else ""

    def check_used(self) -> None:
        """Fail a test that takes the fixture to replay and never uses it."""
        __tracebackhide__ = True
        is_used = self._is_used or self._faults.faults or {"_backend", "_golden"} & vars(self).keys()
        if not (is_used or self.is_recording or self._plan.is_explored):
            pytest.fail(NOTHING_USED, pytrace=False)

    def check_called(self, usage: RecordingUsage) -> None:
        """Fail a test that is marked itself and made no call."""
        __tracebackhide__ = True
        if not (usage.served or usage.recorded or usage.missed):
            pytest.fail(NOTHING_CALLED, pytrace=False)

    def check_unfired(self) -> None:
        """Fail the test if one of its faults never fired."""
        __tracebackhide__ = True
        if self._faults.faults and (unfired := self._fault_outcome.unfired()):
            reached = self._fault_outcome.reached
            lines = [f"the fault {describe_unfired(line, reached)}" for line in unfired]
            hint = "  hint: no such call was made after offbook.faults(…); remove the fault, or correct its place"
            pytest.fail("\n".join([*lines, hint]), pytrace=False)

    def check_unused(self) -> None:
        """Fail the test if it used recorded entries too seldom or too often and that is an error."""
        __tracebackhide__ = True
        if self._plan.is_unused_error and not self.is_recording:
            fail_if_unused(self.unused(), self._plan.location)
            fail_if_overused(self.overused(), self._plan.location)

    def check_explored(self) -> None:
        """Fail an explored test that uses nothing that could fail."""
        __tracebackhide__ = True
        if self._plan.is_explored and "_backend" not in vars(self):
            pytest.fail(NOTHING_EXPLORED, pytrace=False)

    def close(self, *, passed: bool) -> RecordingUsage:
        """Close the recording, and save new recordings and approvals if the test passed."""
        usage = RecordingUsage(recording=self._plan.location)
        usage = self._backend.close(passed=passed) if "_backend" in vars(self) else usage
        has_golden = "_golden" in vars(self) and passed
        return replace(usage, approved=self._golden.approve()) if has_golden else usage

    def _misses(self) -> list[tuple[str, bool]]:
        """Return the texts of all unrecorded calls of the provider, of tools and over HTTP, and whether each is no
        consequence of a fault.
        """
        if "_backend" not in vars(self):
            return []
        http = self._backend.http_without_recording if self._has_http else None
        over_http, forgotten = ([], 0) if http is None else (http.misses, http.forgotten_misses)
        models = [] if self._fault_injector is None else self._fault_injector.misses
        tools = self._backend.tool_misses()
        if not (models or tools or over_http or forgotten):
            return []
        fired = [str(planned) for planned in self._fault_outcome.fired]
        elsewhere, is_broken = fired[len(self._fault_log.fired) :], bool(self._fault_log.fired)
        errors = [error.replace(hint="", fired=[*error.fired, *elsewhere]) for error in models]
        errors += [error.replace(hint="", fired=fired) for error in tools]
        misses = [(str(error), not error.fired) for error in errors]
        misses += [
            (f"{miss.method} {miss.place}: {miss}", not (is_broken or miss.is_after_fault)) for miss in over_http
        ]
        return [*misses, *[("a call of a session that was deleted", not fired)] * forgotten]

    def _http(self, name: str, *, needs_recording: bool = True) -> HttpDoubles:
        __tracebackhide__ = True
        if self._plan.is_explored and name in UNEXPLORED:
            refuse_unexplored(name)
        http = self._backend.http if needs_recording else self._backend.http_without_recording
        if not self._has_http:
            http.follow(self._faults)
            self._has_http = True
        return http

    @cached_property
    def _golden(self) -> GoldenTrajectories:
        from offbook.pytest_plugin.golden import GoldenTrajectories  # noqa: PLC0415 - most tests have none

        return GoldenTrajectories(self._plan.location, self._plan.node_id)

    @cached_property
    def _backend(self) -> RecordingBackend:
        return backend_for(self._plan, self._live)

    def _live(self) -> Provider:
        return self._live_source if isinstance(self._live_source, Provider) else self._live_source()

    def _vendor(self) -> Provider:
        if self._plan.provider is None:
            hint = 'call offbook.live(provider) first, or mark the test: @pytest.mark.offbook(provider="openai")'
            raise InputError("there is no provider to record from", source=self._plan.node_id, hint=hint)
        return live_provider(self._plan.provider)

    async def _run_and_disconnect(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        finally:
            await self._backend.disconnect()
