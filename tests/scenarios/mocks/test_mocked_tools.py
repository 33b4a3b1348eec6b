"""Mocked tools of one conversation: the context of mocks, the answers to the agent, and the trajectory."""

import asyncio
import pickle

import pytest

from offbook import InputError, MockProvider, RecordingMismatchError
from offbook.agent import GuardPolicy, ScriptedClient, ToolCall, Workflow, WorkflowRunner
from offbook.agent.errors import ToolExecutionError
from offbook.errors import EventLoopError, MockDriftError, MockError, ToolResolutionError, UnmockedToolError
from offbook.scenarios import MockContext, MockedCall, Mocks, fails, garbled, hangs, replayed, sequence
from offbook.tools import ToolDef, ToolSpec, run_tool, tool
from offbook.workflow import WorkflowEngine, parse_workflow
from tests.scenarios.mocks.resolving import resolve_all, virtually


def raising(error):
    def work(args):
        raise error

    return work


def test_the_context_describes_the_call_its_turn_and_its_conversation():
    seen = []
    tools = Mocks({"a": lambda args, ctx: seen.append(ctx), "b": lambda args, ctx: seen.append(ctx)}).conversation("c")

    async def talk():
        await resolve_all(tools, "a", "b", "a")
        tools.turn_index = 1
        await resolve_all(tools, "a")

    virtually(talk())
    assert seen == [
        MockContext("a", 0, "c", 0, {}),
        MockContext("b", 0, "c", 0, {}),
        MockContext("a", 1, "c", 0, {}),
        MockContext("a", 2, "c", 1, {}),
    ]


def test_the_call_count_starts_at_zero_in_every_conversation():
    mocks = Mocks({"n": lambda args, ctx: ctx.call_index})
    for _ in range(3):
        assert virtually(resolve_all(mocks.conversation(), "n", "n")) == [0, 1]


def test_state_is_shared_by_the_mocks_of_a_conversation_and_lasts_from_turn_to_turn():
    def add(args, ctx):
        cart = ctx.state.setdefault("cart", [])
        cart.append(args["item"])
        return {"size": len(cart)}

    mocks = Mocks({"add": add, "get": lambda args, ctx: {"items": ctx.state.get("cart", [])}})

    async def shop(item):
        tools = mocks.conversation()
        first = await resolve_all(tools, ("add", {"item": item}), "get")
        tools.turn_index = 1
        return [*first, *await resolve_all(tools, ("add", {"item": item}), "get")], tools.state

    async def two_at_once():
        return await asyncio.gather(shop("hat"), shop("coat"))

    for item, (results, state) in zip(("hat", "coat"), virtually(two_at_once()), strict=True):
        assert results == [{"size": 1}, {"items": [item]}, {"size": 2}, {"items": [item, item]}]
        assert state == {"cart": [item, item]}


def test_what_an_agent_was_given_does_not_change_with_the_state():
    def add(args, ctx):
        ctx.state.setdefault("cart", []).append(1)
        return ctx.state["cart"]

    tools = Mocks({"add": add}).conversation()
    assert virtually(resolve_all(tools, "add", "add")) == [[1], [1, 1]]
    assert [call.result for call in tools.calls] == [[1], [1, 1]]


def test_many_conversations_at_once_do_not_mix():
    async def step(args, ctx):
        ctx.state["sum"] = ctx.state.get("sum", 0) + args["n"]
        await asyncio.sleep(args["n"] % 3)
        return [ctx.conversation_id, ctx.call_index, ctx.turn_index, ctx.state["sum"]]

    mocks = Mocks({"step": step, "next": sequence(["a", "b", "c"])})

    async def talk(number):
        tools, answers = mocks.conversation(f"conv-{number}"), []
        for turn in range(4):
            tools.turn_index = turn
            answers.append([await tools.resolve("step", {"n": number}), await tools.resolve("next", {})])
        return answers, [call.tool for call in tools.calls]

    async def all_at_once():
        return await asyncio.gather(*(talk(number) for number in range(20)))

    for number, (answers, tools) in enumerate(virtually(all_at_once())):
        assert tools == ["step", "next"] * 4
        assert answers == [[[f"conv-{number}", turn, turn, number * (turn + 1)], "abcc"[turn]] for turn in range(4)]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("Connection timeout"), "Connection timeout"),
        (ToolResolutionError("no such order"), "no such order"),
        (RuntimeError(), "RuntimeError"),
        (KeyError("date"), "KeyError: 'date'"),
        (InputError("wrong", source="form"), "form: wrong"),
    ],
)
def test_what_a_mock_raises_is_given_to_the_agent_as_its_message_and_kept(error, message):
    tools = Mocks({"flaky": raising(error)}).conversation()
    assert virtually(resolve_all(tools, "flaky")) == [{"error": message}]
    assert tools.calls == (MockedCall("flaky", {}, None, message, 0, 0, is_answered=True),)


@pytest.mark.parametrize(
    "error",
    [
        RecordingMismatchError("nothing fits", kind="missing"),
        EventLoopError("already running"),
        MockError("wrong", tool="x"),
        ExceptionGroup("many", [EventLoopError("already running")]),
    ],
)
def test_errors_of_the_test_are_raised_and_not_reported_to_the_agent(error):
    tools = Mocks({"flaky": raising(error)}).conversation()
    with pytest.raises(type(error)) as caught:
        virtually(resolve_all(tools, "flaky"))
    assert caught.value is error
    assert tools.calls[0].error == str(error)


def test_every_call_is_kept_in_order_with_how_it_ended():
    tools = Mocks({"book": sequence([ValueError("busy"), {"id": 1}])}, unmocked="passthrough").conversation()

    async def talk():
        await tools.resolve("book", {"day": 1})
        tools.turn_index = 1
        await resolve_all(tools, ("book", {"day": 2}), "log")

    virtually(talk())
    assert tools.calls == (
        MockedCall("book", {"day": 1}, None, "busy", 0, 0, is_answered=True),
        MockedCall("book", {"day": 2}, {"id": 1}, None, 1, 1, is_answered=True),
        MockedCall("log", {}, None, None, 1, 0, is_answered=True),
    )


def test_calls_made_at_once_are_kept_in_the_order_they_were_made_not_ended():
    async def wait(args):
        await asyncio.sleep(args["s"])
        return args["s"]

    async def at_once():
        tools = Mocks({"wait": wait}).conversation()
        await asyncio.gather(*(tools.resolve("wait", {"s": s}) for s in (3, 1, 2)))
        return [(call.args["s"], call.result, call.call_index) for call in tools.calls]

    assert virtually(at_once()) == [(3, 3, 0), (1, 1, 1), (2, 2, 2)]


def test_what_the_agent_does_with_a_result_does_not_change_what_is_kept():
    async def talk():
        tools = Mocks({"get": lambda args: {"items": [1]}}).conversation()
        (await tools.resolve("get", {}))["items"].clear()
        return tools.calls[0].result

    assert virtually(talk()) == {"items": [1]}


def test_by_default_a_tool_without_a_mock_ends_the_conversation():
    tools = Mocks({"known": 1}).conversation()
    with pytest.raises(
        UnmockedToolError, match="tool 'send_email' was called, but no mock is defined for it"
    ) as caught:
        virtually(resolve_all(tools, "known", ("send_email", {"to": "ada"})))
    assert caught.value.tool == "send_email"
    assert caught.value.arguments == {"to": "ada"}
    assert [(call.tool, call.is_answered) for call in tools.calls] == [("known", True), ("send_email", False)]
    assert tools.calls[1].error == str(caught.value)


def test_passthrough_gives_the_agent_null_for_tools_without_a_mock():
    tools = Mocks({"known": 1}, unmocked="passthrough").conversation()
    assert virtually(resolve_all(tools, "known", "send_email")) == [1, None]


@pytest.mark.parametrize("args", ['{"city": "Oslo"}', None, ["Oslo"]])
def test_arguments_that_are_no_object_are_refused(args):
    tools = Mocks({"get_weather": 1}).conversation()
    with pytest.raises(InputError, match=r"resolve: get_weather: expected arguments by name(.|\n)*json.loads"):
        virtually(resolve_all(tools, ("get_weather", args)))
    assert tools.calls == ()


@pytest.mark.parametrize(
    "error",
    [
        MockError("odd", tool="pay"),
        MockDriftError(["id: missing"], tool="pay"),
        UnmockedToolError(tool="pay", arguments={"sum": 5}, suggestion='"pay": 1,', hint="Is it?"),
    ],
)
def test_an_error_of_a_mock_crosses_to_another_process_whole(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


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
    """Run an agent on mocked tools; returns its result and the trajectory."""
    tools = mocks.conversation()
    agent = Workflow("support", tools=tools.toolbox(REAL), terminal_tool="reply")
    runner = WorkflowRunner(ScriptedClient(script), policy=GuardPolicy(**policy))
    return virtually(runner.run_in_full(agent, "Help!")), tools


def outcome_of(mock, args=None, real=refund, **options):
    """The outcome of one call of a mocked tool."""
    tools = Mocks({"refund": mock}, **options).conversation()
    return virtually(run_tool(tools.toolbox([real])["refund"], ToolCall("refund", {"order_id": 1} | (args or {}))))


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
    for declared_tools in ([spec], {"a": spec}, {"a": typed}, [ToolDef(spec, print)]):
        mocked = tools.toolbox(declared_tools)["a"]
        assert virtually(run_tool(mocked, ToolCall("a", {"n": 5}))).value == 1
        assert virtually(run_tool(mocked, ToolCall("a", {"n": "x"}))).text.startswith("[ToolError] ToolArgumentsError")


def test_what_is_no_tool_is_refused():
    with pytest.raises(InputError, match="expected a function or ToolDef, got int 5"):
        Mocks({}).conversation().toolbox([5])


def test_arguments_that_the_real_tool_refuses_are_reported_as_it_would_and_kept():
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
