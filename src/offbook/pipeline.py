"""Builds the providers and tools of a run from a config and a mode.

The order of the layers is stated here alone. Models: gateway (routing, fallback, retry, breaker) → faults → recorder →
HTTP, with a replay in place of the last two. Tools: faults → recorder → tool, with a replay in place of the last two.
API keys and base URLs come from the environment, which is read nowhere else.
"""

from __future__ import annotations

import glob
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

from offbook.call_numbers import CallNumbers
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.faults import FaultInjector, FaultLog, FaultPlan, inject_tools
from offbook.faults.site import PlannedFault
from offbook.gateway.gateway import DEFAULT_RETRY, ProviderGateway
from offbook.providers.catalog import PROVIDERS
from offbook.providers.provider import Provider
from offbook.recording.format.keys import tool_key
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.record import RecordingProvider
from offbook.recording.record_mode import RecordMode
from offbook.recording.replay import MockProvider
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_record import record_tools
from offbook.recording.tool_replay import ClosableToolbox, ReplayedTools, replay_tools
from offbook.tools import ToolDef
from offbook.vendors import CODEC_NAMES, VENDOR_OF, Vendor
from offbook.workflow.file.schema import ConfigDefinition
from offbook.workflow.file.tree import Endpoint
from offbook.workflow.runs.calls import RunCalls

NO_FAULTS = FaultPlan()


class Live(Struct, frozen=True):
    """Asks the models and tools themselves, and keeps nothing."""


class Record(Struct, frozen=True):
    """Asks the models and tools themselves, and keeps every call at `path`."""

    path: str
    record: RecordMode = "append"


class Mock(Struct, frozen=True):
    """Answers from `path`, by default the config's `responses_file`; what that lacks is answered with a default."""

    path: str | None = None
    lenient: bool = True


class Replay(Struct, frozen=True):
    """Answers from `path` and refuses what that lacks, unless told to fall back to a default."""

    path: str
    allow_default_fallback: bool = False


class ToolLayer(Protocol):
    """What stands around tools."""

    def wrap(self, tool: ToolDef) -> ToolDef:
        """The tool with this around it."""
        ...


class Doubles(ToolLayer, Protocol):
    """What is asked instead of every model, and stands around every tool."""

    @property
    def provider(self) -> Provider: ...


class Harnessed(Struct, frozen=True):
    """Asks nobody but the stand-ins; what recovers from failures, such as retry and fallbacks, stays in place."""

    doubles: Doubles


Mode: TypeAlias = Live | Record | Mock | Replay
Models: TypeAlias = Mapping[Endpoint, Sequence[str]]


def resolve_mode(mode: Mode, config: ConfigDefinition, models: Models | None = None) -> Mode:
    """The mode that a run has: a live one whose config has the provider `mock` is a mock, if no step has another."""
    is_mocked = config.provider == "mock" and all(endpoint.provider == "mock" for endpoint in models or ())
    return Mock(lenient=not config.strict) if isinstance(mode, Live) and is_mocked else mode


class FaultOutcome(Struct, frozen=True):
    """What became of a plan of faults over all the providers and tools of a session."""

    plan: FaultPlan
    fault_log: FaultLog

    def fired(self) -> list[PlannedFault]:
        """What fired, in order, as lines of a plan."""
        return list(self.fault_log.fired)

    def unfired(self) -> list[PlannedFault]:
        """The lines of the plan that have not fired so far, at any provider or tool."""
        return self.fault_log.missing(self.plan)


class Pipeline:
    """What a run asks: `gateway` for models, and tools as `wrap_tools` puts them in place.

    `fault_outcome` knows which faults have fired, and which have not.
    """

    def __init__(
        self,
        gateway: ProviderGateway,
        *,
        mock: MockProvider | None,
        tool_layers: Sequence[ToolLayer],
        fault_outcome: FaultOutcome,
    ) -> None:
        self.gateway, self.fault_outcome = gateway, fault_outcome
        self._mock, self._tool_layers = mock, tool_layers

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """The tools as the mode has them: recorded, answered from the recording if that has calls of tools, or plain.

        They fail where the faults say so. However often it is called, all calls count together.
        """
        wrapped = dict(tools)
        for layer in self._tool_layers:
            wrapped = {name: layer.wrap(tool) for name, tool in wrapped.items()}
        return wrapped

    def unused(self) -> list[UnusedEntry]:
        """The exchanges of a replayed recording that were not served; of tools, under keys like `_tools.search`."""
        unused = [] if self._mock is None else self._mock.unused()
        for layer in self._tool_layers:
            if isinstance(layer, ReplayedTools):
                unused += [UnusedEntry(tool_key(left.key), left.position) for left in layer.unused()]
        return unused


@asynccontextmanager
async def open_pipeline(
    config: ConfigDefinition,
    mode: Mode | Harnessed,
    *,
    folder: str | os.PathLike[str] = ".",
    models: Models | None = None,
    faults: FaultPlan = NO_FAULTS,
    sink: Sink = NULL_SINK,
    calls: RunCalls | None = None,
) -> AsyncIterator[Pipeline]:
    """The session of a config in a mode, open until the block ends.

    Args:
        folder: what `responses_file` is relative to.
        models: which models are asked where; by default, all at the config's own provider. If there are none,
            no provider is needed.
        faults: what fails on purpose.
        sink: told of every call.
        calls: keeps live calls, and answers those that it has, so that nothing is asked twice.

    Raises:
        InputError: a provider, a key or a recording is missing or wrong.
    """
    if not isinstance(mode, Harnessed):
        mode = resolve_mode(mode, config, models)
    async with AsyncExitStack() as stack:
        mock = _mock_of_mode(config, mode, Path(folder), sink)
        fault_outcome = FaultOutcome(faults, FaultLog())
        leaves = _ProviderFactory(config, mode, Path(folder), fault_outcome, sink, calls, CallNumbers(), mock, [])
        retry = DEFAULT_RETRY if config.retry is None else config.retry.policy()
        gateway = await stack.enter_async_context(
            ProviderGateway(retry=retry, restart_streams=config.restart_streams, sink=sink)
        )
        _register(gateway, config, leaves, models)
        toolboxes = [stack.enter_context(toolbox) for toolbox in _tool_recordings(config, mode, Path(folder))]
        staged: list[ToolLayer] = [mode.doubles] if isinstance(mode, Harnessed) else []
        tool_layers = [*staged, *toolboxes, *_outer_layers(calls, fault_outcome, sink)]
        yield Pipeline(gateway, mock=mock, tool_layers=tool_layers, fault_outcome=fault_outcome)


def _register(
    gateway: ProviderGateway, config: ConfigDefinition, leaves: _ProviderFactory, models: Models | None
) -> None:
    """Lead each model to where it is asked, and all of them to the fallbacks."""
    if models is None:
        gateway.register(leaves.at(Endpoint(config.provider, config.base_url)))
    else:
        _check_one_endpoint_per_model(models)
        for endpoint, names in models.items():
            gateway.register(leaves.at(endpoint), models=[glob.escape(name) for name in names])
    for fallback in config.fallbacks if models != {} else ():
        endpoint = Endpoint(fallback.provider, fallback.base_url)
        gateway.register(leaves.at(endpoint), is_fallback=True, as_model=fallback.model)


def _check_one_endpoint_per_model(models: Models) -> None:
    asked: dict[str, Endpoint] = {}
    for endpoint, names in models.items():
        for name in names:
            other = asked.setdefault(name, endpoint)
            if other != endpoint:
                reason = (
                    f"the model {name!r} is asked of {_describe_endpoint(other)} and of {_describe_endpoint(endpoint)}"
                )
                raise InputError(reason, source="provider", hint="a model is asked of one provider; name another model")


def _describe_endpoint(endpoint: Endpoint) -> str:
    return " at ".join(part for part in (endpoint.provider or "no provider", endpoint.base_url) if part)


class _ProviderFactory(Struct, frozen=True):
    """Makes what stands behind the gateway for an endpoint. A `mock` stands in for all of them."""

    config: ConfigDefinition
    mode: Mode | Harnessed
    folder: Path
    fault_outcome: FaultOutcome
    sink: Sink
    calls: RunCalls | None
    call_numbers: CallNumbers
    mock: MockProvider | None
    injectors: list[FaultInjector]

    def at(self, endpoint: Endpoint) -> Provider:
        """Faults outside the recorder, so that recordings stay clean."""
        if self.mock is not None and self.injectors:
            return self.injectors[0]
        leaf = self.mock or self._leaf(endpoint)
        plan, fault_log = self.fault_outcome.plan, self.fault_outcome.fault_log
        if not plan.faults and plan.chaos is None:
            return leaf
        self.injectors.append(
            FaultInjector(leaf, plan, call_numbers=self.call_numbers, fault_log=fault_log, sink=self.sink)
        )
        return self.injectors[-1]

    def _leaf(self, endpoint: Endpoint) -> Provider:
        if isinstance(self.mode, Harnessed):
            return self.mode.doubles.provider
        provider = self._real(endpoint)
        if isinstance(self.mode, Record):
            provider = RecordingProvider(provider, self.mode.path, record=self.mode.record, sink=self.sink)
        return provider if self.calls is None else self.calls.around(provider)

    def _real(self, endpoint: Endpoint) -> Provider:
        if endpoint.provider is None:
            hint = "config: {provider: …}, or --provider; one of: " + ", ".join([*CODEC_NAMES, "mock"])
            raise InputError("no provider is named", source="config", place="provider", hint=hint)
        if endpoint.provider == "mock":
            return _mock_provider(self.config, Mock(lenient=not self.config.strict), self.folder, self.sink)
        return live_provider(endpoint.provider, base_url=endpoint.base_url)


def live_provider(name: str, *, base_url: str | None = None) -> Provider:
    """Return the provider of a vendor, with the key that the environment has for it.

    Args:
        base_url: where to ask; by default, where the variables of the vendor's SDK say, else the vendor's own servers.

    Raises:
        InputError: the vendor's own servers are to be asked, and no key is set.
    """
    vendor = VENDOR_OF[name]
    if not base_url and (address := vendor.address(os.environ)):
        base_url = address.rstrip("/") + vendor.api_path
    key = vendor.key(os.environ)
    if not key and not base_url and vendor.needs_key:
        raise _missing_key(name, vendor)
    return PROVIDERS[name](api_key=key or "", base_url=base_url or "")


def _missing_key(name: str, vendor: Vendor) -> InputError:
    hint = f"export {vendor.key_variables[0]}=…; a recording needs no key: offbook replay FLOW --recording PATH"
    return InputError(f"{' or '.join(vendor.key_variables)} is not set", source=f"provider {name}", hint=hint)


def _mock_of_mode(config: ConfigDefinition, mode: Mode | Harnessed, folder: Path, sink: Sink) -> MockProvider | None:
    return _mock_provider(config, mode, folder, sink) if isinstance(mode, Mock | Replay) else None


def _mock_provider(config: ConfigDefinition, mode: Mock | Replay, folder: Path, sink: Sink) -> MockProvider:
    return MockProvider(
        _responses_path(config, mode, folder),
        strict=_is_strict(mode),
        latency_model=config.latency_model,
        latency_ms=config.latency_ms,
        sink=sink,
    )


def _is_strict(mode: Mock | Replay) -> bool:
    return not (mode.lenient if isinstance(mode, Mock) else mode.allow_default_fallback)


def _responses_path(config: ConfigDefinition, mode: Mock | Replay, folder: Path) -> str | None:
    """The recording that answers, if there is one."""
    if mode.path is not None or config.responses_file is None:
        return mode.path
    scheme, separator, path = config.responses_file.rpartition(":///")
    return f"{scheme}{separator}{folder / path}"


def _tool_recordings(config: ConfigDefinition, mode: Mode | Harnessed, folder: Path) -> Iterator[ClosableToolbox]:
    """What records the tools, or answers in their place."""
    if isinstance(mode, Mock | Replay):
        path = _responses_path(config, mode, folder)
        if path is not None and _has_tool_exchanges(path):
            latency_model, latency_ms = config.latency_model, config.latency_ms
            yield replay_tools((), path, strict=_is_strict(mode), latency_model=latency_model, latency_ms=latency_ms)
        return
    if isinstance(mode, Record):
        yield record_tools((), mode.path, record=mode.record)


def _outer_layers(calls: RunCalls | None, fault_outcome: FaultOutcome, sink: Sink) -> Iterator[ToolLayer]:
    """What is put around tools that are recorded or replayed, from the inside out."""
    if calls is not None:
        yield calls
    if any(line.at.tool is not None for line in fault_outcome.plan):
        yield inject_tools((), fault_outcome.plan, fault_log=fault_outcome.fault_log, sink=sink)


def _has_tool_exchanges(path: str) -> bool:
    shelf = open_store(path).read()
    try:
        return len(shelf.tools) > 0
    finally:
        shelf.close()
