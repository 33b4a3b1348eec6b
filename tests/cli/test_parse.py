"""Faults that a command line asks for: they strike, or the command says so."""

import json

import pytest

from offbook.cli.parse import parse_state
from offbook.errors import InputError
from tests.cli import flows

NESTED = """\
name: nested
config: {provider: mock, model: m}
state: {items: [1, 2]}
tools: {count: "counting:count"}
steps:
  - {id: count, type: tool, tool: count}
  - {id: each, type: loop, over: state.items, steps: [{id: ask, type: llm_call, prompt: "about {item}"}]}
  - id: sub
    type: subworkflow
    workflow: {name: inner, steps: [{id: say, type: llm_call, prompt: Hi}]}
"""


@pytest.fixture
def nested(write):
    write("counting.py", "def count() -> int:\n    return 7\n")
    return write("nested.yaml", NESTED)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("step=helo call=2: timeout", "there is no step 'helo'\n  hint: did you mean 'hello'?"),
        ("step=xyz: timeout", "hint: steps: bye, hello"),
        ("workflow=great: timeout", "the workflow is not 'great'\n  hint: it is 'greet'"),
    ],
)
@pytest.mark.parametrize("command", [["run", "--mock-responses"], ["replay", "--recording"]], ids=["run", "replay"])
def test_a_fault_at_what_is_not_in_the_workflow_is_refused_before_anything_runs(run, greet, command, fault, said):
    name, option = command
    code, out, err = run(name, greet, option, "run.json", "--fault", fault)
    assert code == 2
    assert out == ""
    assert fault in err
    assert said in err


@pytest.mark.parametrize(("step", "kind"), [("count", "tool"), ("each", "loop"), ("sub", "subworkflow")])
def test_a_fault_at_a_step_that_asks_no_model_is_refused_with_those_that_do(run, nested, step, kind):
    code, _, err = run("run", nested, "--fault", f"step={step}: timeout")
    assert code == 2
    assert f"the step '{step}' has no model: it is a {kind} step" in err
    assert "steps with a model: ask, sub.say" in err
    assert ("'tool=count: tool_error' fails its tool" in err) == (kind == "tool")


def test_a_plan_in_a_file_is_checked_too(run, greet, write):
    plan = {"faults": [{"at": {"step_id": "helo"}, "fault": {"type": "timeout"}}]}
    write("plan.json", json.dumps(plan))
    code, _, err = run("replay", greet, "--recording", "run.json", "--plan", "plan.json")
    assert code == 2
    assert "plan.json: faults[0].at.step: there is no step 'helo'" in err


@pytest.mark.parametrize("fault", ["step=ask call=2 attempt=1: timeout", "step=sub.say attempt=1: timeout"])
def test_steps_in_loops_and_sub_workflows_are_named_as_recordings_name_them(run, nested, fault):
    code, out, _ = run("run", nested, "--fault", fault)
    assert code == 0
    assert "1 fault fired" in out


TWO_CALLS = "the run made 2 model calls; the last place is 'call=2'"


@pytest.mark.parametrize("option", [[], ["--quiet"]])
def test_a_fault_that_never_fired_is_reported_and_the_run_is_no_success(run, greet, option):
    faults = ["--fault", "call=99: timeout", "--fault", "step=bye attempt=1: timeout"]
    code, _, err = run("replay", greet, "--recording", "run.json", *faults, *option)
    assert code == 1
    assert err == f"fault 'call=99: timeout' never fired: {TWO_CALLS}\n"


def test_as_json_the_faults_that_fired_and_those_that_did_not_are_in_the_result(run, greet):
    faults = ["--fault", "call=99: timeout", "--fault", "step=bye attempt=1: timeout"]
    code, out, err = run("run", greet, "--mock-responses", "run.json", "--json", *faults)
    assert code == 1
    assert json.loads(out)["faults"] == {
        "fired": ["workflow=greet step=bye call=1 attempt=1: timeout"],
        "unfired": ["call=99: timeout"],
        "reasons": {"call=99: timeout": TWO_CALLS},
    }
    assert "never fired" in err


def test_a_line_that_one_before_it_hides_never_fires(run, greet):
    faults = ["--fault", "everywhere: http_error 400", "--fault", "step=hello: timeout"]
    _, _, err = run("run", greet, "--mock-responses", "run.json", *faults)
    assert err.endswith("fault 'step=hello: timeout' never fired: step 'hello' made 1 model call\n")


def test_chaos_need_not_fire(run, greet, write):
    write("plan.json", json.dumps({"chaos": {"seed": 1, "rate": 0.0, "faults": [{"type": "timeout"}]}}))
    assert run("replay", greet, "--recording", "run.json", "--plan", "plan.json", "--quiet") == (0, "", "")


def test_without_faults_the_result_has_none(run, greet):
    _, out, _ = run("run", greet, "--mock-responses", "run.json", "--json")
    assert json.loads(out)["faults"] == {"fired": [], "unfired": []}


def test_a_mismatch_after_a_fault_says_that_a_fault_fired(run, write):
    text = flows.GREET.replace("steps:\n", 'tools: {t: "counting:t"}\nsteps:\n')
    flow = write("flow.yaml", text.replace("{id: hello, type: llm_call,", "{id: hello, type: llm_call, tools: [t],"))
    write("counting.py", "def t() -> int:\n    '''Count.'''\n    return 7\n")
    fault = "step=hello call=1: unknown_tool"
    write("run.json", flows.recording({"hello": [{"content": "Hello!", "request_hash": "0" * 64}], "bye": "Bye!"}))
    code, _, err = run("replay", flow, "--recording", "run.json", "--fault", fault)
    assert code == 3
    assert "a fault fired before this (workflow=greet step=hello call=1 attempt=1: unknown_tool)" in err
    assert "record it again" not in err


PAYING = """\
name: paying
config: {provider: mock, model: m}
state: {order: 7}
tools:
  refund: "till:refund"
  audit: "till:audit"
steps:
  - id: pay
    type: tool
    tool: refund
    args: {order_id: "{state.order}"}
    retry: {max_retries: 1, backoff_s: 0}
    output: paid
  - id: sub
    type: subworkflow
    depends_on: [pay]
    workflow: {name: inner, tools: {audit: "till:audit"}, steps: [{id: check, type: tool, tool: audit}]}
"""
TILL = """\
def note(text):
    with open("till.txt", "a") as till:
        till.write(text + "\\n")

def refund(order_id: int) -> str:
    note(f"refund {order_id}")
    return "paid"

async def audit() -> str:
    note("audit")
    return "fine"
"""


@pytest.fixture
def paying(write):
    write("till.py", TILL)
    write("run.json", flows.recording({}))
    return write("paying.yaml", PAYING)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("tool=refnd: tool_lost", "tool: no step calls a tool 'refnd'\n  hint: did you mean 'refund'?"),
        ("tool=xyz: tool_lost", "hint: tools: audit, refund"),
        ("tool=refund step=pay: tool_lost", "step: a tool call does not have this"),
        ("step=pay: tool_lost", "tool_lost is a tool fault, and the site has no tool\n  hint: add the tool"),
    ],
)
@pytest.mark.parametrize("command", [["run"], ["replay", "--recording", "run.json"]], ids=["run", "replay"])
def test_a_fault_at_a_tool_that_is_not_in_the_workflow_is_refused_before_anything_runs(
    run, paying, tmp_path, command, fault, said
):
    name, *options = command
    code, out, err = run(name, paying, *options, "--fault", fault)
    assert code == 2
    assert out == ""
    assert said in err
    assert not (tmp_path / "till.txt").exists()


def test_a_tool_in_a_plan_file_is_checked_too(run, paying, write):
    write("plan.json", json.dumps({"faults": [{"at": {"tool": "refnd"}, "fault": {"type": "tool_lost"}}]}))
    code, _, err = run("run", paying, "--plan", "plan.json")
    assert code == 2
    assert "plan.json: faults[0].at.tool: no step calls a tool 'refnd'" in err


@pytest.mark.parametrize("options", [[], ["--no-checkpoint"]])
@pytest.mark.parametrize("mode", [[], ["--record", "new.json"]])
def test_a_lost_result_that_is_tried_again_pays_twice(run, paying, tmp_path, mode, options):
    fault = ["--fault", "tool=refund call=1: tool_lost"]
    code, out, err = run("run", paying, *mode, *options, *fault, "--provider", "ollama")
    assert code == 0
    assert err == ""
    assert "1 fault fired" in out
    assert (tmp_path / "till.txt").read_text().splitlines() == ["refund 7", "refund 7", "audit"]


@pytest.mark.parametrize("options", [[], ["--no-checkpoint"]])
def test_tools_of_sub_workflows_fail_too_and_what_fired_is_in_the_result(run, paying, tmp_path, options):
    faults = ["--fault", "tool=audit: tool_error", "--fault", "tool=refund call=9: tool_lost"]
    code, out, err = run("run", paying, *faults, *options, "--provider", "ollama", "--json")
    assert code == 1
    assert json.loads(out)["faults"] == {
        "fired": ["tool=audit call=1: tool_error"],
        "unfired": ["tool=refund call=9: tool_lost"],
        "reasons": {"tool=refund call=9: tool_lost": "refund was called once; the last place is 'tool=refund call=1'"},
    }
    assert "'tool=refund call=9: tool_lost' never fired" in err
    assert (tmp_path / "till.txt").read_text().splitlines() == ["refund 7"]


DECLARED = {"name": "Ada", "count": 0, "user": {"city": "Oslo", "tags": ["a"]}, "none": None}


def state(*settings, file=None):
    return parse_state(DECLARED, settings=list(settings), file=file)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("null", None),
        ('"3"', "3"),
        ('["a", 1]', ["a", 1]),
        ("Ada", "Ada"),
        ("", ""),
        ("a=b", "a=b"),
        ("[broken", "[broken"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("ø\n", "ø\n"),
    ],
)
def test_a_value_is_json_where_it_can_be_and_else_text(text, value):
    assert state(f"none={text}") == {"none": value}


@pytest.mark.parametrize("text", ["5", "true", "null", '["a", 1]', "Ada"])
def test_a_value_stays_text_where_a_text_is_declared(text):
    assert state(f"name={text}") == {"name": text}
    assert state(f"user.city={text}")["user"]["city"] == text


def test_a_text_in_quotes_is_the_text():
    assert state('name="5"') == {"name": "5"}


def test_a_dotted_key_is_set_inside_what_is_declared_which_stays_as_it_was():
    assert state("user.city=Rome", "user.home.street=Via") == {
        "user": {"city": "Rome", "tags": ["a"], "home": {"street": "Via"}}
    }
    assert DECLARED["user"]["city"] == "Oslo"


def test_a_setting_counts_more_than_the_file_and_the_last_one_most(tmp_path):
    file = tmp_path / "state.json"
    file.write_text('{"name": "Eve", "user": {"city": "Bonn"}}')
    assert state("user.age=3", "count=1", "count=2", file=str(file)) == {
        "name": "Eve",
        "user": {"city": "Bonn", "age": 3},
        "count": 2,
    }


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nam=Eve", "did you mean 'name'?"),
        ("xyz.a=1", "declared: count, name, none, user"),
        ("name", "expected key=value"),
        ("=1", "expected key=value"),
        ("user..city=1", "expected key=value"),
        ("name.first=Eve", 'there is "Ada" where a mapping is expected'),
        ("none.a=1", "there is null"),
        ("user.tags.0=b", 'there is ["a"]'),
        ("user.city.street=b", 'there is "Oslo"'),
    ],
)
def test_what_cannot_be_set_is_bad_input(setting, said):
    with pytest.raises(InputError) as caught:
        state(setting)
    assert said in str(caught.value)
    assert caught.value.source.startswith("--set")


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not JSON"), ("[]", "expected a JSON object"), ('{"nam": 1}', "did you mean 'name'?")]
)
def test_a_file_that_is_no_state_is_bad_input(tmp_path, text, said):
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        state(file=str(file))
    assert said in str(caught.value)
    assert caught.value.source == str(file)


def test_a_file_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        state(file=str(tmp_path / "state.json"))
    with pytest.raises(InputError, match=r"for one key: --set 'name=Ada L'"):
        state(file="name=Ada L")


def test_commands_take_settings_and_a_file(run, greet, write):
    write("state.json", '{"user": {"city": "Rome"}}')
    options = ["--state", "state.json", "--set", "name=Eve"]
    code, out, _ = run("run", greet, "--mock-responses", "run.json", "--json", *options)
    assert code == 0
    assert '"name":"Eve","user":{"city":"Rome"}' in out
    code, _, err = run("replay", greet, "--recording", "run.json", "--set", "nmae=Eve")
    assert code == 2
    assert "did you mean 'name'?" in err
