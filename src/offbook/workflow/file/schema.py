"""The schema of a workflow file: config, tools and steps as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    NonNegativeFloat,
    PositiveInt,
    Strict,
    Tag,
    model_validator,
)

from offbook.gateway.retry import RETRYABLE_STATUSES, RetryPolicy
from offbook.vendors import MockableProviderName

HOST_PATTERN = r"^((\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"
COMMAND_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"
"""The bare name of a command, without any path."""

T = TypeVar("T")
ListOf: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class Definition(BaseModel):
    """A part of a workflow file: immutable, without unknown fields or type conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


class RetryDefinition(Definition):
    """When a failed call is retried, with the fields of `RetryPolicy`."""

    max_retries: Annotated[int, Field(ge=0)] = RetryPolicy().max_retries
    backoff_s: NonNegativeFloat = RetryPolicy().backoff_s
    multiplier: NonNegativeFloat = RetryPolicy().multiplier
    max_backoff_s: NonNegativeFloat = RetryPolicy().max_backoff_s
    jitter: Annotated[float, Field(ge=0, le=1)] = RetryPolicy().jitter
    seed: int = RetryPolicy().seed
    max_retry_after_s: NonNegativeFloat = RetryPolicy().max_retry_after_s
    statuses: ListOf[int] = tuple(sorted(RETRYABLE_STATUSES))

    def policy(self) -> RetryPolicy:
        """Return the policy for the gateway."""
        return RetryPolicy(**(self.model_dump() | {"statuses": frozenset(self.statuses)}))


class FallbackDefinition(Definition):
    """A model to call when the one before it fails."""

    provider: MockableProviderName
    model: Name
    base_url: Name | None = None


class ConfigDefinition(Definition):
    """How models are called, and the limits of a run. Unset fields are left to whoever runs the workflow."""

    provider: MockableProviderName | None = None
    model: Name | None = None
    base_url: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    budget_usd: NonNegativeFloat | None = None
    max_concurrent_steps: PositiveInt = 10
    timeout_s: Seconds | None = None
    responses_file: Name | None = None
    latency_model: Literal["constant", "normal", "replay"] = "constant"
    latency_ms: NonNegativeFloat = 0.0
    strict: bool = False
    fallbacks: ListOf[FallbackDefinition] = ()
    retry: RetryDefinition | None = None
    restart_streams: bool = False

    def inside(self, outer: ConfigDefinition) -> ConfigDefinition:
        """Return this config with the unset fields of `outer`. A base URL applies to its own provider only."""
        own_fields = {name: getattr(self, name) for name in self.model_fields_set}
        if self.provider not in (None, outer.provider):
            own_fields.setdefault("base_url", None)
        return outer.model_copy(update=own_fields)


KEY_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
PATH_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9][A-Za-z0-9_]*)*$"
StateKey = Annotated[str, Field(pattern=KEY_PATTERN)]
StatePath = Annotated[str, Field(pattern=PATH_PATTERN)]


class StepFields(Definition):
    """The fields of every step.

    `output` is the state path of its result; `timeout` is in seconds, for all attempts together. After a
    failure, `on_failure` decides whether the steps that depend on it are skipped or run anyway.
    """

    id: Name
    description: str = ""
    depends_on: ListOf[Name] = ()
    output: StatePath | None = None
    retry: RetryDefinition | None = None
    timeout: Seconds | None = None
    stream: bool = False
    on_failure: Literal["skip_downstream", "continue"] = "skip_downstream"


class ModelFields(StepFields):
    """The fields of every step that calls a model. `prompt` and `system_prompt` are templates."""

    prompt: Name
    system_prompt: str = ""
    provider: MockableProviderName | None = None
    model: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    tools: ListOf[Name] = ()


class LlmCallStep(ModelFields):
    """Calls a model once, or until it stops calling tools. With `json`, the answer is parsed as JSON."""

    type: Literal["llm_call"]
    max_tool_iterations: PositiveInt = 5
    parse_json: bool = Field(default=False, alias="json")


def _as_tuple(declared: object) -> object:
    return (declared,) if isinstance(declared, str) else declared


def _as_prerequisite(declared: object) -> object:
    return {"tool": declared} if isinstance(declared, str) else declared


class Prerequisite(Definition):
    """A tool that must have succeeded before; with `match_arg`, for the same value of that argument."""

    tool: Name
    match_arg: Name | None = None


DeclaredPrerequisite = Annotated[
    Prerequisite, BeforeValidator(_as_prerequisite, json_schema_input_type=str | dict[str, str])
]


class AgentStep(ModelFields):
    """Lets a model call tools until it calls a terminal tool."""

    type: Literal["agent"]
    terminal_tool: Annotated[
        ListOf[Name], BeforeValidator(_as_tuple, json_schema_input_type=str | list[str]), Field(min_length=1)
    ]
    required_steps: ListOf[Name] = ()
    prerequisites: dict[str, ListOf[DeclaredPrerequisite]] = Field(default_factory=dict)
    max_iterations: PositiveInt = 10
    max_retries_per_step: Annotated[int, Field(ge=0)] = 3
    max_tool_errors: Annotated[int, Field(ge=0)] = 2


class ToolStep(StepFields):
    """Calls a tool. Every string in `args` is a template; one that is a single placeholder gives the value itself."""

    type: Literal["tool"]
    tool: Name
    args: dict[str, JsonValue] = Field(default_factory=dict)


class RouterCondition(Definition):
    """The step to run if an expression is true."""

    expression: str
    target: Name


class RouterStep(StepFields):
    """Runs the target of the first condition that is true, otherwise the default; its other targets are skipped."""

    type: Literal["router"]
    conditions: ListOf[RouterCondition] = ()
    default: Name | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every step it may choose, each once, in order."""
        targets = [condition.target for condition in self.conditions]
        return tuple(dict.fromkeys(targets if self.default is None else [*targets, self.default]))


FUNCTION_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"

Host = Annotated[str, Field(pattern=HOST_PATTERN)]
Command = Annotated[str, Field(pattern=COMMAND_PATTERN)]


class PythonFunctionTool(Definition):
    """A Python function, as `module:function`."""

    function: Annotated[str, Field(pattern=FUNCTION_PATTERN)]


class HttpGetTool(Definition):
    """Fetches pages, only from the hosts in `allow`."""

    builtin: Literal["http_get"]
    allow: Annotated[ListOf[Host], Field(min_length=1)]
    timeout_s: Seconds = 30.0


class ReadFileTool(Definition):
    """Reads files, only in the folder `root`, which is relative to the workflow file."""

    builtin: Literal["read_file"]
    root: Name


class ShellTool(Definition):
    """Runs commands without a shell, only those in `allow`."""

    builtin: Literal["shell"]
    allow: Annotated[ListOf[Command], Field(min_length=1)]
    timeout_s: Seconds = 30.0


BUILTINS = {"http_get": HttpGetTool, "read_file": ReadFileTool, "shell": ShellTool}


def _as_mapping(declared: object) -> object:
    return {"function": declared} if isinstance(declared, str) else declared


def _kind(declared: object) -> str | None:
    """Return the kind of a declared tool; a mapping without `builtin` is a function."""
    if isinstance(declared, PythonFunctionTool) or (isinstance(declared, dict) and "builtin" not in declared):
        return "function"
    builtin = declared.get("builtin") if isinstance(declared, dict) else getattr(declared, "builtin", None)
    return builtin if isinstance(builtin, str) else None


ToolDefinition = Annotated[
    Annotated[PythonFunctionTool, Tag("function")]
    | Annotated[HttpGetTool, Tag("http_get")]
    | Annotated[ReadFileTool, Tag("read_file")]
    | Annotated[ShellTool, Tag("shell")],
    Discriminator(_kind),
    BeforeValidator(_as_mapping, json_schema_input_type=str | dict[str, object]),
]


MAX_STEPS = 20_000


class SubworkflowStep(StepFields):
    """Runs another workflow, from a file or inline, with a state of its own.

    `input` sets keys of its state; `outputs` maps state paths of this workflow to paths of its final state.
    A step that was loaded from a file has the workflow of `path` in `workflow`.
    """

    type: Literal["subworkflow"]
    path: Name | None = None
    workflow: WorkflowDefinition | None = None
    input: dict[str, JsonValue] = Field(default_factory=dict)
    outputs: dict[StatePath, StatePath] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_workflow(self) -> SubworkflowStep:
        if (self.path is None) == (self.workflow is None):
            raise ValueError("expected either 'path' or 'workflow'")
        return self


class LoopStep(StepFields):
    """Runs its steps once for each element of a list, or until an expression is true.

    With `over`, every round has a copy of the state, its element under the name in `as`, and its `index`; the
    values at `collect` are collected in order into `output`. With `until`, at most `max_iterations` rounds share
    the state, one after another.
    """

    type: Literal["loop"]
    over: str | None = None
    variable: StateKey = Field(default="item", alias="as")
    until: str | None = None
    max_iterations: PositiveInt = 10
    steps: Annotated[ListOf[TaggedStep], Field(min_length=1, max_length=MAX_STEPS)]
    collect: StatePath | None = None

    @model_validator(mode="after")
    def _is_one_kind_of_loop(self) -> LoopStep:
        if (self.over is None) == (self.until is None):
            raise ValueError("expected either 'over' or 'until'")
        if (self.collect is None) != (self.output is None):
            raise ValueError("expected both 'collect' and 'output', or neither")
        if self.variable in ("state", "index"):
            raise ValueError(f"the name {self.variable!r} in 'as' is reserved")
        return self


AnyStep: TypeAlias = LlmCallStep | AgentStep | ToolStep | RouterStep | SubworkflowStep | LoopStep
TaggedStep: TypeAlias = Annotated[AnyStep, Field(discriminator="type")]
STEP_TYPES = {
    "llm_call": LlmCallStep,
    "agent": AgentStep,
    "tool": ToolStep,
    "router": RouterStep,
    "subworkflow": SubworkflowStep,
    "loop": LoopStep,
}


class WorkflowDefinition(Definition):
    """A workflow: steps that depend on one another and share a state."""

    name: Name
    description: str = ""
    config: ConfigDefinition = ConfigDefinition()
    tools: dict[Name, ToolDefinition] = Field(default_factory=dict)
    state: dict[StateKey, JsonValue] = Field(default_factory=dict)
    steps: Annotated[ListOf[TaggedStep], Field(min_length=1, max_length=MAX_STEPS)]


def workflow_json_schema() -> dict[str, JsonValue]:
    """Return the JSON schema of a workflow file, for editors that complete and check YAML."""
    schema: dict[str, JsonValue] = WorkflowDefinition.model_json_schema(by_alias=True)
    return schema
