"""Builds the agents of a config: handlers, endpoints, workflows and runners, with their retries."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from offbook.agent import Workflow
from offbook.config.discovery import load_object
from offbook.config.file import (
    AgentConfig,
    Config,
    EndpointConfig,
    HandlerConfig,
    RunnerConfig,
    WorkflowConfig,
)
from offbook.config.roles import agent_workflow
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.gateway.gateway import DEFAULT_RETRY, ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider, WrappedProvider
from offbook.scenarios.targets import (
    AGENT_STEP,
    AgentDialogue,
    AgentEnvironment,
    EngineTarget,
    Handler,
    HandlerTarget,
    HttpTarget,
    RunnerTarget,
    Target,
)


class AgentStepProvider(WrappedProvider):
    """Forwards calls with the step id `agent`, or `agent.<step>` where they have a step id of their own."""

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(_of_agent(request))

    def check_price(self, request: Request) -> None:
        self._provider.check_price(_of_agent(request))


def _of_agent(request: Request) -> Request:
    own = "" if request.step_id in (None, "", AGENT_STEP) else f".{request.step_id}"
    return replace(request, step_id=f"{AGENT_STEP}{own}")


class RetryingAgent:
    """Labels the model calls of an agent with its step id, and retries them by `retry`; None means no retries."""

    def __init__(self, target: Target, *, retry: RetryPolicy | None, sink: Sink = NULL_SINK) -> None:
        self.name, self._target, self._retry, self._sink = target.name, target, retry, sink

    def begin(self, environment: AgentEnvironment) -> AgentDialogue:
        if environment.provider is None:
            return self._target.begin(environment)
        labelled = AgentStepProvider(environment.provider)
        provider = labelled if self._retry is None else with_retry(labelled, self._retry, sink=self._sink)
        return self._target.begin(replace(environment, provider=provider))


def with_retry(provider: Provider, retry: RetryPolicy = DEFAULT_RETRY, *, sink: Sink = NULL_SINK) -> ProviderGateway:
    """Return a gateway to the provider that retries failed calls."""
    gateway = ProviderGateway(retry=retry, breaker=None, sink=sink)
    gateway.register(provider)
    return gateway


def build_agent(config: Config, name: str, provider: Provider, *, sink: Sink = NULL_SINK) -> Target:
    """Build the agent `name`. Its model calls go to the provider of each conversation, or else to `provider`.

    Requests to an endpoint are not retried: a failure is a finding. Model calls of other agents are retried, and
    `sink` gets an event for every retry.

    Raises:
        InputError: a module, a workflow or something in it is missing or invalid.
    """
    declared = config.agents[name]
    return RetryingAgent(_target(config, name, declared, provider), retry=_retry(config, declared), sink=sink)


def _target(config: Config, name: str, declared: AgentConfig, provider: Provider) -> Target:
    place = f"agent {name}"
    match declared:
        case HandlerConfig():
            handler = load_object(declared.handler, source=config.source, place=f"{place}: handler")
            return HandlerTarget(name, cast("Handler", handler))
        case EndpointConfig():
            return HttpTarget(name, provider, model=declared.model, body=declared.body, stream=declared.stream)
        case WorkflowConfig():
            file = config.folder / declared.workflow
            return EngineTarget(name, file, provider=provider, input=declared.input, output=declared.output)
        case RunnerConfig():
            workflow = load_object(declared.runner, source=config.source, place=f"{place}: runner")
            if not isinstance(workflow, Workflow):
                reason = f"expected a Workflow, got {type(workflow).__name__}"
                raise InputError(reason, source=config.source, place=f"{place}: runner")
            return RunnerTarget(
                name,
                workflow,
                declared.model,
                provider=provider,
                prompt_vars=declared.prompt_vars,
                max_iterations=declared.max_iterations,
            )


def _retry(config: Config, declared: AgentConfig) -> RetryPolicy | None:
    if isinstance(declared, EndpointConfig):
        return None
    if isinstance(declared, WorkflowConfig):
        retry = agent_workflow(config, declared).config.retry
        return DEFAULT_RETRY if retry is None else retry.policy()
    return DEFAULT_RETRY
