"""The schema of a workflow file: config, tools and steps as frozen msgspec structs, and their JSON schema."""

# Without postponed annotations: msgspec would evaluate each of them again when the first file is read.

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace
from msgspec.structs import fields as struct_fields

from offbook.errors import InputError
from offbook.gateway.retry import RETRYABLE_STATUSES, RetryPolicy
from offbook.messages import JsonObject
from offbook.vendors import MockableProviderName

_END = r"$(?!\n)"
"""The end of a text. `$` alone would also match before a line break at the end."""
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?"
HOST_PATTERN = rf"^((\*\.)?{_LABEL}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?{_END}"
COMMAND_PATTERN = f"^[A-Za-z0-9_][A-Za-z0-9_.+-]*{_END}"
"""The bare name of a command, without any path."""

Name = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveInt = Annotated[int, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
StateKey = Annotated[
    str, Meta(pattern=f"^[A-Za-z][A-Za-z0-9_]*{_END}", description="a name of letters, digits and '_'")
]
StatePath = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9][A-Za-z0-9_]*)*{_END}",
        description="a path of letters, digits and '_' like 'answer' or 'answer.text'",
    ),
]
FunctionPath = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*{_END}",
        description="'module:function'",
    ),
]
Host = Annotated[
    str, Meta(pattern=HOST_PATTERN, description="a host like 'example.com', '*.example.com' or '127.0.0.1:8080'")
]
Command = Annotated[str, Meta(pattern=COMMAND_PATTERN, description="the bare name of a command")]


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a workflow file: immutable, without unknown fields or type conversions."""


class RetryDefinition(Definition, frozen=True, kw_only=True):
    """The retry policy of failed calls, with the fields of `RetryPolicy`."""

    max_retries: NonNegativeInt = RetryPolicy().max_retries
    backoff_s: NonNegativeFloat = RetryPolicy().backoff_s
    multiplier: NonNegativeFloat = RetryPolicy().multiplier
    max_backoff_s: NonNegativeFloat = RetryPolicy().max_backoff_s
    jitter: Annotated[float, Meta(ge=0, le=1)] = RetryPolicy().jitter
    seed: int = RetryPolicy().seed
    max_retry_after_s: NonNegativeFloat = RetryPolicy().max_retry_after_s
    statuses: tuple[int, ...] = tuple(sorted(RETRYABLE_STATUSES))

    def policy(self) -> RetryPolicy:
        """Return the policy for the gateway."""
        return RetryPolicy(**(asdict(self) | {"statuses": frozenset(self.statuses)}))


class FallbackDefinition(Definition, frozen=True, kw_only=True):
    """A model to call when the one before it fails."""

    provider: MockableProviderName
    model: Name
    base_url: Name | None = None


MAX_CONCURRENT_STEPS = 10


class ConfigDefinition(Definition, frozen=True, kw_only=True):
    """The models and their options, and the limits of a run. The caller decides about unset fields.

    At most `max_concurrent_steps` steps of a level run concurrently, by default 10. `max_retries` is short for a
    `retry` with that field alone. `stream` is the default for all steps.
    """

    provider: MockableProviderName | None = None
    model: Name | None = None
    base_url: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    budget_usd: NonNegativeFloat | None = None
    max_concurrent_steps: PositiveInt | None = None
    timeout_s: Seconds | None = None
    responses_file: Name | None = None
    latency_model: Literal["constant", "normal", "replay"] = "constant"
    latency_ms: NonNegativeFloat = 0.0
    strict: bool = False
    fallbacks: tuple[FallbackDefinition, ...] = ()
    retry: RetryDefinition | None = None
    max_retries: NonNegativeInt | None = None
    stream: bool | None = None
    restart_streams: bool | None = None

    def retry_policy(self) -> RetryPolicy | None:
        """Return the policy for the gateway and for steps without their own, or None."""
        if self.retry is not None:
            return self.retry.policy()
        return None if self.max_retries is None else RetryPolicy(max_retries=self.max_retries)

    @staticmethod
    def conflict(declared: JsonObject) -> str:
        """Return why the fields of a config in a file do not fit together; empty if they do."""
        has_both = declared.get("retry") is not None and declared.get("max_retries") is not None
        return "expected either 'retry' or 'max_retries'" if has_both else ""

    def inside(self, outer: "ConfigDefinition") -> "ConfigDefinition":
        """Return this config with the unset fields of `outer`. A base URL applies to its own provider only."""
        own = {info.name: value for info in struct_fields(self) if (value := getattr(self, info.name)) != info.default}
        if self.provider not in (None, outer.provider):
            own.setdefault("base_url", None)
        if "max_retries" in own:
            own.setdefault("retry", None)
        return replace(outer, **own)


class StepFields(Definition, frozen=True, kw_only=True, tag_field="type"):
    """The fields of every step.

    `output` is the state path of its result; `timeout` is in seconds, for all attempts together. After a
    failure, `on_failure` decides whether the steps that depend on it are skipped or run anyway.
    """

    id: Name
    description: str = ""
    depends_on: tuple[Name, ...] = ()
    output: StatePath | None = None
    retry: RetryDefinition | None = None
    timeout: Seconds | None = None
    stream: bool | None = None
    on_failure: Literal["skip_downstream", "continue"] = "skip_downstream"

    @property
    def type(self) -> str:
        """The type of the step, as in a file."""
        return str(self.__struct_config__.tag)

    @staticmethod
    def conflict(declared: JsonObject) -> str:
        """Return why the fields of a step in a file do not fit together; empty if they do."""
        return ""


class ModelFields(StepFields, frozen=True, kw_only=True):
    """The fields of every step that calls a model. `prompt` and `system_prompt` are templates."""

    prompt: Name
    system_prompt: str = ""
    provider: MockableProviderName | None = None
    model: Name | None = None
    temperature: Temperature | None = None
    max_tokens: PositiveInt | None = None
    tools: tuple[Name, ...] = ()


class LlmCallStep(ModelFields, frozen=True, kw_only=True, tag="llm_call"):
    """Calls a model once, or until it stops calling tools. With `json`, the answer is parsed as JSON.

    `response_schema` is the JSON schema of that JSON. The model is told, and asked again up to `max_retries_per_step`
    times with what is wrong.
    """

    max_tool_iterations: PositiveInt = 5
    parse_json: bool = field(default=False, name="json")
    response_schema: dict[str, Any] | None = None
    max_retries_per_step: NonNegativeInt = 3

    @staticmethod
    def conflict(declared: JsonObject) -> str:
        schema = declared.get("response_schema")
        if not isinstance(schema, dict):
            return ""
        from offbook.tools.schema_parameters import validator_of  # noqa: PLC0415 - jsonschema loads slowly

        try:
            validator_of(schema, source="", place="response_schema")
        except InputError as error:
            return f"{error.place}: {error.reason}"
        return ""


class Prerequisite(Definition, frozen=True, kw_only=True):
    """A tool that must have succeeded before; with `match_arg`, for the same value of that argument."""

    tool: Name
    match_arg: Name | None = None


class AgentStep(ModelFields, frozen=True, kw_only=True, tag="agent"):
    """Lets a model call tools until it calls a terminal tool."""

    terminal_tool: Annotated[tuple[Name, ...], Meta(min_length=1)]
    required_steps: tuple[Name, ...] = ()
    prerequisites: dict[str, tuple[Prerequisite, ...]] = {}
    max_iterations: PositiveInt = 10
    max_retries_per_step: NonNegativeInt = 3
    max_tool_errors: NonNegativeInt = 2


class ToolStep(StepFields, frozen=True, kw_only=True, tag="tool"):
    """Calls a tool. Every string in `args` is a template; a single placeholder gives the value itself."""

    tool: Name
    args: dict[str, Any] = {}


class RouterCondition(Definition, frozen=True, kw_only=True):
    """The step to run if an expression is true."""

    expression: str
    target: Name


class RouterStep(StepFields, frozen=True, kw_only=True, tag="router"):
    """Runs the target of the first condition that is true, otherwise the default; its other targets are skipped."""

    conditions: tuple[RouterCondition, ...] = ()
    default: Name | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Every step it may choose, each once, in order."""
        targets = [condition.target for condition in self.conditions]
        return tuple(dict.fromkeys(targets if self.default is None else [*targets, self.default]))


class PythonFunctionTool(Definition, frozen=True, kw_only=True, tag_field="builtin", tag="function"):
    """A Python function, as `module:function`."""

    TAG: ClassVar = "function"

    function: FunctionPath


class HttpGetTool(Definition, frozen=True, kw_only=True, tag_field="builtin", tag="http_get"):
    """Fetches pages, only from the hosts in `allow`."""

    allow: Annotated[tuple[Host, ...], Meta(min_length=1)]
    timeout_s: Seconds = 30.0


class ReadFileTool(Definition, frozen=True, kw_only=True, tag_field="builtin", tag="read_file"):
    """Reads files, only in the folder `root`, which is relative to the workflow file."""

    root: Name


class ShellTool(Definition, frozen=True, kw_only=True, tag_field="builtin", tag="shell"):
    """Runs commands without a shell, only those in `allow`."""

    allow: Annotated[tuple[Command, ...], Meta(min_length=1)]
    timeout_s: Seconds = 30.0


ToolDefinition: TypeAlias = PythonFunctionTool | HttpGetTool | ReadFileTool | ShellTool

MAX_STEPS = 20_000


class SubworkflowStep(StepFields, frozen=True, kw_only=True, tag="subworkflow"):
    """Runs another workflow, from a file or inline, with its own state.

    `input` sets keys of its state; `outputs` maps state paths of this workflow to paths of its final state. A step
    loaded from a file has the workflow of `path` in `workflow`.
    """

    path: Name | None = None
    workflow: "WorkflowDefinition | None" = None
    input: dict[str, Any] = {}
    outputs: dict[StatePath, StatePath] = {}

    @staticmethod
    def conflict(declared: JsonObject) -> str:
        has_one = (declared.get("path") is None) != (declared.get("workflow") is None)
        return "" if has_one else "expected either 'path' or 'workflow'"


class LoopStep(StepFields, frozen=True, kw_only=True, tag="loop"):
    """Runs its steps once for each element of a list, or until an expression is true.

    With `over`, every round has a copy of the state, its element under the name in `as`, and its `index`; the
    values at `collect` are collected in order into `output`. With `until`, at most `max_iterations` rounds share
    the state, one after another.
    """

    over: str | None = None
    variable: StateKey = field(default="item", name="as")
    until: str | None = None
    max_iterations: PositiveInt = 10
    steps: "Steps"
    collect: StatePath | None = None

    @staticmethod
    def conflict(declared: JsonObject) -> str:
        if (declared.get("over") is None) == (declared.get("until") is None):
            return "expected either 'over' or 'until'"
        if (declared.get("collect") is None) != (declared.get("output") is None):
            return "expected both 'collect' and 'output', or neither"
        variable = declared.get("as")
        return f"the name {variable!r} in 'as' is reserved" if variable in ("state", "index") else ""


AnyStep: TypeAlias = LlmCallStep | AgentStep | ToolStep | RouterStep | SubworkflowStep | LoopStep
Steps: TypeAlias = Annotated[tuple[AnyStep, ...], Meta(min_length=1, max_length=MAX_STEPS)]
STEP_TYPES: dict[str, type[AnyStep]] = {
    "llm_call": LlmCallStep,
    "agent": AgentStep,
    "tool": ToolStep,
    "router": RouterStep,
    "subworkflow": SubworkflowStep,
    "loop": LoopStep,
}


class WorkflowDefinition(Definition, frozen=True, kw_only=True):
    """A workflow: steps that depend on one another and share a state. `version` is the author's own, and not used."""

    name: Name
    version: str = ""
    description: str = ""
    config: ConfigDefinition = ConfigDefinition()
    tools: dict[Name, ToolDefinition] = {}
    state: dict[StateKey, Any] = {}
    steps: Steps


def workflow_json_schema() -> JsonObject:
    """Return the JSON schema of a workflow file, for editors that complete and check YAML."""
    schema: JsonObject = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(WorkflowDefinition)))
    _allow_short_forms(schema["$defs"])
    return schema


def _allow_short_forms(definitions: dict[str, Any]) -> None:
    """Add the short forms, which are expanded before a file is converted."""
    function = definitions["PythonFunctionTool"]
    function["properties"].pop("builtin")
    function["required"].remove("builtin")
    tools = definitions["WorkflowDefinition"]["properties"]["tools"]["additionalProperties"]
    tools.pop("discriminator")
    tools["anyOf"].insert(0, msgspec.json.schema(FunctionPath))
    agent = definitions["AgentStep"]["properties"]
    agent["terminal_tool"] = {"anyOf": [agent["terminal_tool"]["items"], agent["terminal_tool"]]}
    rules = agent["prerequisites"]["additionalProperties"]
    rules["items"] = {"anyOf": [{"type": "string", "minLength": 1}, rules["items"]]}
