"""Builds the providers and tools of a run from a config and a mode.

Only this module states the order of the layers. Models: gateway (routing, fallback, retry, breaker) → faults → recorder
→ HTTP, with a replay in place of the last two. Tools: faults → recorder → tool, with a replay in place of the last two.
offbook.vendors has the variables for API keys and base URLs.
"""

from __future__ import annotations

import glob
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.faults import FaultInjector, FaultLog, FaultPlan, inject_tools
from offbook.gateway.gateway import DEFAULT_RETRY, ProviderGateway
from offbook.providers.provider import Provider
from offbook.session.injector import refuse_crash
from offbook.session.log import Faulted, Log, Served
from offbook.session.numbers import CallNumbers
from offbook.session.provider import MockProvider
from offbook.session.replayed_tools import ClosableToolbox, ReplayedTools
from offbook.tools import ToolDef
from offbook.vendors import CODEC_NAMES, VENDOR_OF
from offbook.workflow.engine.mocked import mock_provider, replayed_tools, responses_path
from offbook.workflow.file.schema import ConfigDefinition
from offbook.workflow.file.tree import Endpoint

if TYPE_CHECKING:
    from offbook.session.recorder import RecordMode
    from offbook.workflow.runs.calls import RunCalls

NO_FAULTS = FaultPlan()


class Live(Struct, frozen=True):
    """Calls the real models and tools without recording."""


class Record(Struct, frozen=True):
    """Calls the real models and tools, and records every call at `path`."""

    path: str
    record: RecordMode = "append"


class Mock(Struct, frozen=True):
    """Replays `path`, by default the config's `responses_file`; calls that it lacks get a default response."""

    path: str | None = None
    lenient: bool = True


class Replay(Struct, frozen=True):
    """Replays `path`. Calls that it lacks fail, or get a default response if `allow_default_fallback` is set."""

    path: str
    allow_default_fallback: bool = False


class ToolLayer(Protocol):
    """A wrapper for tools, such as a recorder."""

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Return the tool, wrapped."""
        ...


class Doubles(ToolLayer, Protocol):
    """Replaces every model, and wraps every tool."""

    @property
    def provider(self) -> Provider: ...


class Harnessed(Struct, frozen=True):
    """Calls only the doubles. Retry and fallbacks stay in place."""

    doubles: Doubles


Mode: TypeAlias = Live | Record | Mock | Replay
Models: TypeAlias = Mapping[Endpoint, Sequence[str]]


def resolve_mode(mode: Mode, config: ConfigDefinition, models: Models | None = None) -> Mode:
    """Return the mode of a run: Live becomes Mock if the provider of the config and of all steps is `mock`."""
    is_mocked = config.provider == "mock" and all(endpoint.provider == "mock" for endpoint in models or ())
    return Mock(lenient=not config.strict) if isinstance(mode, Live) and is_mocked else mode


class Pipeline(Served, Faulted):
    """The models and tools of a run: `gateway` for models, `wrap_tools` for tools.

    `fired` and `unfired()` list the faults of all providers and tools. `unused()` lists the entries of a replayed
    recording that were not served; keys of tools are like `_tools.search`.
    """

    def __init__(
        self,
        gateway: ProviderGateway,
        *,
        mock: MockProvider | None,
        tool_layers: Sequence[ToolLayer],
        faults: Log,
    ) -> None:
        self.gateway = gateway
        self._mock, self._tool_layers, self._faults = mock, tool_layers, faults

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """Wrap the tools as the mode requires: recorded, replayed if the recording has tool calls, or unchanged.

        Faults of the plan fire at them. All calls count together, even if this is called several times.
        """
        wrapped = dict(tools)
        for layer in self._tool_layers:
            wrapped = {name: layer.wrap(tool) for name, tool in wrapped.items()}
        return wrapped

    @property
    def replays_tools(self) -> bool:
        """Whether tools are answered from a recording. Else they run for real."""
        return any(isinstance(layer, ReplayedTools) for layer in self._tool_layers)

    @property
    def log(self) -> Log:
        models = [] if self._mock is None else [self._mock.log]
        tools = (layer.log for layer in self._tool_layers if isinstance(layer, ReplayedTools))
        return Log.of([*models, *(log.placed(of_tools=True) for log in tools), self._faults])


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
    """Open the pipeline of a config in a mode, until the block ends.

    Args:
        folder: the folder for a relative `responses_file`.
        models: the models of each endpoint; by default, all models are at the config's own provider. If it is empty,
            no provider is needed.
        faults: the faults to inject.
        sink: receives the events of every call.
        calls: stores live calls and serves stored ones, so that no call is made twice.

    Raises:
        InputError: a provider, a key or a recording is missing or wrong, or the faults have a crash.
    """
    if faults.can_crash:
        refuse_crash()
    if not isinstance(mode, Harnessed):
        mode = resolve_mode(mode, config, models)
    async with AsyncExitStack() as stack:
        mock = _mock_of(config, mode, Path(folder), sink) if isinstance(mode, Mock | Replay) else None
        fault_log = FaultLog()
        factory = _ProviderFactory(
            config=config,
            mode=mode,
            folder=Path(folder),
            plan=faults,
            fault_log=fault_log,
            sink=sink,
            calls=calls,
            call_numbers=CallNumbers(),
            mock=mock,
            injectors=[],
        )
        retry = config.retry_policy() or DEFAULT_RETRY
        gateway = await stack.enter_async_context(
            ProviderGateway(retry=retry, restart_streams=bool(config.restart_streams), sink=sink)
        )
        _register(gateway, config, factory, models)
        toolboxes = [stack.enter_context(toolbox) for toolbox in _tool_recordings(config, mode, Path(folder), calls)]
        doubles: list[ToolLayer] = [mode.doubles] if isinstance(mode, Harnessed) else []
        tool_layers = [*doubles, *toolboxes, *factory.outer_tool_layers()]
        yield Pipeline(gateway, mock=mock, tool_layers=tool_layers, faults=Log(faults=[fault_log], plan=faults))


def _register(
    gateway: ProviderGateway, config: ConfigDefinition, factory: _ProviderFactory, models: Models | None
) -> None:
    """Register the provider of each model, and the fallbacks for all."""
    if models is None:
        gateway.register(factory.provider_at(Endpoint(config.provider, config.base_url)))
    else:
        _check_one_endpoint_per_model(models)
        for endpoint, names in models.items():
            gateway.register(factory.provider_at(endpoint), models=[glob.escape(name) for name in names])
    for fallback in config.fallbacks if models != {} else ():
        endpoint = Endpoint(fallback.provider, fallback.base_url)
        gateway.register(factory.provider_at(endpoint), is_fallback=True, as_model=fallback.model)


def _check_one_endpoint_per_model(models: Models) -> None:
    endpoints: dict[str, Endpoint] = {}
    for endpoint, names in models.items():
        for name in names:
            other = endpoints.setdefault(name, endpoint)
            if other != endpoint:
                both = f"{_describe_endpoint(other)} and {_describe_endpoint(endpoint)}"
                hint = "a model has one provider; use another model"
                raise InputError(f"the model {name!r} has two providers: {both}", source="provider", hint=hint)


def _describe_endpoint(endpoint: Endpoint) -> str:
    return " at ".join(part for part in (endpoint.provider or "no provider", endpoint.base_url) if part)


class _ProviderFactory(Struct, frozen=True, kw_only=True):
    """Creates the provider behind the gateway for each endpoint. A `mock` replaces all of them."""

    config: ConfigDefinition
    mode: Mode | Harnessed
    folder: Path
    plan: FaultPlan
    fault_log: FaultLog
    sink: Sink
    calls: RunCalls | None
    call_numbers: CallNumbers
    mock: MockProvider | None
    injectors: list[FaultInjector]

    def provider_at(self, endpoint: Endpoint) -> Provider:
        """Return the provider of an endpoint. Faults are outside the recorder, so recordings stay clean."""
        if self.mock is not None and self.injectors:
            return self.injectors[0]
        provider = self.mock or self._innermost(endpoint)
        if not self.plan.faults and self.plan.chaos is None:
            return provider
        self.injectors.append(
            FaultInjector(provider, self.plan, call_numbers=self.call_numbers, fault_log=self.fault_log, sink=self.sink)
        )
        return self.injectors[-1]

    def outer_tool_layers(self) -> Iterator[ToolLayer]:
        """Yield the layers around recorded or replayed tools, from the inside out."""
        if self.calls is not None:
            yield self.calls.tool_layer(is_recorded=isinstance(self.mode, Record))
        if any(line.at.tool is not None for line in self.plan):
            yield inject_tools((), self.plan, fault_log=self.fault_log, sink=self.sink)
        if self.sink is not NULL_SINK and not isinstance(self.mode, Harnessed):  # doubles have observers of their own
            from offbook.tools.dispatch import observe_tools  # noqa: PLC0415 - most runs are never looked at

            yield observe_tools((), self.sink)

    def _innermost(self, endpoint: Endpoint) -> Provider:
        provider = self.mode.doubles.provider if isinstance(self.mode, Harnessed) else self._live(endpoint)
        if isinstance(self.mode, Record):
            from offbook.session.recording_provider import RecordingProvider  # noqa: PLC0415 - a replay does not need it

            provider = RecordingProvider(
                provider, self.mode.path, record=self.mode.record, sink=self.sink, first_to=self.calls
            )
        if self.calls is None:
            return provider
        return self.calls.wrap_provider(provider, is_recorded=isinstance(self.mode, Record))

    def _live(self, endpoint: Endpoint) -> Provider:
        if endpoint.provider is None:
            hint = "config: {provider: …}, or --provider; one of: " + ", ".join([*CODEC_NAMES, "mock"])
            raise InputError("no provider is set", source="config", place="provider", hint=hint)
        if endpoint.provider == "mock":
            return _mock_of(self.config, Mock(lenient=not self.config.strict), self.folder, self.sink)
        return live_provider(endpoint.provider, base_url=endpoint.base_url)


def live_provider(name: str, *, base_url: str | None = None) -> Provider:
    """Return the provider of a vendor, with the environment's key for it.

    Args:
        base_url: by default, the one in the variables of the vendor's SDK, else that of the vendor's own servers.

    Raises:
        InputError: the vendor's own servers require a key, and none is set.
    """
    vendor = VENDOR_OF[name]
    if not base_url and (address := vendor.address(os.environ)):
        base_url = address.rstrip("/") + vendor.api_path
    key = vendor.key(os.environ)
    if not key and not base_url and vendor.needs_key:
        hint = f"export {vendor.key_variables[0]}=…; a replay needs no key: offbook replay FLOW --recording PATH"
        raise InputError(f"{' or '.join(vendor.key_variables)} is not set", source=f"provider {name}", hint=hint)
    from offbook.providers.http import PROVIDERS  # noqa: PLC0415 - a replay does not need it

    return PROVIDERS[name](api_key=key or "", base_url=base_url or "")


def _mock_of(config: ConfigDefinition, mode: Mock | Replay, folder: Path, sink: Sink) -> MockProvider:
    return mock_provider(config, _path_of(config, mode, folder), strict=_is_strict(mode), sink=sink)


def _is_strict(mode: Mock | Replay) -> bool:
    return not (mode.lenient if isinstance(mode, Mock) else mode.allow_default_fallback)


def _path_of(config: ConfigDefinition, mode: Mock | Replay, folder: Path) -> str | None:
    """Return the path of the recording to replay, or None. Only the caller may name one outside the folder."""
    return responses_path(config, folder) if mode.path is None else mode.path


def _tool_recordings(
    config: ConfigDefinition, mode: Mode | Harnessed, folder: Path, calls: RunCalls | None
) -> Iterator[ClosableToolbox]:
    """Yield the recorder or the replay of tools, as the mode requires."""
    if isinstance(mode, Mock | Replay):
        tools = replayed_tools(config, _path_of(config, mode, folder), strict=_is_strict(mode))
        if tools is not None:
            yield tools
        return
    if isinstance(mode, Record):
        from offbook.session.recording_tools import record_tools  # noqa: PLC0415 - a replay does not need it

        yield record_tools((), mode.path, record=mode.record, first_to=calls)
