"""Workflows: YAML graphs of steps, their files and the engine that runs them."""

from offbook.workflow.builder import WorkflowBuilder
from offbook.workflow.drawing import DrawingFormat, draw
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.engine.result import StepResult, WorkflowResult
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.load import load_workflow, parse_workflow
from offbook.workflow.file.schema import (
    AgentStep,
    AnyStep,
    LlmCallStep,
    LoopStep,
    RouterStep,
    SubworkflowStep,
    ToolStep,
    WorkflowDefinition,
    workflow_json_schema,
)
from offbook.workflow.file.template import Template
from offbook.workflow.file.validate import validate

__all__ = [
    "AgentStep",
    "AnyStep",
    "DrawingFormat",
    "Expression",
    "Graph",
    "LlmCallStep",
    "LoopStep",
    "RouterStep",
    "StepResult",
    "SubworkflowStep",
    "Template",
    "ToolStep",
    "WorkflowBuilder",
    "WorkflowDefinition",
    "WorkflowEngine",
    "WorkflowResult",
    "draw",
    "load_workflow",
    "parse_workflow",
    "validate",
    "workflow_json_schema",
]
