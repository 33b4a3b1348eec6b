"""Agents under test: functions, HTTP endpoints and workflows."""

import asyncio
import threading

import pytest

from offbook import MockProvider, Response, ToolCall, Workflow, run
from offbook.errors import ProviderTimeoutError, TargetError, UnmockedToolError
from offbook.scenarios import EngineTarget, HandlerTarget, HttpTarget, Mocks, RunnerTarget
from offbook.scenarios.targets import AgentEnvironment
from offbook.workflow import WorkflowBuilder
from tests.fakes import Scripted

MOCKS = {"find_order": lambda args: {"order": args["order_id"], "status": "lost"}}


def find_order(order_id: int) -> dict:
    """Look up an order."""
    raise AssertionError("the real tool must not run")


def reply(text: str) -> str:
    """Answer the customer."""
    raise AssertionError("the real tool must not run")


def environment(mocks=None, provider=None):
    return AgentEnvironment(Mocks(MOCKS if mocks is None else mocks).conversation("conv-1"), provider)


def talked(target, *texts, on=None):
    """The answers of an agent to these messages, and its tool calls."""
    on = on or environment()

    async def talk():
        dialogue = target.begin(on)
        return [(await dialogue.say(text)).text for text in texts]

    return run(talk(), virtual_time=True), [(call.tool, call.args) for call in on.tools.calls]


def asks(*calls):
    return {
        "content": None,
        "tool_calls": [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ],
    }


class TestHandler:
    def test_a_function_that_answers_in_text_is_an_agent(self):
        seen = []

        def agent(messages, ctx):
            seen.append([message["content"] for message in messages])
            return f"echo {messages[-1]['content']}"

        answers, calls = talked(HandlerTarget("echo", agent), "hi", "ho")
        assert answers == ["echo hi", "echo ho"]
        assert seen == [["hi"], ["hi", "echo hi", "ho"]]
        assert calls == []

    def test_tool_calls_that_are_handed_back_are_resolved_by_mocks(self):
        async def agent(messages, ctx):
            if messages[-1]["role"] == "tool":
                return f"Found: {messages[-1]['content']}"
            return asks(("find_order", '{"order_id": 42}'))

        answers, calls = talked(HandlerTarget("a", agent), "Where is 42?")
        assert answers == ['Found: {"order":42,"status":"lost"}']
        assert calls == [("find_order", {"order_id": 42})]

    def test_an_async_agent_can_resolve_tools_itself(self):
        async def agent(messages, ctx):
            found = await ctx.resolve_tool("find_order", {"order_id": 7})
            return f"{ctx.conversation_id} {ctx.turn_index} {found['status']}"

        assert talked(HandlerTarget("a", agent), "hi")[0] == ["conv-1 0 lost"]

    def test_a_sync_agent_can_too_in_a_thread_of_its_own(self):
        def agent(messages, ctx):
            assert threading.current_thread() is not threading.main_thread()
            return ctx.resolve_tool("find_order", {"order_id": 7})["status"]

        answers, calls = talked(HandlerTarget("a", agent), "hi")
        assert answers == ["lost"]
        assert calls == [("find_order", {"order_id": 7})]

    def test_arguments_that_are_no_json_are_reported_to_the_agent(self):
        async def agent(messages, ctx):
            return asks(("find_order", "{broken")) if messages[-1]["role"] == "user" else messages[-1]["content"]

        assert "not a JSON object" in talked(HandlerTarget("a", agent), "hi")[0][0]

    def test_an_agent_that_raises_has_failed(self):
        async def agent(messages, ctx):
            raise ZeroDivisionError("division by zero")

        with pytest.raises(TargetError, match="ZeroDivisionError: division by zero"):
            talked(HandlerTarget("a", agent), "hi")

    @pytest.mark.parametrize("answer", [None, 42, ["text"]])
    def test_an_agent_that_answers_something_else_has_failed(self, answer):
        with pytest.raises(TargetError, match="expected a str"):
            talked(HandlerTarget("a", lambda messages, ctx: answer), "hi")

    def test_an_agent_that_calls_tools_for_ever_has_failed(self):
        async def agent(messages, ctx):
            return asks(("find_order", '{"order_id": 42}'))

        with pytest.raises(TargetError, match="25 times in a row"):
            talked(HandlerTarget("a", agent), "hi")

    def test_a_tool_without_a_mock_is_an_error_of_the_test(self):
        async def agent(messages, ctx):
            return asks(("send_mail", "{}"))

        with pytest.raises(UnmockedToolError, match="send_mail"):
            talked(HandlerTarget("a", agent), "hi")

    def test_a_response_is_an_answer_with_its_usage(self):
        async def agent(messages, ctx):
            return Response("Hi", cost_usd=0.25)

        async def talk():
            return await HandlerTarget("a", agent).begin(environment()).say("hi")

        assert run(talk()).cost_usd == 0.25


class TestHttp:
    def test_an_endpoint_is_asked_with_the_conversation_and_further_fields(self):
        provider = Scripted(Response(tool_calls=(ToolCall("find_order", {"order_id": 42}),)), Response("It is lost."))
        target = HttpTarget("billing", provider, model="m", body={"tenant": "acme"})
        answers, calls = talked(target, "Where is 42?")
        assert answers == ["It is lost."]
        assert calls == [("find_order", {"order_id": 42})]
        assert provider.requests[0].extra == {"tenant": "acme"}
        assert [message["role"] for message in provider.requests[1].messages] == ["user", "assistant", "tool"]

    def test_what_a_conversation_gives_goes_before_the_endpoint(self):
        instead = MockProvider(responses={"agent": {"content": "replayed"}})
        assert talked(HttpTarget("a", Scripted()), "hi", on=environment(provider=instead))[0] == ["replayed"]

    def test_an_endpoint_that_fails_is_the_agents_failure(self):
        with pytest.raises(TargetError, match="no answer"):
            talked(HttpTarget("a", Scripted(ProviderTimeoutError("no answer"))), "hi")


class TestRunner:
    WORKFLOW = Workflow(
        "support",
        tools={"find_order": find_order, "reply": reply},
        required_steps=["find_order"],
        terminal_tool="reply",
        system_prompt_template="You are {who}.",
    )

    def test_an_agent_of_our_loop_runs_on_mocks_and_goes_on_with_its_transcript(self):
        script = [ToolCall("find_order", {"order_id": 1}), ToolCall("reply", {"text": "Lost."})] * 2
        provider = Scripted(*[Response(tool_calls=(call,)) for call in script])
        target = RunnerTarget("a", self.WORKFLOW, "m", provider=provider, prompt_vars={"who": "kind"})
        on = environment({**MOCKS, "reply": lambda args: args["text"]})
        answers, calls = talked(target, "one", "two", on=on)
        assert answers == ["Lost.", "Lost."]
        assert [name for name, _ in calls] == ["find_order", "reply"] * 2
        assert [message["content"] for message in provider.requests[2].messages][:2] == ["You are kind.", "one"]

    def test_a_run_without_a_result_is_the_agents_failure(self):
        provider = Scripted(*[Response("no")] * 4)
        with pytest.raises(TargetError, match="Retries exhausted"):
            talked(RunnerTarget("a", self.WORKFLOW, "m", provider=provider, prompt_vars={"who": "x"}), "hi")


class TestEngine:
    def test_a_workflow_is_run_once_a_turn_with_its_tools_mocked(self):
        flow = WorkflowBuilder("flow", model="m", state={"user_input": ""}, tools=[find_order])
        flow.tool("look", "find_order", {"order_id": 42}, output="found")
        flow.llm_call("answer", "{state.user_input}: {state.found.status}", depends_on=["look"], output="response")
        provider = Scripted(Response("one"), Response("two"))
        target = EngineTarget("flow", flow, provider=provider)
        answers, calls = talked(target, "Where?", "Still?")
        assert answers == ["one", "two"]
        assert provider.requests[1].messages[-1]["content"] == "Still?: lost"
        assert calls == [("find_order", {"order_id": 42})] * 2

    def test_a_workflow_that_fails_is_the_agents_failure(self):
        flow = WorkflowBuilder("flow", model="m", state={"user_input": ""}).llm_call("ask", "Hi", output="response")
        broken = MockProvider(responses={"ask": {"fault": {"type": "http_error", "status_code": 400}}})
        with pytest.raises(TargetError, match="failed at ask"):
            talked(EngineTarget("flow", flow, provider=broken), "hi")


def test_a_hanging_handler_can_be_given_up():
    async def agent(messages, ctx):
        await asyncio.sleep(3600)

    async def talk():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await HandlerTarget("a", agent).begin(environment()).say("hi")

    run(talk(), virtual_time=True)
