"""The shape of a workflow file: every complaint names the place, the line and, if it can, the fix."""

# ruff: noqa: E501 - a complaint is read best on one line

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import WorkflowError
from offbook.gateway.retry import RetryPolicy
from offbook.workflow import parse_workflow, workflow_json_schema
from offbook.workflow.file.load import read_definition
from offbook.workflow.file.problems import find_mismatches
from offbook.workflow.file.schema import WorkflowDefinition
from tests.workflow.samples import EXAMPLE, call, problems_of, workflow


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("system_prompt:", "sytem_prompt:", "9:5: steps[0].sytem_prompt: unknown field 'sytem_prompt' | did you mean 'system_prompt'?"),
        ("name: classify", "nam: classify", "1:1: nam: unknown field 'nam' | did you mean 'name'?"),
        ("budget_usd", "buget_usd", "3:48: config.buget_usd: unknown field 'buget_usd' | did you mean 'budget_usd'?"),
        ("target: answer", "taget: answer", "15:69: steps[1].conditions[0].taget: unknown field 'taget' | did you mean 'target'?"),
        ("provider: openai", "provider: openia", "3:10: config.provider: unknown value 'openia' | did you mean 'openai'?"),
        ("type: agent", "type: agnt", "18:5: steps[2].type: unknown type 'agnt' | did you mean 'agent'?"),
        ("    type: agent\n", "", "17:5: steps[2]: the field 'type' is missing | types: agent, llm_call, loop, router, subworkflow, tool"),
        ("type: agent", "typ: agent", "18:5: steps[2].typ: unknown field 'typ' | did you mean 'type'?"),
        ('    prompt: "Answer: {state.user_input}"\n', "", "17:5: steps[2]: the field 'prompt' is missing"),
        ("depends_on: [classify]", "depends_on: classify", "14:5: steps[1].depends_on: expected a list, got 'classify'"),
        ("default: general_response", "default: 5", "16:5: steps[1].default: expected a string, got 5"),
        ("default: general_response", "stream: yes", "16:5: steps[1].stream: expected true or false, got 'yes' | write true or false"),
        ("default: general_response", "stream: 1", "16:5: steps[1].stream: expected true or false, got 1"),
        ("default: general_response", "timeout: 0", "16:5: steps[1].timeout: expected more than 0, got 0"),
        ("default: general_response", "timeout: true", "16:5: steps[1].timeout: expected a number, got true"),
        ("default: general_response", "retry: 3", "16:5: steps[1].retry: expected a mapping, got 3"),
        ("default: general_response", "retry: {max_attempts: 3}", "16:13: steps[1].retry.max_attempts: unknown field 'max_attempts' | fields: backoff_s, jitter, max_backoff_s, max_retries, max_retry_after_s, multiplier, seed, statuses"),
        ("default: general_response", "retry: {jitter: 2}", "16:13: steps[1].retry.jitter: expected at most 1, got 2"),
        ("default: general_response", "on_failure: skip", "16:5: steps[1].on_failure: unknown value 'skip' | one of: continue, skip_downstream"),
        ("default: general_response", "output: _secret", "16:5: steps[1].output: expected a path of letters, digits and '_' like 'answer' or 'answer.text', got '_secret'"),
        ("max_concurrent_steps: 10", "max_concurrent_steps: 1.5", "3:66: config.max_concurrent_steps: expected an integer, got 1.5"),
        ("max_concurrent_steps: 10", "temperature: 2.5", "3:66: config.temperature: expected at most 2, got 2.5"),
        ('"my_tools:reply"', "my_tools.reply", "4:46: tools.reply: expected 'module:function', got 'my_tools.reply'"),
        ('"my_tools:reply"', "[x]", "4:46: tools.reply: expected a mapping, got a list"),
        ('"my_tools:reply"', "{builtin: http_gt}", "4:54: tools.reply.builtin: unknown builtin 'http_gt' | did you mean 'http_get'?"),
        ('"my_tools:reply"', "{builtin: shell}", "4:46: tools.reply: the field 'allow' is missing"),
        ('"my_tools:reply"', "{builtin: shell, allow: [ls], root: .}", "4:83: tools.reply.root: unknown field 'root' | fields: allow, builtin, timeout_s"),
        ('"my_tools:reply"', "{builtin: http_get, allow: []}", "4:73: tools.reply.allow: expected a value, got an empty one"),
        ("terminal_tool: reply", "terminal_tool: {a: b}", "21:5: steps[2].terminal_tool: expected a list, got a mapping"),
        ("state: {user_input", 'state: {"a\\n": 1, user_input', "5:9: state.a\n: expected a name of letters, digits and '_', got 'a\\n'"),
        ("state: {user_input", "state: {__class__: 1, user_input", "5:9: state.__class__: expected a name of letters, digits and '_', got '__class__'"),
        ("steps:\n", "steps: []\nx:\n", "6:1: steps: expected a value, got an empty one"),
    ],
)  # fmt: skip
def test_a_misshapen_file_is_reported_by_place_line_and_fix(old, new, complaint):
    assert old in EXAMPLE
    assert complaint in problems_of(EXAMPLE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ("{id: a, type: subworkflow}", "4:5: steps[0]: expected either 'path' or 'workflow'"),
        ("{id: a, type: loop, over: state.items, until: 'true', steps: [{id: b, type: llm_call, prompt: x}]}", "4:5: steps[0]: expected either 'over' or 'until'"),
        ("{id: a, type: loop, over: state.items, output: o, steps: [{id: b, type: llm_call, prompt: x}]}", "4:5: steps[0]: expected both 'collect' and 'output', or neither"),
        ("{id: a, type: loop, over: state.items, as: state, steps: [{id: b, type: llm_call, prompt: x}]}", "4:5: steps[0]: the name 'state' in 'as' is reserved"),
        ("{id: a, type: loop, over: state.items, as: _x, steps: [{id: b, type: llm_call, prompt: x}]}", "4:44: steps[0].as: expected a name of letters, digits and '_', got '_x'"),
        ("{id: a, type: loop, over: state.items, steps: [{id: b, type: tol}]}", "4:60: steps[0].steps[0].type: unknown type 'tol' | did you mean 'tool'?"),
        ("{id: a, type: loop, over: state.items, steps: []}", "4:44: steps[0].steps: expected a value, got an empty one"),
        ("{id: a, type: tool, tool: tool, arg: 1}", "4:37: steps[0].arg: unknown field 'arg' | did you mean 'args'?"),
        ("{id: a, type: tool, tool: 5}", "4:25: steps[0].tool: expected a string, got 5"),
        ("{id: a, type: llm_call, prompt: {state.text}}", "4:29: steps[0].prompt: expected a string, got a mapping | quote it: \"{state.text}\""),
        ("{id: a, type: llm_call, prompt: {a: [1]}}", "4:29: steps[0].prompt: expected a string, got a mapping"),
        ("hello", "4:5: steps[0]: expected a mapping, got 'hello'"),
    ],
)  # fmt: skip
def test_a_misshapen_step_is_reported_by_place_line_and_fix(step, complaint):
    assert complaint in problems_of(workflow(step))


def test_all_that_is_misshapen_is_reported_at_once_in_the_order_of_the_file():
    text = EXAMPLE.replace("system_prompt:", "sytem_prompt:").replace("type: agent", "type: agnt").replace("0.50", "-1")
    assert [complaint.partition(":")[0] for complaint in problems_of(text)] == ["3", "9", "18"]


def test_a_workflow_has_twenty_thousand_steps_at_most():
    steps = [{"id": f"s{n}", "type": "llm_call", "prompt": "x"} for n in range(20_001)]
    assert read_definition({"name": "flow", "steps": steps[:-1]})
    with pytest.raises(WorkflowError, match="steps: expected at most 20000 elements, got 20001"):
        read_definition({"name": "flow", "steps": steps})


def test_a_value_that_is_long_is_cut():
    [complaint] = problems_of(workflow(call("a", stream="x" * 500)))
    assert len(complaint) < 130


def test_a_retry_is_a_policy_in_the_same_words():
    flow = parse_workflow(workflow(call("a", retry="{max_retries: 5, backoff_s: 1, statuses: [500]}")))
    assert flow.steps[0].retry.policy() == RetryPolicy(max_retries=5, backoff_s=1, statuses=frozenset({500}))
    assert parse_workflow(workflow(call("a", retry="{}"))).steps[0].retry.policy() == RetryPolicy()


def test_prerequisites_and_terminal_tools_may_be_names_or_lists():
    tools = "tools: {look: 'm:look', edit: 'm:edit', done: 'm:done', give_up: 'm:give_up'}"
    step = (
        "{id: a, type: agent, prompt: x, tools: [look, edit], terminal_tool: [done, give_up], required_steps: [look],"
        " prerequisites: {edit: [look, {tool: look, match_arg: path}]}}"
    )
    agent = parse_workflow(workflow(step, head=tools)).steps[0]
    assert agent.terminal_tool == ("done", "give_up")
    assert [(rule.tool, rule.match_arg) for rule in agent.prerequisites["edit"]] == [("look", None), ("look", "path")]


def test_builtin_tools_have_their_options():
    tools = (
        "tools: {fetch: {builtin: http_get, allow: [example.com]}, read: {builtin: read_file, root: ./data},"
        " sh: {builtin: shell, allow: [ls, wc], timeout_s: 5}}"
    )
    flow = parse_workflow(workflow("{id: a, type: tool, tool: fetch, args: {url: 'https://example.com'}}", head=tools))
    assert flow.tools["fetch"].allow == ("example.com",)
    assert flow.tools["read"].root == "./data"
    assert flow.tools["sh"].allow == ("ls", "wc")
    assert flow.tools["sh"].timeout_s == 5


def test_a_definition_never_changes_and_can_be_written_and_read_again():
    flow = parse_workflow(EXAMPLE)
    with pytest.raises(AttributeError):
        flow.name = "other"
    assert read_definition(msgspec.to_builtins(flow)) == flow


def test_editors_get_a_schema_that_distinguishes_steps():
    schema = workflow_json_schema()
    assert schema["$defs"]["WorkflowDefinition"]["required"] == ["name", "steps"]
    assert {"LlmCallStep", "AgentStep", "ToolStep", "RouterStep", "SubworkflowStep", "LoopStep"} <= schema[
        "$defs"
    ].keys()
    assert "as" in schema["$defs"]["LoopStep"]["properties"]
    assert schema["$defs"]["AgentStep"]["additionalProperties"] is False


DOCUMENT = {
    "name": "flow",
    "config": {"provider": "openai", "temperature": 1, "fallbacks": [{"provider": "mock", "model": "m"}], "retry": {}},
    "tools": {"say": {"builtin": "function", "function": "m:say"}, "sh": {"builtin": "shell", "allow": ["ls"]}},
    "state": {"text": "hi"},
    "steps": [
        {"type": "llm_call", "id": "a", "prompt": "x", "json": True, "timeout": 1.5, "output": "a.b"},
        {"type": "agent", "id": "b", "prompt": "x", "terminal_tool": ["say"], "prerequisites": {"s": [{"tool": "x"}]}},
        {"type": "tool", "id": "c", "tool": "say", "args": {"text": "x"}, "on_failure": "continue"},
        {"type": "router", "id": "d", "conditions": [{"expression": "true", "target": "e"}], "default": None},
        {"type": "loop", "id": "e", "over": "state.x", "as": "x", "steps": [{"type": "tool", "id": "f", "tool": "t"}]},
        {"type": "subworkflow", "id": "g", "path": "other.yaml", "outputs": {"a": "b.c"}},
    ],
}  # fmt: skip
NUMBERS, TEXTS = [0, -1, 3, 2.5, 10**400], ["", "x", "two words", "mock", "tool"]
VALUES = st.sampled_from([None, True, *NUMBERS, *TEXTS, [], ["x"], {}, {"a": 1}])


def places_in(value, path=()):
    """Every path in a document, with the empty one."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, child in inner:
        yield from places_in(child, (*path, part))


def changed(value, path, new):
    """The document with another value at a path, or another key there."""
    if not path:
        return new
    part, *rest = path
    if isinstance(value, list):
        return [changed(child, rest, new) if index == part else child for index, child in enumerate(value)]
    return value | {part: changed(value[part], rest, new)}


def without(value, path):
    part, *rest = path
    if rest:
        return changed(value, (part,), without(value[part], rest))
    return {key: child for key, child in value.items() if key != part} if isinstance(value, dict) else value[1:]


PLACES = [place for place in places_in(DOCUMENT) if place]


def is_refused(document):
    try:
        msgspec.convert(document, WorkflowDefinition)
    except msgspec.ValidationError:
        return True
    return False


def test_a_document_that_fits_has_no_mismatch():
    assert not is_refused(DOCUMENT)
    assert list(find_mismatches(DOCUMENT, WorkflowDefinition)) == []


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2, unique_by=lambda change: change[0]))
def test_a_document_has_a_mismatch_exactly_if_msgspec_refuses_it(changes):
    document = DOCUMENT
    for place, value in changes:
        if place in set(places_in(document)):
            document = changed(document, place, value)
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_missing_part_is_a_mismatch_exactly_if_msgspec_needs_it(place):
    document = without(DOCUMENT, place)
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)


@pytest.mark.parametrize("place", [place for place in PLACES if isinstance(place[-1], str)], ids=str)
def test_a_renamed_part_is_a_mismatch_exactly_if_msgspec_refuses_it(place):
    *around, name = place
    document = without(DOCUMENT, place)
    inside = document
    for part in around:
        inside = inside[part]
    document = changed(document, tuple(around), inside | {f"{name}x": "x"})
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)
