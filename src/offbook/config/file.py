"""The config file of a project, `offbook.toml` or `[tool.offbook]`: the models of its sections, and its loader."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, Strict, ValidationError
from pydantic_core import ErrorDetails

from offbook.config.sections import check_project
from offbook.errors import InputError
from offbook.recording.redact.rules import read_rules
from offbook.scenarios.result import Severity
from offbook.settings import CONFIG_FILE, ProjectFile, configured_tools, find_project, load_project
from offbook.text import did_you_mean
from offbook.vendors import ProviderName
from offbook.workflow.file.problems import show_value

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
    """An agent that is a function. `provider` serves its calls through `ctx.provider`.

    `mcp` is the config of its MCP servers, such as `.mcp.json`, whose stand-ins are in `ctx.mcp`.
    """

    handler: Reference
    mcp: Name | None = None
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
    """The model that judges, its metrics, and the minimum mean of each metric.

    A metric is a built-in one, or your own as `module:name`; the default is all built-in ones. Metrics that are
    functions need no model. `group_errors` is the way of grouping a run's errors.
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
    """Settings for finding and running scenarios. A scenario may override some of them."""

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
    """A whole config. Paths are relative to `folder`; `source` is the file; agents keep their order.

    `tools` are the ToolSettings of `[tools.NAME]`.
    """

    source: str = ""
    folder: Path = Path()
    agents: dict[str, AgentConfig] = Field(default_factory=dict)
    user: UserConfig | None = None
    judge: JudgeConfig | None = None
    run: RunConfig = RunConfig()
    tools: dict[str, Any] = Field(default_factory=dict)


EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
LIMITS = {"greater_than": "more than", "greater_than_equal": "at least", "less_than_equal": "at most"}


def validation_input_error(error: ValidationError, kind: type[Section], *, source: str, place: str) -> InputError:
    """Return the first problem of the section at `place`, which should be of this kind."""
    details = error.errors(include_url=False)[0]
    path = ".".join([place, *map(str, details["loc"])])
    reason, hint = _reason_and_hint(details, kind)
    return InputError(reason, source=source, place=path, hint=hint)


def _reason_and_hint(details: ErrorDetails, kind: type[Section]) -> tuple[str, str]:
    reason, name, given = details["type"], str(details["loc"][-1]), _show_value(details["input"])
    if reason == "extra_forbidden":
        return f"unknown key {name!r}", did_you_mean(name, kind.model_fields, kind="keys")
    if reason == "missing":
        return "required, but missing", ""
    if reason == "literal_error":
        return f"unknown value {given}", _literal_hint(details)
    return _mismatch_reason(details, given), ""


def _literal_hint(details: ErrorDetails) -> str:
    known = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    return did_you_mean(str(details["input"]), known, kind="one of")


def _mismatch_reason(details: ErrorDetails, given: str) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {given}"
    if kind in LIMITS:
        return f"expected {LIMITS[kind]} {next(iter(context.values())):g}, got {given}"
    if kind == "string_pattern_mismatch" and context["pattern"] == REFERENCE_PATTERN:
        return f"expected 'module:name', got {given}"
    if kind == "string_too_short":
        return "expected a value, got an empty one"
    return f"{details['msg']}, got {given}"


def _show_value(given: object) -> str:
    return "a table" if isinstance(given, Mapping) else show_value(given)


AGENT_NAME = re.compile(r"[\w.-]{1,100}")
DEFAULT_AGENT = "agent"

D = TypeVar("D", bound=Section)


def find_config(start: str | os.PathLike[str] = ".") -> Config:
    """Load the nearest config, in the folder `start` or above it.

    Raises:
        InputError: no config was found, or it cannot be read or is invalid.
    """
    project = find_project(start)
    if project is None:
        hint = f'create {CONFIG_FILE}:\n    [agent]\n    handler = "my_agent:handle"'
        raise InputError(f"there is no {CONFIG_FILE} here or above", source=str(Path(start).resolve()), hint=hint)
    return _config(project)


def load_config(path: str | os.PathLike[str]) -> Config:
    """Load the config in a file; of a file named `pyproject.toml`, the table `[tool.offbook]`.

    Raises:
        InputError: it cannot be read or is invalid; the error names the file and the key.
    """
    return _config(load_project(path))


def _config(project: ProjectFile) -> Config:
    document, source = project.document, project.source
    check_project(project)
    read_rules(document.get("redaction", {}), source=source)
    return Config(
        source=source,
        folder=project.folder,
        agents=_agents(document, source),
        user=_read(UserConfig, document["user"], source, "user") if "user" in document else None,
        judge=_read(JudgeConfig, document["judge"], source, "judge") if "judge" in document else None,
        run=_read(RunConfig, document.get("run", {}), source, "run"),
        tools=configured_tools(project),
    )


def _agents(document: Mapping[str, Any], source: str) -> dict[str, AgentConfig]:
    agents: dict[str, AgentConfig] = {}
    if "agent" in document:
        fields = dict(document["agent"])
        name = fields.pop("name", DEFAULT_AGENT)
        agents[_checked_name(name, source, "agent.name")] = _agent(fields, source, "agent")
    for name, fields in document.get("agents", {}).items():
        place = f"agents.{name}"
        if name in agents:
            raise InputError(f"there are two agents named {name!r}", source=source, place=place)
        agents[_checked_name(name, source, place)] = _agent(fields, source, place)
    return agents


def _checked_name(name: object, source: str, place: str) -> str:
    if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
        hint = "a name is up to 100 letters, digits, '_', '-' and '.'"
        raise InputError(f"{name!r} is not a valid agent name", source=source, place=place, hint=hint)
    return name


def _agent(fields: object, source: str, place: str) -> AgentConfig:
    if not isinstance(fields, dict):
        raise InputError("expected a table", source=source, place=place, hint=f"write [{place}]")
    kinds = [kind for kind in AGENT_KINDS if kind in fields]
    if len(kinds) > 1:
        raise InputError(f"an agent has one of {' and '.join(kinds)}, not both", source=source, place=place)
    if not kinds:
        unknown = next((name for name in fields if did_you_mean(name, AGENT_KINDS)), "")
        hint = did_you_mean(unknown, AGENT_KINDS, kind="an agent has one of")
        raise InputError("the kind of agent is missing", source=source, place=place, hint=hint)
    return _read(AGENT_KINDS[kinds[0]], fields, source, place)


def _read(kind: type[D], fields: Mapping[str, Any], source: str, place: str) -> D:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise validation_input_error(error, kind, source=source, place=place) from None
