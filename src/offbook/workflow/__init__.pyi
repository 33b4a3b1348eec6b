"""Workflows: YAML graphs of steps, their files and the engine that runs them."""

from offbook.workflow.builder import WorkflowBuilder as WorkflowBuilder
from offbook.workflow.drawing import DrawingFormat as DrawingFormat
from offbook.workflow.drawing import draw as draw
from offbook.workflow.engine.engine import WorkflowEngine as WorkflowEngine
from offbook.workflow.engine.result import StepResult as StepResult
from offbook.workflow.engine.result import WorkflowResult as WorkflowResult
from offbook.workflow.file.expression import Expression as Expression
from offbook.workflow.file.graph import Graph as Graph
from offbook.workflow.file.load import load_workflow as load_workflow
from offbook.workflow.file.load import parse_workflow as parse_workflow
from offbook.workflow.file.schema import AgentStep as AgentStep
from offbook.workflow.file.schema import AnyStep as AnyStep
from offbook.workflow.file.schema import LlmCallStep as LlmCallStep
from offbook.workflow.file.schema import LoopStep as LoopStep
from offbook.workflow.file.schema import RouterStep as RouterStep
from offbook.workflow.file.schema import SubworkflowStep as SubworkflowStep
from offbook.workflow.file.schema import ToolStep as ToolStep
from offbook.workflow.file.schema import WorkflowDefinition as WorkflowDefinition
from offbook.workflow.file.schema import workflow_json_schema as workflow_json_schema
from offbook.workflow.file.template import Template as Template
from offbook.workflow.file.validate import validate as validate
