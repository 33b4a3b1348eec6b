"""Builds workflows in Python instead of YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from offbook.messages import JsonObject
from offbook.providers.provider import Provider
from offbook.tools import GivenTools, Toolbox
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.file.load import read_definition
from offbook.workflow.file.problems import ProblemReport
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.file.validate import validate


class WorkflowBuilder:
    """Collects the steps of a workflow. Each step type has a method that takes the fields of the file.

    Args:
        state: the initial state.
        tools: functions or tools that the steps may call.
        config: the fields of the file's `config`, such as `model`.
    """

    def __init__(
        self, name: str, *, state: Mapping[str, Any] | None = None, tools: GivenTools = (), **config: Any
    ) -> None:
        self._toolbox = Toolbox(tools)
        self._declared: JsonObject = {"name": name, "config": config, "state": dict(state or {})}
        self._steps: list[JsonObject] = []

    def llm_call(self, id: str, prompt: str, **fields: Any) -> Self:
        """Add a step that calls a model."""
        return self._add("llm_call", id, prompt=prompt, **fields)

    def agent(self, id: str, prompt: str, *, terminal_tool: str | Sequence[str], **fields: Any) -> Self:
        """Add a step in which a model calls tools until it calls a terminal tool."""
        return self._add("agent", id, prompt=prompt, terminal_tool=terminal_tool, **fields)

    def tool(self, id: str, tool: str, args: Mapping[str, Any] | None = None, **fields: Any) -> Self:
        """Add a step that calls a tool."""
        return self._add("tool", id, tool=tool, args=dict(args or {}), **fields)

    def router(self, id: str, conditions: Mapping[str, str], *, default: str | None = None, **fields: Any) -> Self:
        """Add a step that chooses the next step: `conditions` maps expressions to step ids."""
        listed = [{"expression": expression, "target": target} for expression, target in conditions.items()]
        return self._add("router", id, conditions=listed, default=default, **fields)

    def subworkflow(self, id: str, workflow: WorkflowBuilder | WorkflowDefinition, **fields: Any) -> Self:
        """Add a step that runs another workflow, with the tools of its builder."""
        if isinstance(workflow, WorkflowBuilder):
            self._toolbox = Toolbox({**workflow.toolbox, **self._toolbox})
        inner = workflow.declared if isinstance(workflow, WorkflowBuilder) else workflow
        return self._add("subworkflow", id, workflow=inner, **fields)

    def loop(self, id: str, steps: WorkflowBuilder, **fields: Any) -> Self:
        """Add a step that runs the steps of another builder repeatedly."""
        return self._add("loop", id, steps=steps.declared["steps"], **fields)

    @property
    def toolbox(self) -> Toolbox:
        """The tools that the steps may call, including those of sub-workflows."""
        return self._toolbox

    @property
    def declared(self) -> JsonObject:
        """The workflow so far, in the format of a workflow file. Definitions in it stay unchanged."""
        return {**self._declared, "steps": list(self._steps)}

    def build(self) -> WorkflowDefinition:
        """Validate the workflow and return its definition.

        Raises:
            WorkflowError: the workflow is invalid; the error has all problems.
        """
        definition = read_definition(self.declared, ProblemReport(source=self._declared["name"]))
        validate(definition, tools=self._toolbox)
        return definition

    def engine(self, provider_gateway: Provider, **options: Any) -> WorkflowEngine:
        """Return an engine for the workflow and its tools; takes the options of WorkflowEngine.

        Raises:
            WorkflowError: the workflow is invalid.
        """
        return WorkflowEngine(self.build(), provider_gateway, tools=self._toolbox, **options)

    def _add(self, kind: str, id: str, **fields: Any) -> Self:
        set_fields = {name.rstrip("_"): value for name, value in fields.items() if value is not None}
        self._steps.append({"id": id, "type": kind, **set_fields})
        return self
