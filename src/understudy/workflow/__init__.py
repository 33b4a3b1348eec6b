"""Workflows: YAML graphs of steps, what their files say and whether it makes sense."""

from understudy.workflow.builder import WorkflowBuilder
from understudy.workflow.drawing import DrawingFormat, draw
from understudy.workflow.engine import WorkflowEngine
from understudy.workflow.expression import Expression
from understudy.workflow.graph import Graph
from understudy.workflow.load import load_workflow, parse_workflow
from understudy.workflow.result import StepResult, WorkflowResult
from understudy.workflow.schema import (
    AnyStep,
    LoopStep,
    SubworkflowStep,
    WorkflowDefinition,
    workflow_json_schema,
)
from understudy.workflow.step_definition import AgentStep, LlmCallStep, RouterStep, ToolStep
from understudy.workflow.template import Template
from understudy.workflow.validate import validate

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
