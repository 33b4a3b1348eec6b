"""Workflows written in Python."""

import pytest

from offbook import MockProvider, run
from offbook.errors import WorkflowError
from offbook.workflow import WorkflowBuilder
from tests.fakes import Echo


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def builder(**options):
    return WorkflowBuilder("built", model="m", state={"topic": "cats"}, tools=[shout], **options)


def test_a_built_workflow_runs_like_one_of_a_file():
    flow = (
        builder()
        .llm_call("write", "About {state.topic}", output="text")
        .tool("loud", "shout", {"text": "{state.text}"}, depends_on=["write"], output="loud")
        .router("route", {"state.loud.startsWith('ABOUT')": "yes"}, default="no", depends_on=["loud"])
        .llm_call("yes", "Yes", output="said")
        .llm_call("no", "No", output="said")
    )
    result = run(flow.engine(Echo()).run(), virtual_time=True)
    assert result.state["loud"] == "ABOUT CATS #1"
    assert result.state["said"] == "Yes #2"


def test_an_agent_is_built_with_its_tools():
    flow = builder().agent("speak", "Say it", terminal_tool="shout", output="said")
    answer = {"content": "", "tool_calls": [{"id": "a", "name": "shout", "arguments": {"text": "hi"}}]}
    assert run(flow.engine(MockProvider(responses={"speak": answer})).run()).state["said"] == "HI"


def test_loops_and_subworkflows_are_built_of_builders():
    round_ = WorkflowBuilder("round").llm_call("greet", "Hi {name}", output="hello")
    inner = (
        WorkflowBuilder("inner", model="m", state={"names": []}, tools=[shout])
        .loop("each", round_, over="state.names", as_="name", collect="hello", output="all")
        .tool("loud", "shout", {"text": "{state.all.1}"}, depends_on=["each"], output="loud")
    )
    outer = WorkflowBuilder("outer", model="m").subworkflow(
        "greetings", inner, input={"names": ["ann", "bob"]}, outputs={"said": "all", "loud": "loud"}
    )
    state = run(outer.engine(Echo()).run()).state
    assert state == {"said": ["Hi ann #1", "Hi bob #2"], "loud": "HI BOB #2"}


def test_a_definition_can_be_a_subworkflow():
    inner = WorkflowBuilder("inner", model="m", state={"x": 1}).llm_call("ask", "{state.x}", output="y").build()
    outer = WorkflowBuilder("outer").subworkflow("sub", inner, outputs={"got": "y"})
    assert run(outer.engine(Echo()).run()).state == {"got": "1 #1"}


def test_mistakes_are_reported_with_their_place():
    with pytest.raises(WorkflowError) as caught:
        builder().llm_call("write", "About {state.topci}", ouput="text").build()
    assert "built: steps[0].ouput: unknown field 'ouput'" in str(caught.value)
    with pytest.raises(WorkflowError, match="topci"):
        builder().llm_call("write", "About {state.topci}").build()
