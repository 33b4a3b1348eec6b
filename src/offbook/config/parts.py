"""Where the parts of a conversation think: the user's model, the judge's, and what stands behind each agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from offbook.codecs.codec import WireRequest
from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.config.agents import workflow_of
from offbook.config.environment import filled
from offbook.config.schema import Config, EndpointConfig, VendorName, WorkflowConfig
from offbook.config.step_names import Part, StepNames
from offbook.errors import InputError, NoProviderError
from offbook.messages import Reply, Request
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.providers.provider import Provider
from offbook.session import Live, live_provider, open_session
from offbook.workflow.config_definition import RetryDefinition
from offbook.workflow.endpoints import endpoints_of

ONCE = RetryDefinition(max_retries=0)
KEY_HINT = "; a recording needs no key: offbook test --replay PATH"

PartName: TypeAlias = tuple[Part, str]
"""A part, and for an agent its name."""


class PartsProvider(Provider):
    """Passes each call on to where its part thinks, as the call's step says."""

    name = "parts"

    def __init__(self, names: StepNames, providers: Mapping[PartName, Provider]) -> None:
        self._names, self._providers = names, providers

    async def send(self, request: Request) -> Reply:
        asker = self._names.asker(request.step_id)
        if asker is None:
            raise NoProviderError(f"the step {request.step_id!r} is of no conversation", source="provider")
        provider = self._providers.get((asker.part, asker.agent if asker.part == "agent" else ""))
        if provider is None:
            hint = 'give it one in the config: provider = "openai", say'
            raise NoProviderError("it has no provider to ask models by", source=f"agent {asker.agent}", hint=hint)
        return await provider.send(request)


@asynccontextmanager
async def open_parts(config: Config, names: StepNames, wanted: Iterable[PartName]) -> AsyncIterator[PartsProvider]:
    """What the wanted parts ask, live, until the block ends.

    Raises:
        InputError: a key, a variable or an address is missing or wrong; it names the part.
    """
    async with AsyncExitStack() as stack:
        providers: dict[PartName, Provider] = {}
        for part, agent in wanted:
            provider = await _opened(config, part, agent, stack)
            if provider is not None:
                providers[part, agent] = provider
        yield PartsProvider(names, providers)


async def _opened(config: Config, part: Part, agent: str, stack: AsyncExitStack) -> Provider | None:
    declared = config.user if part == "user" else config.judge if part == "judge" else config.agents[agent]
    place = f"agent {agent}" if part == "agent" else part
    if isinstance(declared, EndpointConfig):
        return await stack.enter_async_context(_endpoint(config, declared, place))
    if isinstance(declared, WorkflowConfig):
        return await _workflow(config, declared, place, stack)
    if declared is None or declared.provider is None:
        return None
    return await _vendor(config, declared.provider, declared.base_url, place, stack)


async def _vendor(
    config: Config, provider: VendorName, base_url: str | None, place: str, stack: AsyncExitStack
) -> Provider:
    address = None if base_url is None else filled(base_url, source=config.source, place=f"{place}: base_url")
    try:
        return await stack.enter_async_context(live_provider(provider, base_url=address))
    except InputError as error:
        raise _placed(error, config, place) from error


async def _workflow(config: Config, declared: WorkflowConfig, place: str, stack: AsyncExitStack) -> Provider:
    definition = workflow_of(config, declared)
    asked = definition.config.model_copy(update={"retry": ONCE})
    folder = (config.folder / declared.workflow).parent
    opening = open_session(asked, Live(), folder=folder, models=endpoints_of(definition))
    try:
        session = await stack.enter_async_context(opening)
    except InputError as error:
        raise _placed(error, config, place) from error
    return session.gateway


def _placed(error: InputError, config: Config, place: str) -> InputError:
    hint = error.hint.partition(";")[0] + KEY_HINT if "is not set" in error.reason else error.hint
    return InputError(error.reason, source=config.source, place=f"{place}: {error.source}", hint=hint)


class _AtTheAddressItself(OpenAIChatCodec):
    """Chat completions, POSTed to the very address that is given."""

    name = "agent"

    @staticmethod
    def encode_request(request: Request) -> WireRequest:
        return WireRequest("", OpenAIChatCodec.encode_request(request).body)


def _endpoint(config: Config, declared: EndpointConfig, place: str) -> HttpProvider:
    address = filled(declared.endpoint, source=config.source, place=f"{place}: endpoint")
    headers = {
        name: filled(value, source=config.source, place=f"{place}: headers.{name}")
        for name, value in declared.headers.items()
    }
    parts = urlsplit(address)
    options = HttpOptions(timeout_s=config.run.answer_timeout_s, headers=headers, query=dict(parse_qsl(parts.query)))
    try:
        return HttpProvider(
            _AtTheAddressItself(), base_url=parts._replace(query="").geturl(), name="agent", http=options
        )
    except InputError as error:
        raise InputError(error.reason, source=config.source, place=f"{place}: endpoint") from error
