"""What a workflow means: every complaint, with its line."""

# ruff: noqa: E501 - a complaint is read best on one line

import re

import pytest

from offbook.errors import WorkflowError
from offbook.workflow import parse_workflow, validate
from offbook.workflow.file.load import read_definition
from tests.workflow.samples import EXAMPLE, call, problems_of, workflow

TOOLS = "tools: {look: 'm:look', edit: 'm:edit', done: 'm:done'}"
LOOP = "{id: l, type: loop, %s, steps: [%s]}"
CHILD = (
    "{name: child, state: {question: ''}, steps: [{id: c, type: llm_call, prompt: '{state.question}', output: answer}]}"
)


def router(*conditions, default="", step_id="r", after=""):
    listed = ", ".join(f'{{expression: "{expression}", target: {target}}}' for expression, target in conditions)
    return f"{{id: {step_id}, type: router, conditions: [{listed}]{default and f', default: {default}'}{after and f', depends_on: {after}'}}}"


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ([call("a"), call("a")], "5:6: steps[1].id: duplicate id 'a'"),
        ([call("a"), LOOP % ("over: state.items", call("a"))], "5:53: steps[1].steps[0].id: duplicate id 'a'"),
        ([call("_a")], "4:6: steps[0].id: the id '_a' starts with '_', which marks metadata | a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"),
        ([call('"a/../b"')], "4:6: steps[0].id: the id 'a/../b' leads out of its folder | a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"),
        ([call("fetch"), call("b", depends_on="[fech]")], "5:57: steps[1].depends_on[0]: there is no step 'fech' | did you mean 'fetch'?"),
        ([call("a", depends_on="[zzz]"), call("b")], "4:57: steps[0].depends_on[0]: there is no step 'zzz' | other steps here: b"),
        ([call("out"), LOOP % ("over: state.items", call("in", depends_on="[out]"))], "5:105: steps[1].steps[0].depends_on[0]: there is no step 'out' | other steps here: none"),
        ([call("a", depends_on="[b]"), call("b", depends_on="[a]")], "4:44: steps[0].depends_on: the steps form a cycle: a → b → a"),
        ([call("a", depends_on="[a]")], "4:44: steps[0].depends_on: the steps form a cycle: a → a"),
        ([call("a"), router(("state.text == 'x'", "answr")), call("answer")], "5:74: steps[1].conditions[0].target: there is no step 'answr' | did you mean 'answer'?"),
        ([call("a"), router(("state.text == 'x'", "a"), default="zzz")], "5:87: steps[1].default: there is no step 'zzz' | other steps here: a"),
        ([router(("state.text == 'x'", "r"))], "4:74: steps[0].conditions[0].target: the router is its own target"),
        ([call("a"), router(("state.text == 'x'", "a"), after="[a]")], "4:5: steps[0].depends_on: the steps form a cycle: a → r → a"),
        ([router()], "4:5: steps[0]: the router has no branch that can be taken | give it conditions or a default"),
        ([router(("false", "a")), call("a")], "4:5: steps[0]: the router has no branch that can be taken | give it conditions or a default"),
        ([router(("false", "a"), default="b"), call("a"), call("b")], "4:40: steps[0].conditions[0]: this branch is never taken: its condition is always false"),
        ([router(("true", "a"), ("state.text == ''", "b")), call("a"), call("b")], "4:73: steps[0].conditions[1]: this branch is never taken: a condition before it is always true"),
        ([router(("true", "a"), default="b"), call("a"), call("b")], "4:74: steps[0].default: this branch is never taken: a condition before it is always true"),
        ([call("a", output="x"), call("b", output="x")], "5:44: steps[1].output: the step 'a' writes 'x' too, and the order of the two is undefined | let one depend on the other, or write to another key than 'x'"),
        ([call("a", output="x"), call("b", output="x.y")], "5:44: steps[1].output: the step 'a' writes 'x' too, and the order of the two is undefined | let one depend on the other, or write to another key than 'x.y'"),
        ([call("a", output="x"), LOOP % ("until: 'true'", call("b", output="x"))], "5:87: steps[1].steps[0].output: the step 'a' writes 'x' too, and the order of the two is undefined | let one depend on the other, or write to another key than 'x'"),
        ([LOOP % ("over: state.items", call("a", output="x") + ", " + call("b", output="x"))], "4:142: steps[0].steps[1].output: the step 'a' writes 'x' too, and the order of the two is undefined | let one depend on the other, or write to another key than 'x'"),
        (["{id: a, type: llm_call, prompt: '{state.txt}'}"], "4:29: steps[0].prompt: no step before this one writes state.txt, and 'state' does not declare it | did you mean 'text'?"),
        ([call("a", output="x"), "{id: b, type: llm_call, prompt: '{state.x}'}"], "5:29: steps[1].prompt: no step before this one writes state.x, and 'state' does not declare it | 'a' writes it: add it to depends_on"),
        (["{id: a, type: llm_call, prompt: '{state.x}'}", call("b", output="x", depends_on="[a]")], "4:29: steps[0].prompt: no step before this one writes state.x, and 'state' does not declare it | keys so far: items, text"),
        (["{id: a, type: llm_call, prompt: 'About {{ state.text }}'}"], "4:29: steps[0].prompt: '{{ state.text }}' is not a placeholder, and would be sent unchanged | write {state.text}; {{ is a literal brace"),
        (["{id: a, type: llm_call, system_prompt: '{state.zzz}', prompt: x}"], "4:29: steps[0].system_prompt: no step before this one writes state.zzz, and 'state' does not declare it | keys so far: items, text"),
        (["{id: a, type: llm_call, prompt: '{text}'}"], "4:29: steps[0].prompt: there is no text | names: state, state.items, state.text"),
        (["{id: a, type: llm_call, prompt: '{item.x}'}"], "4:29: steps[0].prompt: there is no item.x | names: state, state.items, state.text"),
        (["{id: a, type: llm_call, prompt: 'give {\"a\": 1}'}"], "4:29: steps[0].prompt: '{\"a\": 1}' is not a path | a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        (["{id: a, type: tool, tool: a, args: {x: [1, {y: '{state.zzz}'}]}}"], "4:49: steps[0].args.x[1].y: no step before this one writes state.zzz, and 'state' does not declare it | keys so far: items, text"),
        ([router(("state.txt == 'x'", "a")), call("a")], "4:41: steps[0].conditions[0].expression: no step before this one writes state.txt, and 'state' does not declare it | did you mean 'text'?"),
        ([router(("item.x == 'x'", "a")), call("a")], "4:41: steps[0].conditions[0].expression: there is no name 'item' | did you mean 'state.item'?"),
        ([router(("state.text = 'x'", "a")), call("a")], "4:41: steps[0].conditions[0].expression: unexpected '=' at character 12 | write == to compare"),
        ([router(("state.__class__ == 'x'", "a")), call("a")], "4:41: steps[0].conditions[0].expression: '__class__' starts with '_', which is not allowed"),
        ([LOOP % ("over: state.itms", call("a"))], "4:25: steps[0].over: no step before this one writes state.itms, and 'state' does not declare it | did you mean 'items'?"),
        ([LOOP % ("until: state.done", call("a", output="don"))], "4:25: steps[0].until: no step before this one writes state.done, and 'state' does not declare it | did you mean 'don'?"),
        ([LOOP % ("until: item.done", call("a"))], "4:25: steps[0].until: there is no name 'item' | did you mean 'state.item'?"),
        ([LOOP % ("over: state.items, collect: anser, output: all", call("a", output="answer"))], "4:44: steps[0].collect: no step of the loop writes 'anser' | did you mean 'answer'?"),
        ([LOOP % ("over: state.items, as: doc", "{id: a, type: llm_call, prompt: '{item}'}")], "4:85: steps[0].steps[0].prompt: there is no item | names: doc, index, state, state.items, state.text"),
        ([LOOP % ("over: state.items", call("a", output="x")), "{id: b, type: llm_call, depends_on: [l], prompt: '{state.x}'}"], "5:46: steps[1].prompt: no step before this one writes state.x, and 'state' does not declare it | keys so far: items, text"),
        ([f"{{id: s, type: subworkflow, workflow: {CHILD}, input: {{qestion: x}}}}"], "4:166: steps[0].input.qestion: the sub-workflow declares no state 'qestion' | did you mean 'question'?"),
        ([f"{{id: s, type: subworkflow, workflow: {CHILD}, outputs: {{x: anser}}}}"], "4:168: steps[0].outputs.x: the sub-workflow has no state 'anser' | did you mean 'answer'?"),
        ([f"{{id: s, type: subworkflow, workflow: {CHILD.replace('{state.q', '{state.xq')}}}"], "4:111: steps[0].workflow.steps[0].prompt: no step before this one writes state.xquestion, and 'state' does not declare it | did you mean 'question'?"),
        (["{id: s, type: subworkflow, path: other.yaml}"], "4:32: steps[0].path: a relative path needs a folder: load the workflow from a file"),
        (["{id: a, type: tool, tool: zzz}"], "4:25: steps[0].tool: there is no tool 'zzz' | tools: none"),
    ],
)  # fmt: skip
def test_a_workflow_that_makes_no_sense_is_reported_by_place_line_and_fix(steps, complaint):
    assert complaint in problems_of(workflow(*steps))
    line, column, place = re.match(r"(\d+):(\d+): ([^:]*)", complaint).groups()
    key = place.rpartition(".")[2]
    assert (
        key.endswith("]")
        or key == "depends_on"
        or workflow(*steps).splitlines()[int(line) - 1][int(column) - 1 :].startswith(key)
    )


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ("tools: [lok], terminal_tool: done", "4:45: steps[0].tools[0]: there is no tool 'lok' | did you mean 'look'?"),
        ("tools: [look], terminal_tool: dne", "4:52: steps[0].terminal_tool[0]: there is no tool 'dne' | did you mean 'done'?"),
        ("tools: [look], terminal_tool: done, required_steps: [edit]", "4:90: steps[0].required_steps[0]: 'edit' is not a tool of this step | its tools: done, look"),
        ("tools: [look], terminal_tool: done, prerequisites: {edit: [look]}", "4:89: steps[0].prerequisites.edit: 'edit' is not a tool of this step | its tools: done, look"),
        ("tools: [look], terminal_tool: done, prerequisites: {look: [{tool: edit}]}", "4:96: steps[0].prerequisites.look[0]: 'edit' is not a tool of this step | its tools: done, look"),
    ],
)  # fmt: skip
def test_an_agent_has_the_tools_that_it_names(fields, complaint):
    assert problems_of(workflow(f"{{id: a, type: agent, prompt: x, {fields}}}", head=TOOLS)) == [complaint]


@pytest.mark.parametrize(
    "steps",
    [
        [call("a", output="x"), "{id: b, type: llm_call, prompt: '{state.x.y.0}', depends_on: [a], output: x}"],
        ["{id: a, type: llm_call, prompt: '{{{state.text}}} {{ other.text }} {{text}}'}"],
        [call("a", output="x.y"), "{id: b, type: llm_call, prompt: '{state.x}', depends_on: [a]}"],
        [call("a", output="x.y"), call("b", output="x.z")],
        [router(("state.text == 'x'", "a"), default="b"), call("a", output="x"), call("b", output="x")],
        [router(("state.text == 'x'", "a"), default="b"), call("a", output="x"), call("b", output="x"),
         "{id: c, type: llm_call, prompt: '{state.x}', depends_on: [a, b]}"],
        [LOOP % ("over: state.items", "{id: a, type: llm_call, prompt: '{item} {index} {state.text}', output: x}, {id: b, type: llm_call, prompt: '{state.x}', depends_on: [a]}")],
        [LOOP % ("over: state.items, collect: x.y, output: all", call("a", output="x"))],
        [LOOP % ("over: state.items", LOOP.replace("id: l", "id: m") % ("over: item.rows, as: row", "{id: a, type: llm_call, prompt: '{item} {row}'}"))],
        [LOOP % ("until: state.x == 'done' && index < 5", call("a", output="x")), "{id: b, type: llm_call, prompt: '{state.x}', depends_on: [l]}"],
        [f"{{id: s, type: subworkflow, workflow: {CHILD}, input: {{question: '{{state.text}}'}}, outputs: {{reply: answer.text}}}}",
         "{id: b, type: llm_call, prompt: '{state.reply}', depends_on: [s]}"],
        [f"{{id: c, type: subworkflow, workflow: {CHILD}, output: all}}"],
    ],
)  # fmt: skip
def test_a_workflow_that_makes_sense_is_let_through(steps):
    flow = parse_workflow(workflow(*steps))
    validate(flow)


def test_an_agents_last_tool_need_not_be_among_its_others():
    step = "{id: a, type: agent, prompt: x, tools: [look], terminal_tool: done, required_steps: [look, done]}"
    assert parse_workflow(workflow(step, head=TOOLS))


def test_tools_may_also_come_from_whoever_runs_the_workflow():
    text = workflow("{id: a, type: tool, tool: given}")
    assert problems_of(text) == ["4:25: steps[0].tool: there is no tool 'given' | tools: none"]
    validate(parse_workflow(text, tools=["given"]), tools=["given"])


def test_a_sub_workflow_may_call_the_tools_of_the_workflow_around_it():
    child = "{name: child, steps: [{id: c, type: tool, tool: look}]}"
    assert parse_workflow(workflow(f"{{id: s, type: subworkflow, workflow: {child}}}", head=TOOLS))


def test_all_that_makes_no_sense_is_reported_at_once_in_the_order_of_the_file():
    text = EXAMPLE.replace("{state.user_input}", "{state.user_inptu}").replace("[classify]", "[clasify]")
    text = text.replace("terminal_tool: reply", "terminal_tool: repl")
    assert [complaint.partition(":")[0] for complaint in problems_of(text)] == ["10", "14", "21", "22", "24"]


def test_one_wrong_name_is_not_reported_as_many_problems():
    assert problems_of(EXAMPLE.replace("[classify]", "[clasify]")) == [
        "14:18: steps[1].depends_on[0]: there is no step 'clasify' | did you mean 'classify'?"
    ]


def test_the_message_names_file_line_place_and_fix():
    with pytest.raises(WorkflowError) as caught:
        parse_workflow(EXAMPLE.replace("system_prompt", "sytem_prompt"), source="flow.yaml")
    message = (
        "flow.yaml:9:5: steps[0].sytem_prompt: unknown field 'sytem_prompt'\n  hint: did you mean 'system_prompt'?"
    )
    assert str(caught.value) == message
    error = caught.value
    assert error.source == "flow.yaml"
    assert error.place == "steps[0].sytem_prompt"
    assert error.hint == "did you mean 'system_prompt'?"
    assert error.problems[0].line == 9
    assert error.problems[0].column == 5


def test_a_definition_made_in_python_is_checked_without_lines():
    step = {"id": "a", "type": "llm_call", "prompt": "{state.x}"}
    child = {"id": "s", "type": "subworkflow", "path": "other.yaml"}
    loop = {"id": "l", "type": "loop", "over": "state.x", "steps": [child | {"id": "t"}]}
    flow = read_definition({"name": "flow", "steps": [step, child, loop]})
    with pytest.raises(WorkflowError) as caught:
        validate(flow)
    assert [str(problem).partition("\n")[0] for problem in caught.value.problems] == [
        "steps[0].prompt: no step before this one writes state.x, and 'state' does not declare it",
        "steps[2].over: no step before this one writes state.x, and 'state' does not declare it",
        "steps[1].path: the sub-workflow is not loaded",
        "steps[2].steps[0].path: the sub-workflow is not loaded",
    ]


def test_sub_workflows_in_place_nest_eight_deep_at_most():
    flow = {"name": "flow", "steps": [{"id": "a", "type": "llm_call", "prompt": "x"}]}
    for _ in range(8):
        flow = {"name": "flow", "steps": [{"id": "s", "type": "subworkflow", "workflow": flow}]}
    validate(read_definition(flow))
    flow = {"name": "flow", "steps": [{"id": "s", "type": "subworkflow", "workflow": flow}]}
    with pytest.raises(WorkflowError, match="sub-workflows are nested more than 8 deep"):
        validate(read_definition(flow))
