"""Mocked tools in our own loops."""

import pytest

from offbook import InputError, MockProvider, RecordingMismatchError
from offbook.agent import GuardPolicy, ScriptedClient, ToolCall, Workflow, WorkflowRunner
from offbook.errors import MockDriftError, ToolExecutionError, UnmockedToolError
from offbook.scenarios import Mocks, fails, garbled, hangs, replayed, sequence
from offbook.tools import ToolDef, ToolSpec, run_tool, tool
from offbook.workflow import WorkflowEngine, parse_workflow
from tests.scenarios.mocks.parts import virtually


def find_order(order_id: int) -> dict:
    """Look up an order."""
    raise AssertionError("the real tool ran")


@tool(prerequisites=["find_order"], side_effect=True, timeout_s=30, repeatable=True)
def refund(order_id: int) -> str:
    """Pay back."""
    raise AssertionError("the real tool ran")


def reply(text: str) -> str:
    """Answer."""
    raise AssertionError("the real tool ran")


def typed(n: int): ...


REAL = [find_order, refund, reply]
REPLIES = {"reply": lambda args: args["text"]}


def play(mocks, script, **policy):
    """Run an agent on mocked tools; gives its result and the trajectory."""
    tools = mocks.conversation()
    agent = Workflow("support", tools=tools.toolbox(REAL), terminal_tool="reply")
    runner = WorkflowRunner(ScriptedClient(script), policy=GuardPolicy(**policy))
    return virtually(runner.run_in_full(agent, "Help!")), tools


def outcome_of(mock, args=None, given=refund, **options):
    """What becomes of one call of a mocked tool."""
    tools = Mocks({"refund": mock}, **options).conversation()
    return virtually(run_tool(tools.toolbox([given])["refund"], ToolCall("refund", {"order_id": 1} | (args or {}))))


def test_an_agent_runs_on_mocked_tools_and_its_trajectory_is_kept():
    mocks = Mocks({"find_order": lambda args: {"id": args["order_id"]}, "refund": "done", **REPLIES})
    script = [
        ToolCall("find_order", {"order_id": 7}),
        ToolCall("refund", {"order_id": 7}),
        ToolCall("reply", {"text": "Refunded."}),
    ]
    run, tools = play(mocks, script)
    assert run.result == "Refunded."
    assert [(call.tool, call.args, call.result) for call in tools.calls] == [
        ("find_order", {"order_id": 7}, {"id": 7}),
        ("refund", {"order_id": 7}, "done"),
        ("reply", {"text": "Refunded."}, "Refunded."),
    ]


def test_mocked_tools_have_the_specs_and_rules_of_the_real_ones():
    mocked = Mocks({}).conversation().toolbox(REAL)
    assert list(mocked) == ["find_order", "refund", "reply"]
    assert mocked["refund"].spec is refund.spec
    names = ("prerequisites", "side_effect", "timeout_s", "repeatable")
    assert [getattr(mocked["refund"], name) for name in names] == [getattr(refund, name) for name in names]


def test_tools_may_be_given_by_name_and_as_specs():
    tools = Mocks({"a": 1, "b": 2, "c": 3}).conversation()
    spec = ToolSpec("a", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    for given in ([spec], {"a": spec}, {"a": typed}, [ToolDef(spec, print)]):
        mocked = tools.toolbox(given)["a"]
        assert virtually(run_tool(mocked, ToolCall("a", {"n": 5}))).value == 1
        assert virtually(run_tool(mocked, ToolCall("a", {"n": "x"}))).text.startswith("[ToolError] ToolArgumentsError")


def test_what_is_no_tool_is_refused():
    with pytest.raises(InputError, match="expected a function or ToolDef, got int 5"):
        Mocks({}).conversation().toolbox([5])


def test_arguments_that_the_real_tool_refuses_are_told_as_it_would_and_kept():
    tools = Mocks({"refund": "done"}).conversation()
    outcome = virtually(run_tool(tools.toolbox([refund])["refund"], ToolCall("refund", {"order_id": "x"})))
    assert outcome.error.problems == (
        "order_id: Input should be a valid integer, unable to parse string as an integer (got 'x')",
    )
    assert tools.calls[0].error.startswith("wrong arguments for refund:\norder_id: ")


@pytest.mark.parametrize(
    ("mock", "text"),
    [
        ({"ok": True}, '{"ok":true}'),
        (fails("card declined"), "[ToolError] ToolFaultError: card declined"),
        (ConnectionError("reset"), "[ToolError] ConnectionError: reset"),
        (hangs(), "[ToolError] ToolTimeoutError: refund took longer than 30 s"),
        (hangs(for_s=5), "[ToolError] ToolTimeoutError: refund took longer than 5 s"),
        (hangs(for_s=5, then="late"), "late"),
        (garbled(), '{"result": '),
    ],
)
def test_failures_show_up_as_those_of_real_tools_do(mock, text):
    assert outcome_of(mock).text == text


def test_a_mock_that_keeps_failing_exhausts_the_patience_for_tool_errors():
    script = [ToolCall("find_order", {"order_id": number}) for number in range(3)]
    with pytest.raises(ToolExecutionError, match="find_order failed: ToolFaultError: down"):
        play(Mocks({"find_order": fails("down"), **REPLIES}), script, max_tool_errors=2)


def test_an_agent_that_tries_again_gets_through():
    mocks = Mocks({"find_order": sequence([TimeoutError("busy"), {"id": 1}]), **REPLIES})
    script = [*[ToolCall("find_order", {"order_id": 1})] * 2, ToolCall("reply", {"text": "Found."})]
    run, tools = play(mocks, script)
    assert run.result == "Found."
    assert [call.error for call in tools.calls] == ["busy", None, None]


def test_a_tool_without_a_mock_ends_the_run():
    with pytest.raises(UnmockedToolError, match="'find_order'"):
        play(Mocks(REPLIES), [ToolCall("find_order", {"order_id": 1}), ToolCall("reply", {"text": "All is well."})])


def test_passthrough_answers_null():
    assert (
        virtually(
            run_tool(
                Mocks({}, unmocked="passthrough").conversation().toolbox([refund])["refund"],
                ToolCall("refund", {"order_id": 1}),
            )
        ).text
        == "null"
    )


def test_a_recording_without_an_answer_ends_the_run():
    with pytest.raises(RecordingMismatchError):
        outcome_of(replayed({"_version": 2}))


def test_results_are_checked_where_it_is_declared_what_the_real_tool_returns():
    assert outcome_of({"odd": 1}).value == {"odd": 1}
    with pytest.raises(MockDriftError):
        outcome_of({"odd": 1}, schemas={"refund": refund})
    with pytest.raises(MockDriftError):
        outcome_of({"odd": 1}, returns={"refund": str})


WORKFLOW = """
name: refund
config: {model: m}
state: {order: 7}
steps:
  - {id: find, type: tool, tool: find_order, args: {order_id: "{state.order}"}, output: found}
"""


def run_workflow(mocks):
    tools = mocks.conversation()
    definition = parse_workflow(WORKFLOW, tools=["find_order"])
    engine = WorkflowEngine(definition, MockProvider(responses={}), tools=[find_order], wrap_tools=tools.toolbox)
    return virtually(engine.run()), tools


def test_a_workflow_runs_on_mocked_tools():
    result, tools = run_workflow(Mocks({"find_order": {"status": "lost"}}))
    assert result.state["found"] == {"status": "lost"}
    assert [(call.tool, call.args) for call in tools.calls] == [("find_order", {"order_id": 7})]


def test_a_tool_without_a_mock_ends_a_workflow():
    with pytest.raises(UnmockedToolError):
        run_workflow(Mocks({}))
