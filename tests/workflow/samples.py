"""Workflows for the tests, and what is said of broken ones."""

import pytest

from offbook.errors import WorkflowError
from offbook.workflow import parse_workflow

EXAMPLE = """\
name: classify-and-respond
description: optional
config: {provider: openai, model: gpt-4o-mini, budget_usd: 0.50, max_concurrent_steps: 10}
tools: {search_docs: "my_tools:search_docs", reply: "my_tools:reply"}
state: {user_input: ""}
steps:
  - id: classify
    type: llm_call
    system_prompt: "Classify as: question, complaint, or request."
    prompt: "Classify: {state.user_input}"
    output: classification
  - id: route
    type: router
    depends_on: [classify]
    conditions: [{expression: "state.classification == 'question'", target: answer}]
    default: general_response
  - id: answer
    type: agent
    depends_on: [route]
    tools: [search_docs]
    terminal_tool: reply
    prompt: "Answer: {state.user_input}"
    output: response
  - {id: general_response, type: llm_call, depends_on: [route], prompt: "Re: {state.user_input}", output: response}
"""
CALL = "{id: %s, type: llm_call, prompt: hello%s}"


def call(step_id, **fields):
    """One llm_call as a line of YAML."""
    return CALL % (step_id, "".join(f", {name}: {value}" for name, value in fields.items()))


def workflow(*steps, head=""):
    """A workflow of steps that are a line each; the first stands in line 4."""
    lines = ["name: flow", head or "state: {text: hi, items: [1, 2]}", "steps:", *(f"  - {step}" for step in steps)]
    return "\n".join(lines) + "\n"


def problems_of(text, **options):
    """What is said of a broken workflow, a line each; hints are on the line of their problem."""
    with pytest.raises(WorkflowError) as caught:
        parse_workflow(text, source="flow.yaml", **options)
    return [
        str(problem).replace("\n  hint: ", " | ").removeprefix("flow.yaml:").strip()
        for problem in caught.value.problems
    ]
