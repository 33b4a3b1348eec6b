"""From what a config says of an agent to the agent under test."""

from __future__ import annotations

from typing import cast

from offbook.agent import Workflow
from offbook.config.agent_calls import CastAgent
from offbook.config.modules import load_object
from offbook.config.schema import AgentConfig, Config, EndpointConfig, HandlerConfig, RunnerConfig, WorkflowConfig
from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.gateway.retry import RetryPolicy
from offbook.providers.provider import Provider
from offbook.scenarios.target import EngineTarget, HandlerTarget, HttpTarget, RunnerTarget, Target
from offbook.scenarios.target.handler import Handler
from offbook.workflow import WorkflowDefinition, load_workflow


def agent_of(config: Config, name: str, provider: Provider, *, sink: Sink = NULL_SINK) -> Target:
    """The agent of that name. Its models are asked by what its conversations give, else by `provider`.

    An endpoint is asked once: that it failed is a finding. Models of other agents are asked again when they fail;
    `sink` is told of that.

    Raises:
        InputError: a module, a workflow or something in it is not there or wrong.
    """
    declared = config.agents[name]
    return CastAgent(_target(config, name, declared, provider), retry=_retry(config, declared), sink=sink)


def workflow_of(config: Config, declared: WorkflowConfig) -> WorkflowDefinition:
    """The workflow that an agent is.

    Raises:
        WorkflowError: the file is not there, or is no workflow.
    """
    return load_workflow(config.folder / declared.workflow)


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
        retry = workflow_of(config, declared).config.retry
        return DEFAULT_RETRY if retry is None else retry.policy()
    return DEFAULT_RETRY
