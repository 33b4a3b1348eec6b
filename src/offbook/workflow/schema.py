"""A workflow as its file declares it, and the steps that hold other steps."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, PositiveInt, model_validator

from offbook.workflow.config_definition import ConfigDefinition, Definition, Listed, Name
from offbook.workflow.step_definition import (
    AgentStep,
    LlmCallStep,
    RouterStep,
    StateKey,
    StatePath,
    StepFields,
    ToolStep,
)
from offbook.workflow.tool_definition import ToolDefinition

MAX_STEPS = 20_000


class SubworkflowStep(StepFields):
    """Runs another workflow on a state of its own: a file, or one that stands in place.

    `input` fills keys of its state, `outputs` says which key of ours gets what of its state in the end.
    A step that was loaded from a file has the workflow of `path` in `workflow`.
    """

    type: Literal["subworkflow"]
    path: Name | None = None
    workflow: WorkflowDefinition | None = None
    input: dict[str, JsonValue] = Field(default_factory=dict)
    outputs: dict[StatePath, StatePath] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_told_once(self) -> SubworkflowStep:
        if (self.path is None) == (self.workflow is None):
            raise ValueError("expected either 'path' or 'workflow'")
        return self


class LoopStep(StepFields):
    """Runs its steps once for each element of a list, or until an expression is true.

    With `over`, every round has a copy of the state, its element under the name in `as`, and its `index`;
    only what `collect` names leaves it, gathered in order into `output`. With `until`, the rounds share the
    state, one after another, at most `max_iterations` of them.
    """

    type: Literal["loop"]
    over: str | None = None
    variable: StateKey = Field(default="item", alias="as")
    until: str | None = None
    max_iterations: PositiveInt = 10
    steps: Annotated[Listed[Step], Field(min_length=1, max_length=MAX_STEPS)]
    collect: StatePath | None = None

    @model_validator(mode="after")
    def _is_one_kind_of_loop(self) -> LoopStep:
        if (self.over is None) == (self.until is None):
            raise ValueError("expected either 'over' or 'until'")
        if (self.collect is None) != (self.output is None):
            raise ValueError("expected both 'collect' and 'output', or neither")
        if self.variable in ("state", "index"):
            raise ValueError(f"the name {self.variable!r} in 'as' is taken")
        return self


AnyStep: TypeAlias = LlmCallStep | AgentStep | ToolStep | RouterStep | SubworkflowStep | LoopStep
Step: TypeAlias = Annotated[AnyStep, Field(discriminator="type")]
STEP_TYPES = {
    "llm_call": LlmCallStep,
    "agent": AgentStep,
    "tool": ToolStep,
    "router": RouterStep,
    "subworkflow": SubworkflowStep,
    "loop": LoopStep,
}


class WorkflowDefinition(Definition):
    """A workflow: named steps that depend on one another and share a state."""

    name: Name
    description: str = ""
    config: ConfigDefinition = ConfigDefinition()
    tools: dict[Name, ToolDefinition] = Field(default_factory=dict)
    state: dict[StateKey, JsonValue] = Field(default_factory=dict)
    steps: Annotated[Listed[Step], Field(min_length=1, max_length=MAX_STEPS)]


SubworkflowStep.model_rebuild()
LoopStep.model_rebuild()
WorkflowDefinition.model_rebuild()


def workflow_json_schema() -> dict[str, JsonValue]:
    """The JSON schema of a workflow file, for editors that complete and check YAML."""
    schema: dict[str, JsonValue] = WorkflowDefinition.model_json_schema(by_alias=True)
    return schema
