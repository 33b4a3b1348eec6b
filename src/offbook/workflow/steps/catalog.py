"""Definitions of steps made into steps that can be run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offbook.workflow.graph import Graph
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep
from offbook.workflow.step_definition import AgentStep, LlmCallStep, RouterStep, ToolStep
from offbook.workflow.steps.agent import AgentLoop
from offbook.workflow.steps.llm_call import LlmCall
from offbook.workflow.steps.loop import Loop, in_loop
from offbook.workflow.steps.router import Routing
from offbook.workflow.steps.runnable_level import RunnableLevel
from offbook.workflow.steps.step import Environment, Step
from offbook.workflow.steps.subworkflow import Subworkflow, in_subworkflow, loaded
from offbook.workflow.steps.tool import ToolUse


def level_of(steps: Sequence[AnyStep], environment: Environment) -> RunnableLevel:
    """The steps of a level, ready to be run.

    Raises:
        InputError: one of them lacks something that only the run could give it, such as a model.
    """
    return RunnableLevel(Graph(steps), {step.id: runnable(step, environment) for step in steps}, environment)


def runnable(definition: AnyStep, environment: Environment) -> Step[Any]:
    match definition:
        case LlmCallStep():
            return LlmCall(definition, environment)
        case AgentStep():
            return AgentLoop(definition, environment)
        case ToolStep():
            return ToolUse(definition, environment)
        case RouterStep():
            return Routing(definition, environment)
        case SubworkflowStep():
            inner = in_subworkflow(environment, definition)
            return Subworkflow(definition, environment, level_of(loaded(definition).steps, inner))
        case LoopStep():
            return Loop(definition, environment, level_of(definition.steps, in_loop(environment, definition)))
