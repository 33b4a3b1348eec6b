"""The models and tools of a workflow whose config says `provider: mock`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from offbook.errors import InputError
from offbook.events import Sink
from offbook.gateway.gateway import DEFAULT_RETRY, ProviderGateway
from offbook.recording.stores.locate import open_store
from offbook.session.provider import MockProvider
from offbook.session.replayed_tools import ReplayedTools, replay_tools
from offbook.workflow.file.schema import ConfigDefinition, WorkflowDefinition
from offbook.workflow.file.tree import endpoints_of

if TYPE_CHECKING:
    from offbook.workflow.engine.engine import WrapTools


def check_mocked(definition: WorkflowDefinition) -> None:
    """Raise InputError if a step of the workflow calls a model that the config does not mock."""
    real = [endpoint.provider for endpoint in endpoints_of(definition) if endpoint.provider != "mock"]
    if real:
        raise InputError(
            f"the workflow calls {real[0] or 'a model'}, and no provider is given",
            source="provider_gateway",
            hint="WorkflowEngine(workflow, provider); or, in the workflow, config: {provider: mock, responses_file: …}",
        )


@asynccontextmanager
async def mocked(
    definition: WorkflowDefinition, folder: Path, wrap_tools: WrapTools, sink: Sink
) -> AsyncIterator[tuple[ProviderGateway, WrapTools]]:
    """Open what answers one run of a mocked workflow from its start: a gateway for models, and a wrapper for tools."""
    config = definition.config
    path = responses_path(config, folder)
    provider = mock_provider(config, path, strict=config.strict, sink=sink)
    gateway = ProviderGateway(
        retry=config.retry_policy() or DEFAULT_RETRY, restart_streams=bool(config.restart_streams), sink=sink
    )
    gateway.register(provider)
    for fallback in config.fallbacks:
        gateway.register(provider, is_fallback=True, as_model=fallback.model)
    tools = replayed_tools(config, path, strict=config.strict)
    try:
        yield (
            gateway,
            (
                wrap_tools
                if tools is None
                else lambda given: wrap_tools({name: tools.wrap(tool) for name, tool in given.items()})
            ),
        )
    finally:
        await provider.close()
        if tools is not None:
            tools.close()


def mock_provider(config: ConfigDefinition, path: str | None, *, strict: bool, sink: Sink) -> MockProvider:
    """Return a provider that answers from a recording as fast as the config says."""
    return MockProvider(
        path, strict=strict, latency_model=config.latency_model, latency_ms=config.latency_ms, sink=sink
    )


def replayed_tools(config: ConfigDefinition, path: str | None, *, strict: bool) -> ReplayedTools | None:
    """Return what answers tools from a recording; None if the recording has no tool calls."""
    if path is None:
        return None
    reader = open_store(path).read()
    try:
        has_tools = len(reader.tools) > 0
    finally:
        reader.close()
    if not has_tools:
        return None
    return replay_tools((), path, strict=strict, latency_model=config.latency_model, latency_ms=config.latency_ms)


def responses_path(config: ConfigDefinition, folder: Path) -> str | None:
    """Return the location of the config's `responses_file`, if there is one.

    Raises:
        InputError: it is outside of the folder of the workflow.
    """
    if config.responses_file is None:
        return None
    scheme, separator, path = config.responses_file.rpartition(":///")
    if not _is_inside(folder, path):
        raise InputError(
            f"{config.responses_file} leaves the folder of the workflow",
            source="config",
            place="responses_file",
            hint="to use it all the same, name it yourself: offbook replay FLOW --recording PATH",
        )
    return f"{scheme}{separator}{folder / path}"


def _is_inside(folder: Path, path: str) -> bool:
    """Return whether a path leads to something in the folder, through links as well."""
    try:
        return not Path(path).is_absolute() and (folder / path).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False
