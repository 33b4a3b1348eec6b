"""The fixture `offbook`: models and tools for a test, answered from its recording."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from offbook.call_numbers import CallNumbers
from offbook.clock import refuse_in_loop, run
from offbook.errors import InputError, RecordingMismatchError
from offbook.faults import FaultInjector, FaultLog, FaultPlan, PlannedFault, inject_tools, parse_fault
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.pipeline import live_provider
from offbook.providers.provider import Provider
from offbook.pytest_plugin.backend import AnsweredCall, HttpDoubles, RecordingBackend, RecordingUsage, backend_for
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.recordings import fail_if_unused
from offbook.recording.match.cursor import UnusedEntry
from offbook.text import pluralize
from offbook.tools import Toolbox
from offbook.tools.definition import ToolDef
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.wire.api import StandIn
from offbook.wire.calls import Miss

if TYPE_CHECKING:
    import httpx2

    from offbook.wire.server.serving import WireServer


class RuntimeFaultInjector(Provider):
    """Passes requests on to `provider`, except where a fault was asked for. Calls are counted from the first.

    What it passes on to stays open when this is closed. `strikes` keeps what fired. What a replay has no answer for
    though nothing fired before says `hint`.
    """

    def __init__(self, provider: Provider, plan: FaultPlan, *, fault_log: FaultLog, hint: str) -> None:
        self.name = provider.name
        self._provider, self._call_numbers, self._fault_log, self._hint = provider, CallNumbers(), fault_log, hint
        self.follow(plan)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on."""
        self._injector = FaultInjector(self._provider, plan, call_numbers=self._call_numbers, fault_log=self._fault_log)

    async def send(self, request: Request) -> Reply:
        try:
            return await self._injector.send(request)
        except RecordingMismatchError as error:
            raise error.replace(hint="" if error.fired else self._hint) from None


def record_again_hint(node_id: str) -> str:
    """The hint to whoever changed what a test asks."""
    return f"record the test again, or undo the change: pytest {shlex.quote(node_id)} --offbook-record=fresh"


def fail_if_missed(misses: list[Miss], recording: str, node_id: str) -> None:
    """Fail the test that is running if there are some: show the first, and how to record the test again.

    That is not told if a fault has fired before every miss: what follows one is not to be recorded.
    """
    __tracebackhide__ = True
    if not misses:
        return
    told = f"{recording}: {pluralize(len(misses), 'call')} not recorded; the first, to {misses[0].place}:\n{misses[0]}"
    if not all(miss.is_after_fault for miss in misses):
        told += f"\n  hint: {record_again_hint(node_id)}"
    pytest.fail(told, pytrace=False)


T = TypeVar("T")


class Offbook:
    """Stands in for models and tools in one test, or records them. `recording` is where."""

    def __init__(self, plan: RecordingPlan) -> None:
        self.recording = plan.location
        self._plan = plan
        self._given: Provider | Callable[[], Provider] = self._vendor
        self._fault_injector: RuntimeFaultInjector | None = None
        self._gateway: ProviderGateway | None = None
        self._is_wired = False
        self._faults, self._fault_log = FaultPlan(), FaultLog()
        self._faulty_tools = inject_tools((), self._faults, fault_log=self._fault_log)

    def __repr__(self) -> str:
        return f"<offbook {'recording' if self.is_recording else 'replaying'} {self.recording}>"

    @property
    def is_recording(self) -> bool:
        """Whether the real models and tools are asked."""
        return self._plan.record is not None

    @property
    def provider(self) -> Provider:
        """What a test asks instead of a model.

        Raises:
            InputError: it is to replay, and there is no recording.
        """
        __tracebackhide__ = True
        if self._fault_injector is None:
            hint = record_again_hint(self._plan.node_id)
            self._fault_injector = RuntimeFaultInjector(
                self._answers.provider, self._faults, fault_log=self._fault_log, hint=hint
            )
        return self._fault_injector

    @property
    def gateway(self) -> ProviderGateway:
        """The provider behind a gateway that tries failed calls again. Raises like `provider`."""
        __tracebackhide__ = True
        if self._gateway is None:
            self._gateway = ProviderGateway()
            self._gateway.register(self.provider)
        return self._gateway

    @property
    def stand_in(self) -> StandIn:
        """Stands in for APIs behind HTTP clients in this process: its transports, its calls. Raises like `provider`."""
        __tracebackhide__ = True
        return self._wires().stand_in

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """What an SDK asks instead of its API: `AsyncOpenAI(http_client=offbook.http_client())`.

        What is to be recorded is asked through `transport`, by default over the network. Raises like `provider`.
        """
        __tracebackhide__ = True
        return self.stand_in.http_client(transport)

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """The like for SDKs that do not await: `OpenAI(http_client=offbook.sync_http_client())`."""
        __tracebackhide__ = True
        return self.stand_in.sync_http_client(transport)

    def serving(
        self,
        *,
        upstreams: Mapping[str, str] | None = None,
        upstream_keys: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[WireServer]:
        """A server that stands in for the APIs: `with offbook.serving() as server: …`; see `offbook.serving`.

        `upstreams` and `upstream_keys` count when recording; an API that is not named is asked where its SDK would ask
        by the environment, as by OPENAI_BASE_URL. Raises like `provider`.
        """
        __tracebackhide__ = True
        return self._wires().serving(upstreams=upstreams, upstream_keys=upstream_keys)

    @property
    def calls(self) -> list[AnsweredCall]:
        """The calls of models that were answered, in order: ReplayServed, or CallRecorded."""
        return list(self._answers.log.calls)

    def live(self, provider: Provider | Callable[[], Provider]) -> None:
        """Say what is asked when the test is recorded: a provider, or what makes one.

        The latter is called only if something is asked live, so that a replay needs no key.
        """
        self._given = provider

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """The same tools, recorded or answered from the recording: `tools(search, book)`, or `tools([search, book])`.

        They fail where `faults` say so.

        Raises:
            InputError: one of them is no tool, or there is no recording to replay.
        """
        __tracebackhide__ = True
        named: dict[str, ToolDef] = {}
        for each in given:
            named |= Toolbox([each] if callable(each) or isinstance(each, ToolDef) else each)
        toolbox = self._answers.toolbox
        return Toolbox([self._faulty_tools.wrap(toolbox.wrap(tool)) for tool in named.values()])

    def faults(self, *faults: str | PlannedFault) -> None:
        """Let calls fail on purpose, from now on: `faults("call=1: http_error 500", "tool=refund: tool_lost")`.

        Those asked for first go first.

        Raises:
            InputError: a text is no fault.
        """
        __tracebackhide__ = True
        planned = [parse_fault(each) if isinstance(each, str) else each for each in faults]
        self._faults = self._faulty_tools.plan = FaultPlan([*self._faults, *planned])
        if self._fault_injector is not None:
            self._fault_injector.follow(self._faults)
        if self._is_wired:
            self._answers.wires.follow(self._faults)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end: in virtual time when replaying, where waiting costs nothing, else in real time.

        Raises:
            EventLoopError: the test is async itself; await `work` there.
        """
        __tracebackhide__ = True
        refuse_in_loop(work)
        return run(self._disconnected_after(work), virtual_time=not self.is_recording)

    def unused(self) -> list[UnusedEntry]:
        """The entries of the recording that were not served so far; none while recording."""
        return self._answers.unused()

    def check_missed(self) -> None:
        """Fail the test if its recording lacked an answer over HTTP, whatever became of the error that told so."""
        __tracebackhide__ = True
        if self._is_wired:
            fail_if_missed(self._answers.wires.misses, self.recording, self._plan.node_id)

    def check_unused(self) -> None:
        """Fail the test if it left something of its recording unused, and that is to be an error."""
        __tracebackhide__ = True
        if self._plan.is_unused_error:
            fail_if_unused(self.unused(), self.recording)

    def close(self, *, passed: bool) -> RecordingUsage:
        """Let go of the recording. What was recorded is kept if the test has passed."""
        return self._answers.close(passed=passed) if "_answers" in vars(self) else RecordingUsage(self.recording)

    def _wires(self) -> HttpDoubles:
        __tracebackhide__ = True
        wires = self._answers.wires
        if not self._is_wired:
            wires.follow(self._faults)
            self._is_wired = True
        return wires

    @cached_property
    def _answers(self) -> RecordingBackend:
        return backend_for(self._plan, self._live)

    def _live(self) -> Provider:
        return self._given if isinstance(self._given, Provider) else self._given()

    def _vendor(self) -> Provider:
        if self._plan.provider is None:
            hint = 'call offbook.live(provider) first, or mark the test: @pytest.mark.offbook(provider="openai")'
            raise InputError("there is nothing to record from", source=self._plan.node_id, hint=hint)
        return live_provider(self._plan.provider)

    async def _disconnected_after(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        finally:
            await self._answers.disconnect()
