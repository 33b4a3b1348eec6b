"""Loading workflows: plain values with short forms and conflicts, and sub-workflows in files of their own."""

import time
from datetime import date

import pytest

from offbook.errors import WorkflowError
from offbook.workflow import load_workflow, parse_workflow, validate
from offbook.workflow.file.load import read_definition
from offbook.workflow.file.schema import ConfigDefinition, Prerequisite, PythonFunctionTool, RetryDefinition
from tests.workflow.samples import call, workflow

CHILD = (
    "name: child\nstate: {question: ''}\n"
    "steps:\n  - {id: c, type: llm_call, prompt: '{state.question}', output: answer}\n"
)


def include(*paths, name="flow"):
    steps = "".join(f"  - {{id: s{at}, type: subworkflow, path: '{path}'}}\n" for at, path in enumerate(paths))
    return f"name: {name}\nsteps:\n{steps}"


def refused(path):
    with pytest.raises(WorkflowError) as caught:
        load_workflow(path)
    return [
        f"{problem.source.rpartition('/')[2]}:{problem.line}: {problem.place}: {problem.reason}"
        for problem in caught.value.problems
    ]


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "flows"
    inside.mkdir()
    (tmp_path / "outside.yaml").write_text(CHILD)
    return inside


def test_the_workflow_of_a_file_is_put_in_its_place(folder):
    (folder / "child.yaml").write_text(CHILD)
    (folder / "flow.yaml").write_text(include("child.yaml"))
    flow = load_workflow(folder / "flow.yaml")
    assert flow.steps[0].workflow == parse_workflow(CHILD)
    assert flow.steps[0].path == "child.yaml"
    validate(flow)


def test_paths_are_relative_to_the_file_that_names_them(folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "one.yaml").write_text(include("two.yaml", "../three.yaml", name="one"))
    (folder / "parts" / "two.yaml").write_text(CHILD)
    (folder / "three.yaml").write_text(CHILD)
    (folder / "flow.yaml").write_text(include("parts/one.yaml"))
    one = load_workflow(folder / "flow.yaml").steps[0].workflow
    assert [step.workflow.name for step in one.steps] == ["child", "child"]
    assert parse_workflow(include("parts/one.yaml"), folder=folder).steps[0].workflow == one


def test_files_are_included_from_loops_and_from_workflows_in_place_with_the_tools_around(folder):
    (folder / "child.yaml").write_text("name: child\nsteps: [{id: c, type: tool, tool: look}]\n")
    (folder / "flow.yaml").write_text(
        "name: flow\ntools: {look: 'm:look'}\nstate: {items: [1]}\nsteps:\n"
        "  - {id: l, type: loop, over: state.items, steps: [{id: a, type: subworkflow, path: child.yaml}]}\n"
        "  - {id: i, type: subworkflow, workflow: {name: in, steps: [{id: b, type: subworkflow, path: child.yaml}]}}\n"
    )
    flow = load_workflow(folder / "flow.yaml")
    assert flow.steps[0].steps[0].workflow.name == "child"
    assert flow.steps[1].workflow.steps[0].workflow is flow.steps[0].steps[0].workflow
    assert refused(folder / "child.yaml") == ["child.yaml:2: steps[0].tool: there is no tool 'look'"]


def test_what_is_wrong_in_an_included_file_is_reported_once_with_its_own_name_and_line(folder):
    (folder / "child.yaml").write_text(CHILD.replace("{state.question}", "{state.qestion}"))
    (folder / "flow.yaml").write_text(
        include("child.yaml", "child.yaml") + "  - {id: a, type: llm_call, prompt: '{x}'}\n"
    )
    assert refused(folder / "flow.yaml") == [
        "flow.yaml:5: steps[2].prompt: there is no x",
        "child.yaml:4: steps[0].prompt: no step before this one writes state.qestion, and 'state' does not declare it",
    ]


def test_what_goes_in_and_out_of_a_file_is_checked(folder):
    (folder / "child.yaml").write_text(CHILD)
    step = "{id: s, type: subworkflow, path: child.yaml, input: {qestion: x}, outputs: {x: anser}}"
    (folder / "flow.yaml").write_text(f"name: flow\nsteps:\n  - {step}\n")
    assert refused(folder / "flow.yaml") == [
        "flow.yaml:3: steps[0].input.qestion: the sub-workflow declares no state 'qestion'",
        "flow.yaml:3: steps[0].outputs.x: the sub-workflow has no state 'anser'",
    ]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside.yaml", "the path '../outside.yaml' leaves the folder of the workflow"),
        ("a/../../outside.yaml", "the path 'a/../../outside.yaml' leaves the folder of the workflow"),
        ("/etc/passwd", "the path '/etc/passwd' is not relative to this file"),
        ("link.yaml", "the path 'link.yaml' leaves the folder of the workflow"),
        ("linked/outside.yaml", "the path 'linked/outside.yaml' leaves the folder of the workflow"),
        ("none.yaml", "there is no file 'none.yaml'"),
        (".", "there is no file '.'"),
        ("x" * 5000, f"the path '{'x' * 59}…' cannot be resolved"),
    ],
)
def test_a_path_that_leaves_the_folder_or_leads_nowhere_is_refused(folder, path, reason):
    (folder / "link.yaml").symlink_to(folder.parent / "outside.yaml")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "flow.yaml").write_text(include(path))
    assert refused(folder / "flow.yaml") == [f"flow.yaml:3: steps[0].path: {reason}"]


@pytest.mark.parametrize(
    ("there", "named"), [("flow.yaml", "flow.yml"), ("flow.yml", "flow.yaml"), ("flow.yaml", "flow")]
)
def test_a_file_that_is_not_there_is_not_the_one_with_the_other_ending(folder, there, named):
    (folder / there).write_text(CHILD)
    with pytest.raises(WorkflowError, match="No such file or directory") as caught:
        load_workflow(folder / named)
    assert caught.value.hint == f"did you mean {str(folder / there)!r}?"


def test_a_path_with_a_null_byte_is_refused(folder):
    (folder / "flow.yaml").write_text(include("x").replace("'x'", '"a\\0b"'))
    [complaint] = refused(folder / "flow.yaml")
    assert complaint.startswith("flow.yaml:3: steps[0].path: the path 'a\\x00b' cannot be resolved")


def test_a_workflow_that_includes_itself_is_refused(folder):
    (folder / "flow.yaml").write_text(include("flow.yaml"))
    assert refused(folder / "flow.yaml") == [
        "flow.yaml:3: steps[0].path: the workflow includes itself: flow.yaml → flow.yaml"
    ]


def test_a_circle_of_files_is_refused_where_it_closes(folder):
    (folder / "a.yaml").write_text(include("b.yaml"))
    (folder / "b.yaml").write_text(include("alias.yaml"))
    (folder / "alias.yaml").symlink_to(folder / "a.yaml")
    assert refused(folder / "a.yaml") == [
        "b.yaml:3: steps[0].path: the workflow includes itself: a.yaml → b.yaml → a.yaml"
    ]


def test_files_nest_eight_deep_at_most(folder):
    for n in range(9):
        (folder / f"{n}.yaml").write_text(include(f"{n + 1}.yaml"))
    (folder / "9.yaml").write_text(CHILD)
    assert load_workflow(folder / "1.yaml")
    assert refused(folder / "0.yaml") == ["8.yaml:3: steps[0].path: sub-workflows are nested more than 8 deep"]


def test_files_that_include_each_other_a_hundred_times_are_read_once(folder):
    for n in range(7):
        (folder / f"{n}.yaml").write_text(include(*[f"{n + 1}.yaml"] * 100))
    (folder / "7.yaml").write_text(f"name: last\nsteps:\n  - {call('a')}\n")
    start_s = time.perf_counter()
    assert len(load_workflow(folder / "0.yaml").steps) == 100
    assert time.perf_counter() - start_s < 30.0


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


def test_a_recording_is_called_one():
    with pytest.raises(WorkflowError) as caught:
        read_definition({"_version": 2, "_meta": {}, "classify": {"content": "question"}})
    assert [problem.reason for problem in caught.value.problems] == ["this is a recording, not a workflow"]


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


def tool_step(fields):
    return f"name: f\nsteps:\n  - {{id: look, type: tool, {fields}}}\n"


def test_a_tool_step_may_have_the_names_of_agentloom():
    flow = parse_workflow(
        tool_step("tool_name: get, tool_args: {city: '{state.city}', n: 1}").replace(
            "steps:", "state: {city: Oslo}\nsteps:"
        ),
        tools={"get": lambda city, n: city},
    )
    assert (flow.steps[0].tool, flow.steps[0].args) == ("get", {"city": "{state.city}", "n": 1})


def test_an_argument_that_agentloom_would_take_from_the_state_is_no_text():
    with pytest.raises(WorkflowError, match="unknown field 'tool_args'"):
        parse_workflow(tool_step("tool_name: get, tool_args: {city: state.city}"), tools={"get": lambda city: city})


def test_both_names_of_a_field_are_too_many():
    with pytest.raises(WorkflowError, match="unknown field 'tool_name'"):
        parse_workflow(tool_step("tool: get, tool_name: get"), tools={"get": lambda: 1})
