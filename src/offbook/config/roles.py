"""The role of a model call (user, judge or agent) by its step id, and the live provider of each role."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.base import WireRequest
from offbook.codecs.openai_chat import CODEC as OPENAI_CHAT
from offbook.config.file import Config, EndpointConfig, WorkflowConfig
from offbook.errors import InputError, NoProviderError
from offbook.messages import Reply, Request
from offbook.pipeline import Live, live_provider, open_pipeline
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.providers.pricing import Price, PriceTable
from offbook.providers.provider import Provider
from offbook.scenarios.judge import GROUPING_STEP
from offbook.vendors import ProviderName
from offbook.workflow import WorkflowDefinition, load_workflow
from offbook.workflow.file.schema import RetryDefinition
from offbook.workflow.file.tree import endpoints_of

Role: TypeAlias = Literal["user", "judge", "agent"]
_INDEX_AND_ROLE = re.compile(r"(\d+)/(user$|judge\.|agent(?=\.|$))")


class Caller(Struct, frozen=True):
    """The source of a model call: a role in a conversation of a scenario with an agent."""

    scenario: str
    agent: str
    role: Role


RUN_CALLER = Caller("", "", "judge")
"""The source of calls about the whole run, after all conversations have ended."""


class StepNames:
    """Parses step ids such as `books a room/billing/1/judge.helpfulness`, for pairs of a scenario and an agent.

    The only step id of the run as a whole is `judge.error_groups`.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)

    def caller(self, step_id: str | None) -> Caller | None:
        """Return the source of a call, or None if it belongs neither to a conversation nor to the run."""
        if step_id == GROUPING_STEP:
            return RUN_CALLER
        for scenario, agent in self._pairs:
            start = f"{scenario}/{agent}/"
            if (
                step_id is not None
                and step_id.startswith(start)
                and (rest := _INDEX_AND_ROLE.match(step_id, len(start)))
            ):
                return Caller(scenario, agent, _role(rest[2]))
        return None


def _role(word: str) -> Role:
    if word == "user":
        return "user"
    return "agent" if word == "agent" else "judge"


_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def expand_variables(text: str, *, source: str, place: str) -> str:
    """Replace each `${NAME}` in the text by the environment variable. Values are not expanded again.

    Raises:
        InputError: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            hint = f"export {name}=…; a replay needs no variables: offbook test --replay PATH"
            raise InputError(f"{name} is not set", source=source, place=place, hint=hint)
        return os.environ[name]

    return _VARIABLE.sub(value, text)


SINGLE_ATTEMPT = RetryDefinition(max_retries=0)
KEY_HINT = "; a replay needs no key: offbook test --replay PATH"

RoleKey: TypeAlias = tuple[Role, str]
"""A role, and the agent's name for an agent."""


class RoleProvider(Provider):
    """Forwards each call to the provider of its role, which the step id determines."""

    name = "roles"

    def __init__(self, names: StepNames, providers: Mapping[RoleKey, Provider]) -> None:
        self._names, self._providers = names, providers

    async def send(self, request: Request) -> Reply:
        return await self._provider_of(request).send(request)

    def check_price(self, request: Request) -> None:
        self._provider_of(request).check_price(request)

    def _provider_of(self, request: Request) -> Provider:
        caller = self._names.caller(request.step_id)
        if caller is None:
            raise NoProviderError(f"the step {request.step_id!r} belongs to no conversation", source="provider")
        provider = self._providers.get((caller.role, caller.agent if caller.role == "agent" else ""))
        if provider is None:
            hint = 'add one to the config, for instance provider = "openai"'
            raise NoProviderError("the agent has no provider", source=f"agent {caller.agent}", hint=hint)
        return provider


@asynccontextmanager
async def open_role_providers(
    config: Config, names: StepNames, wanted: Iterable[RoleKey]
) -> AsyncIterator[RoleProvider]:
    """Open the live providers of the wanted roles until the block ends.

    Raises:
        InputError: a key, a variable or a URL is missing or invalid; the error names the role.
    """
    async with AsyncExitStack() as stack:
        providers: dict[RoleKey, Provider] = {}
        for role, agent in wanted:
            provider = await _open_provider(config, role, agent, stack)
            if provider is not None:
                providers[role, agent] = provider
        yield RoleProvider(names, providers)


async def _open_provider(config: Config, role: Role, agent: str, stack: AsyncExitStack) -> Provider | None:
    declared = config.user if role == "user" else config.judge if role == "judge" else config.agents[agent]
    place = f"agent {agent}" if role == "agent" else role
    if isinstance(declared, EndpointConfig):
        return await stack.enter_async_context(_endpoint_provider(config, declared, place))
    if isinstance(declared, WorkflowConfig):
        return await _open_workflow(config, declared, place, stack)
    if declared is None or declared.provider is None:
        return None
    return await _open_vendor(config, declared.provider, declared.base_url, place, stack)


async def _open_vendor(
    config: Config, provider: ProviderName, base_url: str | None, place: str, stack: AsyncExitStack
) -> Provider:
    url = None if base_url is None else expand_variables(base_url, source=config.source, place=f"{place}: base_url")
    try:
        return await stack.enter_async_context(live_provider(provider, base_url=url))
    except InputError as error:
        raise _with_place(error, config, place) from error


async def _open_workflow(config: Config, declared: WorkflowConfig, place: str, stack: AsyncExitStack) -> Provider:
    definition = agent_workflow(config, declared)
    options = replace(definition.config, retry=SINGLE_ATTEMPT)
    folder = (config.folder / declared.workflow).parent
    pipeline = open_pipeline(options, Live(), folder=folder, models=endpoints_of(definition))
    try:
        opened = await stack.enter_async_context(pipeline)
    except InputError as error:
        raise _with_place(error, config, place) from error
    return opened.gateway


def agent_workflow(config: Config, declared: WorkflowConfig) -> WorkflowDefinition:
    """Load the workflow file of an agent.

    Raises:
        WorkflowError: the file does not exist, or is not a valid workflow.
    """
    return load_workflow(config.folder / declared.workflow)


def _with_place(error: InputError, config: Config, place: str) -> InputError:
    hint = error.hint.partition(";")[0] + KEY_HINT if "is not set" in error.reason else error.hint
    return InputError(error.reason, source=config.source, place=f"{place}: {error.source}", hint=hint)


def _encode_without_path(request: Request) -> WireRequest:
    return WireRequest("", OPENAI_CHAT.encode_request(request).body)


_EXACT_URL_CODEC = replace(OPENAI_CHAT, name="agent", encode_request=_encode_without_path)
"""Chat completions, POSTed to exactly the configured URL."""


def _endpoint_provider(config: Config, declared: EndpointConfig, place: str) -> HttpProvider:
    url = expand_variables(declared.endpoint, source=config.source, place=f"{place}: endpoint")
    headers = {
        name: expand_variables(value, source=config.source, place=f"{place}: headers.{name}")
        for name, value in declared.headers.items()
    }
    parts = urlsplit(url)
    options = HttpOptions(timeout_s=config.run.answer_timeout_s, headers=headers, query=dict(parse_qsl(parts.query)))
    try:
        return HttpProvider(
            _EXACT_URL_CODEC,
            base_url=parts._replace(query="").geturl(),
            name="agent",
            http=options,
            prices=_endpoint_prices(declared, has_budget=config.run.budget_usd is not None),
        )
    except InputError as error:
        raise InputError(error.reason, source=config.source, place=f"{place}: endpoint") from error


def _endpoint_prices(declared: EndpointConfig, *, has_budget: bool) -> PriceTable:
    """Return the prices of an endpoint. Without a budget, a model outside the config needs none."""
    prices = PriceTable.default()
    is_named = "model" in declared.model_fields_set
    if has_budget or is_named or prices.find(declared.model) is not None:
        return prices
    return prices.override({declared.model: Price(0.0, 0.0)})
