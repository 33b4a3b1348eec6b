"""Definitions out of plain values: short forms, values that no file has, fields that exclude each other."""

from datetime import date

import pytest

from offbook.errors import WorkflowError
from offbook.workflow import load_workflow
from offbook.workflow.file.definition import read_definition
from offbook.workflow.file.schema import ConfigDefinition, Prerequisite, PythonFunctionTool, RetryDefinition
from tests.workflow.samples import call, workflow

CALL = {"id": "a", "type": "llm_call", "prompt": "x"}


def problems_of(*steps, **fields):
    with pytest.raises(WorkflowError) as caught:
        read_definition({"name": "flow", "steps": list(steps), **fields})
    return [str(problem) for problem in caught.value.problems]


def test_short_forms_are_the_long_ones():
    agent = {"id": "b", "type": "agent", "prompt": "x", "terminal_tool": "done", "prerequisites": {"done": ["look"]}}
    tools = {"look": "m:look", "done": {"function": "m:done"}}
    flow = read_definition({"name": "flow", "tools": tools, "steps": [agent]})
    assert flow.tools == {name: PythonFunctionTool(function=f"m:{name}") for name in tools}
    assert flow.steps[0].terminal_tool == ("done",)
    assert flow.steps[0].prerequisites == {"done": (Prerequisite(tool="look"),)}


def test_a_document_is_not_changed():
    agent = {"id": "b", "type": "agent", "prompt": "x", "terminal_tool": "done"}
    loop = {"id": "l", "type": "loop", "until": "true", "steps": [agent]}
    document = {"name": "flow", "tools": {"done": "m:done"}, "steps": [loop]}
    before = repr(document)
    read_definition(document)
    assert repr(document) == before


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("timeout", float("inf"), "steps[0].timeout: expected a finite number, got inf"),
        ("tools", {"a"}, "steps[0].tools: expected JSON, got set"),
        ("prompt", b"x", "steps[0].prompt: expected JSON, got bytes"),
    ],
)
def test_a_value_that_no_file_can_have_is_a_problem(field, value, problem):
    assert problems_of(CALL | {field: value}) == [problem]


def test_a_state_is_json():
    assert problems_of(CALL, state={"days": [date(2026, 1, 1)], "shares": [float("nan")]}) == [
        "state.days[0]: expected JSON, got date",
        "state.shares[0]: expected a finite number, got nan",
    ]


def test_a_short_form_is_wrong_at_the_place_where_it_is_written():
    agent = {"id": "b", "type": "agent", "prompt": "x", "terminal_tool": "", "prerequisites": {"done": [""]}}
    assert problems_of(agent, tools={"done": "m"}) == [
        "steps[0].terminal_tool: expected a value, got an empty one",
        "steps[0].prerequisites.done[0]: expected a value, got an empty one",
        "tools.done: expected 'module:function', got 'm'",
    ]


def test_fields_that_exclude_each_other_are_reported_beside_other_problems():
    loop = {"id": "l", "type": "loop", "over": "state.x", "until": "true", "steps": [CALL]}
    inline = {"id": "s", "type": "subworkflow", "workflow": {"name": "inner", "steps": [loop]}}
    assert problems_of(inline, CALL | {"stream": 1}) == [
        "steps[1].stream: expected true or false, got 1",
        "steps[0].workflow.steps[0]: expected either 'over' or 'until'",
    ]


def test_a_mistyped_field_is_not_reported_as_one_that_is_missing_too():
    assert problems_of({"id": "l", "type": "loop", "ovr": "state.x", "steps": [CALL]}) == [
        "steps[0].ovr: unknown field 'ovr'\n  hint: did you mean 'over'?"
    ]


def test_a_definition_with_files_in_it_can_be_a_part_of_another(tmp_path):
    (tmp_path / "inner.yaml").write_text(workflow(call("a")))
    (tmp_path / "outer.yaml").write_text(workflow("{id: s, type: subworkflow, path: inner.yaml}"))
    outer = load_workflow(tmp_path / "outer.yaml")
    step = {"id": "t", "type": "subworkflow", "workflow": outer}
    assert read_definition({"name": "flow", "steps": [step]}).steps[0].workflow is outer


def test_a_config_inside_another_has_its_own_fields_first():
    outer = ConfigDefinition(provider="openai", model="m", base_url="http://a", max_concurrent_steps=3, temperature=1)
    assert ConfigDefinition(model="n").inside(outer) == ConfigDefinition(
        provider="openai", model="n", base_url="http://a", max_concurrent_steps=3, temperature=1
    )
    assert ConfigDefinition(provider="mock", max_concurrent_steps=10).inside(outer) == ConfigDefinition(
        provider="mock", model="m", max_concurrent_steps=10, temperature=1
    )
    assert (
        ConfigDefinition(restart_streams=False).inside(ConfigDefinition(restart_streams=True)).restart_streams is False
    )


def test_a_version_is_whatever_its_author_says():
    assert read_definition({"name": "flow", "version": "1.0", "steps": [CALL]}).version == "1.0"
    assert problems_of(CALL, version=1.0) == ["version: expected a string, got 1.0"]


def test_two_ways_to_say_how_often_to_retry_exclude_each_other():
    both = {"max_retries": 2, "retry": {"max_retries": 3}}
    inline = {"id": "s", "type": "subworkflow", "workflow": {"name": "inner", "config": both, "steps": [CALL]}}
    assert problems_of(inline, config=both) == [
        "config: expected either 'retry' or 'max_retries'",
        "steps[0].workflow.config: expected either 'retry' or 'max_retries'",
    ]


def test_the_retries_of_a_config_inside_another_come_first_however_they_are_said():
    short, long = ConfigDefinition(max_retries=1), ConfigDefinition(retry=RetryDefinition(max_retries=5))
    assert short.inside(long).retry_policy().max_retries == 1
    assert long.inside(short).retry_policy().max_retries == 5
    assert ConfigDefinition(model="m").inside(short).retry_policy().max_retries == 1
    assert ConfigDefinition().retry_policy() is None


def test_a_key_that_no_file_can_have_is_a_problem():
    assert problems_of(CALL, state={"days": {1: "monday"}}) == ["state.days: expected names as keys, got 1"]
