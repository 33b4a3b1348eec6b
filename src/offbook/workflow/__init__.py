"""Workflows: YAML graphs of steps, what their files say and whether it makes sense."""

from offbook.workflow.builder import WorkflowBuilder
from offbook.workflow.drawing import DrawingFormat, draw
from offbook.workflow.engine import WorkflowEngine
from offbook.workflow.expression import Expression
from offbook.workflow.graph import Graph
from offbook.workflow.load import load_workflow, parse_workflow
from offbook.workflow.result import StepResult, WorkflowResult
from offbook.workflow.schema import (
    AnyStep,
    LoopStep,
    SubworkflowStep,
    WorkflowDefinition,
    workflow_json_schema,
)
from offbook.workflow.step_definition import AgentStep, LlmCallStep, RouterStep, ToolStep
from offbook.workflow.template import Template
from offbook.workflow.validate import validate

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
