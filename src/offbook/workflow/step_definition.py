"""The steps that hold no other steps, as a workflow file declares them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, PositiveInt

from offbook.workflow.config_definition import (
    Definition,
    Listed,
    Name,
    ProviderName,
    RetryDefinition,
    Seconds,
    Temperature,
)

KEY_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
PATH_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9][A-Za-z0-9_]*)*$"
StateKey = Annotated[str, Field(pattern=KEY_PATTERN)]
StatePath = Annotated[str, Field(pattern=PATH_PATTERN)]


class StepFields(Definition):
    """What every step has.

    `output` is where in the state its result goes; `timeout` is in seconds, for all its attempts together.
    After a failure, `on_failure` says whether the steps that depend on it are skipped or run all the same.
    """

    id: Name
    description: str = ""
    depends_on: Listed[Name] = ()
    output: StatePath | None = None
    retry: RetryDefinition | None = None
    timeout: Seconds | None = None
    stream: bool = False
    on_failure: Literal["skip_downstream", "continue"] = "skip_downstream"


class ModelFields(StepFields):
    """What every step that asks a model has. `prompt` and `system_prompt` are templates."""

    prompt: Name
    system_prompt: str = ""
    provider: ProviderName | None = None
    model: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    tools: Listed[Name] = ()


class LlmCallStep(ModelFields):
    """Asks a model once, or as often as it calls tools. With `json`, the answer is read as JSON."""

    type: Literal["llm_call"]
    max_tool_iterations: PositiveInt = 5
    parse_json: bool = Field(default=False, alias="json")


def _listed(declared: object) -> object:
    return (declared,) if isinstance(declared, str) else declared


def _prerequisite(declared: object) -> object:
    return {"tool": declared} if isinstance(declared, str) else declared


class Prerequisite(Definition):
    """A tool that must have run before; with `match_arg`, with the same value of that argument."""

    tool: Name
    match_arg: Name | None = None


DeclaredPrerequisite = Annotated[
    Prerequisite, BeforeValidator(_prerequisite, json_schema_input_type=str | dict[str, str])
]


class AgentStep(ModelFields):
    """Lets a model call tools until it calls a terminal one."""

    type: Literal["agent"]
    terminal_tool: Annotated[
        Listed[Name], BeforeValidator(_listed, json_schema_input_type=str | list[str]), Field(min_length=1)
    ]
    required_steps: Listed[Name] = ()
    prerequisites: dict[str, Listed[DeclaredPrerequisite]] = Field(default_factory=dict)
    max_iterations: PositiveInt = 10
    max_retries_per_step: Annotated[int, Field(ge=0)] = 3
    max_tool_errors: Annotated[int, Field(ge=0)] = 2


class ToolStep(StepFields):
    """Calls a tool. Every text in `args` is a template; one that is a single placeholder gives the value itself."""

    type: Literal["tool"]
    tool: Name
    args: dict[str, JsonValue] = Field(default_factory=dict)


class RouterCondition(Definition):
    """Where to go when an expression is true."""

    expression: str
    target: Name


class RouterStep(StepFields):
    """Runs the target of the first condition that holds, else the default; its other targets are skipped."""

    type: Literal["router"]
    conditions: Listed[RouterCondition] = ()
    default: Name | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every step it may choose, each once, in order."""
        named = [condition.target for condition in self.conditions]
        return tuple(dict.fromkeys(named if self.default is None else [*named, self.default]))
