"""The pydantic models of a config file: agents under test, simulated user, judge, and run options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, Strict

from offbook.scenarios.judge import Severity
from offbook.vendors import ProviderName

REFERENCE_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
ErrorGroupingMode = Literal["label", "model", "none"]
Reference = Annotated[str, Field(pattern=REFERENCE_PATTERN)]
T = TypeVar("T")
ListOf: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class Section(BaseModel):
    """A part of a config: immutable, without unknown keys or type conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


class HandlerConfig(Section):
    """An agent that is a function. `provider` serves its calls through `ctx.provider`."""

    handler: Reference
    provider: ProviderName | None = None
    base_url: Name | None = None


class EndpointConfig(Section):
    """An agent behind an HTTP endpoint: conversations are POSTed in the shape of chat completions."""

    endpoint: Name
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] = Field(default_factory=dict)
    model: Name = "agent"
    stream: bool = False


class WorkflowConfig(Section):
    """An agent that is a workflow file, run once per turn."""

    workflow: Name
    input: Name = "user_input"
    output: Name = "response"


class RunnerConfig(Section):
    """An agent that is a Workflow in a module, run by WorkflowRunner."""

    runner: Reference
    provider: ProviderName
    model: Name
    base_url: Name | None = None
    prompt_vars: dict[str, Any] = Field(default_factory=dict)
    max_iterations: PositiveInt = 10


AgentConfig: TypeAlias = HandlerConfig | EndpointConfig | WorkflowConfig | RunnerConfig
AGENT_KINDS: dict[str, type[AgentConfig]] = {
    "handler": HandlerConfig,
    "endpoint": EndpointConfig,
    "workflow": WorkflowConfig,
    "runner": RunnerConfig,
}
"""The kinds of agents by the key that identifies them."""


class UserConfig(Section):
    """The model that plays users. `template` is a file with its system prompt, relative to the config."""

    provider: ProviderName
    model: Name
    base_url: Name | None = None
    template: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None


class JudgeConfig(Section):
    """The model that judges, its metrics, and the minimum for the mean of a metric.

    A metric is a built-in one, or `module:name` of your own; the default is all built-in ones. Metrics that are
    functions need no model. `group_errors` says how the errors of a run are grouped.
    """

    provider: ProviderName | None = None
    model: Name | None = None
    base_url: Name | None = None
    metrics: ListOf[Name] | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    group_errors: ErrorGroupingMode = "label"
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None


class RunConfig(Section):
    """How scenarios are found and run; a scenario may override some of these."""

    scenarios: ListOf[Name] = ("**/sim_*.py",)
    conversations: PositiveInt = 1
    max_turns: PositiveInt = 10
    concurrency: PositiveInt = 8
    answer_timeout_s: Seconds = 120.0
    unmocked: Literal["error", "passthrough"] = "error"
    budget_usd: NonNegativeFloat | None = None
    repeat: PositiveInt = 1
    fail_on: ListOf[Severity] = ("high", "critical")


class Config(Section):
    """A whole config. Paths are relative to `folder`; `source` is the file; agents keep their order."""

    source: str = ""
    folder: Path = Path()
    agents: dict[str, AgentConfig] = Field(default_factory=dict)
    user: UserConfig | None = None
    judge: JudgeConfig | None = None
    run: RunConfig = RunConfig()
