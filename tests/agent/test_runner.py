"""The loop: asking, running tools, ending."""

import asyncio

import pytest

from offbook import InputError, MockProvider, OpenAIProvider, ProviderConnectionError, Response, TextDelta, Usage, run
from offbook.agent import (
    AgentError,
    ChunkType,
    ContextManager,
    GuardPolicy,
    MaxIterationsError,
    Message,
    MessageMeta,
    MessageRole,
    MessageType,
    NoCompact,
    ProviderClient,
    ScriptedClient,
    StreamChunk,
    StreamError,
    TieredCompact,
    ToolCall,
    ToolCallInfo,
    Workflow,
    WorkflowCancelledError,
    WorkflowRunner,
    respond,
    warning_text,
)
from offbook.errors import EventLoopError, ProviderTimeoutError
from offbook.messages import ReasoningDelta, StreamRestart, ToolCallDelta
from offbook.workflow import parse_workflow
from tests.agent.small_agents import FETCH, SUBMIT, agent, run_script, tool
from tests.fakes import Scripted


async def test_a_run_ends_with_what_its_terminal_tool_returns():
    end = await run_script([FETCH, SUBMIT], agent(submit=lambda **_: {"done": True}))
    assert end.result == {"done": True}
    assert end.run.terminal_tool == "submit"
    assert end.run.iterations == 2
    assert end.run.completed_steps == {"fetch": 1, "submit": 1}
    assert list(end.run.messages) == end.messages


async def test_arguments_reach_the_tool_as_the_model_gave_them():
    received = []
    call = ToolCall("fetch", {"key": "value", "count": 42})
    await run_script([call, SUBMIT], agent(fetch=lambda **args: received.append(args)))
    assert received == [{"key": "value", "count": 42}]


async def test_the_conversation_starts_with_the_filled_in_system_prompt_and_the_users_message():
    end = await run_script([FETCH, SUBMIT], message="Where is order 42?")
    assert end.client.calls[0].messages == [
        {"role": "system", "content": "You are a tester."},
        {"role": "user", "content": "Where is order 42?"},
    ]


async def test_what_a_client_was_sent_does_not_change_later():
    end = await run_script([FETCH, SUBMIT])
    assert [len(call.messages) for call in end.client.calls] == [2, 4]


async def test_a_call_and_its_result_go_back_to_the_model():
    end = await run_script([ToolCall("fetch", {"key": "val"}, id="abc"), SUBMIT])
    assert end.wire[2:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "abc", "type": "function", "function": {"name": "fetch", "arguments": {"key": "val"}}}
            ],
        },
        {"role": "tool", "content": "fetch done", "tool_call_id": "abc", "name": "fetch"},
    ]


async def test_an_agent_without_a_system_prompt_starts_with_the_user():
    end = await run_script([FETCH, SUBMIT], agent(prompt=""))
    assert [message["role"] for message in end.client.calls[0].messages] == ["user"]


async def test_the_model_is_told_about_every_tool():
    end = await run_script([FETCH, SUBMIT])
    assert [spec.name for spec in end.client.calls[0].tools] == ["fetch", "submit"]


async def test_async_tools_are_awaited():
    async def fetch(**_):
        await asyncio.sleep(0)
        return "from afar"

    assert (await run_script([FETCH, SUBMIT], agent(fetch=fetch))).results == ["from afar", "submit done"]


async def test_calls_of_one_turn_run_side_by_side_and_answer_in_their_order():
    began, gate = [], asyncio.Event()

    async def wait(**_):
        began.append("wait")
        await gate.wait()
        return "waited"

    async def release(**_):
        began.append("release")
        gate.set()
        return "released"

    workflow = agent(tool("wait", wait), tool("release", release), required=())
    end = await run_script([[ToolCall("wait"), ToolCall("release")], SUBMIT], workflow)
    assert began == ["wait", "release"]
    assert end.results == ["waited", "released", "submit done"]


async def test_calls_without_an_id_or_with_one_that_was_there_before_get_one_of_their_own():
    calls = [ToolCall("fetch", id="call_0"), ToolCall("fetch", id="call_0"), ToolCall("fetch")]
    end = await run_script([calls, ToolCall("submit", id="call_0")])
    ids = [call.call_id for message in end.messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in end.messages if message.role == "tool"]
    assert ids == answered == ["call_0", "call_1", "call_2", "call_3"]


async def test_the_first_terminal_tool_of_a_turn_ends_the_run():
    workflow = agent(tool("other"), required=(), terminal=["submit", "other"])
    end = await run_script([[ToolCall("other"), SUBMIT]], workflow)
    assert end.result == "other done"
    assert end.run.terminal_tool == "other"
    assert end.results == ["other done", "submit done"]


async def test_text_ends_the_run_of_an_agent_without_terminal_tools():
    end = await run_script([FETCH, "Order 42 is on its way."], agent(terminal=()))
    assert end.result == "Order 42 is on its way."
    assert end.run.terminal_tool is None


async def test_a_run_asks_the_model_as_often_as_it_may_and_no_more():
    end = await run_script([FETCH] * 5, catch=MaxIterationsError, max_iterations=3)
    assert end.error.iterations == 3
    assert len(end.client.calls) == 3
    assert end.error.completed_steps == {"fetch": 3}
    assert list(end.error.messages) == end.messages


async def test_the_error_of_a_run_without_end_names_the_steps_that_were_not_done():
    end = await run_script(["hm"] * 2, catch=MaxIterationsError, max_iterations=2)
    assert end.error.pending_steps == ["fetch"]
    assert "required steps not done: fetch" in str(end.error)


async def test_listeners_hear_every_message_in_order():
    end = await run_script([ToolCall("fetch", reasoning="First, fetch."), SUBMIT])
    kinds = MessageType
    assert end.types == [
        kinds.SYSTEM_PROMPT,
        kinds.USER_INPUT,
        kinds.REASONING,
        kinds.TOOL_CALL,
        kinds.TOOL_RESULT,
        kinds.TOOL_CALL,
        kinds.TOOL_RESULT,
    ]
    assert [message.metadata.step_index for message in end.messages] == [None, None, 0, 0, 0, 1, 1]


async def test_reasoning_is_a_message_of_its_own_and_folded_into_the_call_for_the_model():
    end = await run_script([ToolCall("fetch", reasoning="I need the data."), SUBMIT])
    assert end.of(MessageType.REASONING) == ["I need the data."]
    assert [message["content"] for message in end.wire[2:]] == ["I need the data.", "fetch done"]


@pytest.mark.parametrize(
    ("replayed", "contents"), [("all", ["One.", "Two."]), ("last", ["", "Two."]), ("none", ["", ""])]
)
async def test_the_model_gets_as_much_of_its_reasoning_again_as_it_is_told(replayed, contents):
    thinking = [ToolCall("fetch", reasoning=thought) for thought in ("One.", "Two.")]
    end = await run_script([*thinking, SUBMIT], reasoning_replay=replayed)
    assert [message["content"] for message in end.wire if message["role"] == "assistant"] == contents
    assert end.of(MessageType.REASONING) == ["One.", "Two."]
    assert end.client.calls[1].messages[-2]["content"] == ("" if replayed == "none" else "One.")


async def test_text_beside_a_call_is_sent_again_whatever_becomes_of_the_reasoning():
    answer = Response("Looking it up.", tool_calls=(FETCH,), reasoning="The user wants data.")
    end = await run_script([answer, SUBMIT], reasoning_replay="none")
    assert end.wire[-2]["content"] == "Looking it up."


async def test_an_unknown_amount_of_reasoning_is_refused():
    with pytest.raises(InputError, match="reasoning_replay: unknown value 'lats'") as caught:
        WorkflowRunner(ScriptedClient([]), reasoning_replay="lats")
    assert "did you mean 'last'?" in caught.value.hint


async def test_text_beside_a_call_is_kept_rather_than_the_reasoning():
    answer = Response("Looking it up.", tool_calls=(FETCH,), reasoning="The user wants data.")
    end = await run_script([answer, SUBMIT])
    assert end.wire[2]["content"] == "Looking it up."


async def test_reasoning_before_text_is_not_sent_back():
    end = await run_script([Response("Hm.", reasoning="No idea."), FETCH, SUBMIT])
    assert end.wire[2]["content"] == "Hm."
    assert "No idea." not in str(end.wire)


async def test_a_conversation_can_be_gone_on_with():
    def make_message(role, content, kind, **rest):
        return Message(role, content, MessageMeta(kind), **rest)

    seed = [
        make_message(MessageRole.SYSTEM, "You help.", MessageType.SYSTEM_PROMPT),
        make_message(MessageRole.USER, "first", MessageType.USER_INPUT),
        make_message(MessageRole.ASSISTANT, "", MessageType.TOOL_CALL, tool_calls=[ToolCallInfo("fetch", {}, "c0")]),
        make_message(MessageRole.TOOL, "old", MessageType.TOOL_RESULT, tool_name="fetch", tool_call_id="c0"),
        make_message(MessageRole.USER, "then", MessageType.USER_INPUT),
    ]
    end = await run_script([SUBMIT], agent(required=()), run_options={"initial_messages": seed})
    assert [message["content"] for message in end.client.calls[0].messages] == [
        "You help.",
        "first",
        "",
        "old",
        "then",
    ]
    assert end.types == [MessageType.TOOL_CALL, MessageType.TOOL_RESULT]
    assert list(end.run.messages[:5]) == seed


async def test_ids_of_a_conversation_that_is_gone_on_with_are_not_given_again():
    seed = [
        Message("user", "first", MessageMeta(MessageType.USER_INPUT)),
        Message("assistant", "", MessageMeta(MessageType.TOOL_CALL), (ToolCallInfo("fetch", {}, "call_0"),)),
        Message("tool", "old", MessageMeta(MessageType.TOOL_RESULT), tool_name="fetch", tool_call_id="call_0"),
        Message("user", "then", MessageMeta(MessageType.USER_INPUT)),
    ]
    end = await run_script([SUBMIT], agent(required=()), run_options={"initial_messages": seed})
    assert end.messages[0].tool_calls[0].call_id == "call_1"


async def test_a_run_adds_up_what_its_model_calls_cost():
    answers = [Response(tool_calls=(call,), usage=Usage.of(10, 5), cost_usd=0.25) for call in (FETCH, SUBMIT)]
    end = await run_script(answers)
    assert end.run.total_tokens == 30
    assert end.run.cost_usd == 0.5


async def test_what_the_model_call_raises_ends_the_run_as_it_is():
    end = await run_script([FETCH, ProviderTimeoutError("no answer")], catch=ProviderTimeoutError)
    assert end.results == ["fetch done"]


async def test_a_client_that_answers_something_else_is_told_what_to_answer():
    end = await run_script([lambda *_: {"tool": "fetch"}], catch=InputError)
    assert "got dict" in str(end.error)
    assert "TextResponse" in str(end.error)


def test_a_script_without_an_event_loop_can_run_an_agent():
    runner = WorkflowRunner(ScriptedClient([FETCH, SUBMIT]))
    assert runner.run_sync(agent(), "go", prompt_vars={"role": "tester"}) == "submit done"


async def test_running_synchronously_inside_a_loop_is_refused():
    with pytest.raises(EventLoopError):
        WorkflowRunner(ScriptedClient([FETCH, SUBMIT])).run_sync(agent(), "go")


async def test_one_runner_runs_several_agents_at_once_without_mixing_them():
    def lines(messages, _):
        if messages[-1]["role"] == "user":
            return ToolCall("fetch", {"who": messages[-1]["content"]})
        return ToolCall("submit", {"who": messages[-1]["content"]})

    workflow = agent(fetch=lambda who: who, submit=lambda who: who)
    runner = WorkflowRunner(ScriptedClient([lines] * 40))
    prompts = [f"user {number}" for number in range(20)]
    results = await asyncio.gather(*(runner.run(workflow, who, prompt_vars={"role": "tester"}) for who in prompts))
    assert results == prompts


async def test_a_number_of_iterations_below_one_is_refused():
    with pytest.raises(InputError, match="max_iterations"):
        WorkflowRunner(ScriptedClient([]), max_iterations=0)


async def test_the_context_manager_is_asked_before_every_model_call():
    prompts = []

    class Spy(ContextManager):
        def maybe_compact(self, messages, step_index=0, step_hint=""):
            prompts.append((step_index, len(messages), step_hint))
            return super().maybe_compact(messages, step_index=step_index, step_hint=step_hint)

    await run_script([FETCH, SUBMIT], context_manager=Spy(NoCompact(), budget_tokens=1000))
    assert prompts == [(0, 2, ""), (1, 4, "Tools that have succeeded so far: fetch.")]


async def test_a_context_warning_reaches_the_model_before_its_next_call():
    warned = ContextManager(NoCompact(), budget_tokens=100, warn_at=(0.1, 1.0), on_warning=lambda _: "Hurry up.")
    end = await run_script([FETCH, SUBMIT], context_manager=warned)
    assert [message["content"] for message in end.client.calls[0].messages][-2:] == ["go", "Hurry up."]
    assert end.types.count(MessageType.CONTEXT_WARNING) == 1


async def test_a_compacted_conversation_is_what_the_model_gets():
    class Cutter(ContextManager):
        def maybe_compact(self, messages, step_index=0, step_hint=""):
            return messages if step_index < 2 else [*messages[:2], *messages[-2:]]

    end = await run_script([FETCH, FETCH, SUBMIT], context_manager=Cutter(NoCompact(), budget_tokens=1000))
    assert [len(call.messages) for call in end.client.calls] == [2, 4, 4]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"terminal_tool": "sumbit"}, "there is no tool 'sumbit'"),
        ({"required_steps": ["feth"]}, "there is no tool 'feth'"),
        ({"required_steps": "fetch"}, "expected a list"),
        ({"required_steps": ["submit"]}, "could never end"),
        ({"system_prompt_template": "You are {role"}, "system_prompt_template"),
        ({"system_prompt_template": 'Answer in {"json": 1}'}, "is not a variable"),
        ({"system_prompt_template": "{role.__class__}"}, "is not a variable"),
    ],
)
def test_an_agent_that_could_not_work_is_refused_when_it_is_made(rules, complaint):
    fields = {"tools": {"fetch": tool("fetch"), "submit": tool("submit")}, "terminal_tool": "submit"} | rules
    with pytest.raises(InputError, match=complaint):
        Workflow("test", **fields)


async def test_a_missing_prompt_variable_is_named():
    with pytest.raises(InputError, match="'role' is missing"):
        await WorkflowRunner(ScriptedClient([])).run(agent(), "go")


@pytest.mark.parametrize("needed", [{"tols": "fetch"}, 42, {"tool": "fetch", "match": "x"}])
def test_a_prerequisite_that_cannot_be_read_is_refused(needed):
    with pytest.raises(InputError, match="cannot read"):
        agent(tool("edit", prerequisites=[needed]))


def test_a_prerequisite_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="there is no tool 'raed'"):
        agent(tool("edit", prerequisites=["raed"]))


async def test_a_loop_on_a_replay_runs_without_a_model():
    recorded = {
        "_version": 2,
        "agent": [
            {"content": "", "tool_calls": [{"id": "a", "name": "fetch", "arguments": {}}]},
            {"content": "", "tool_calls": [{"id": "b", "name": "submit", "arguments": {}}]},
        ],
    }
    client = ProviderClient(MockProvider(responses=recorded), "any", step_id="agent")
    assert await WorkflowRunner(client).run(agent(), "go", prompt_vars={"role": "tester"}) == "submit done"


def test_every_error_of_a_run_is_one_family():
    assert issubclass(MaxIterationsError, AgentError)


def test_the_documented_errors_are_under_virtual_time_too():
    assert run(run_script([FETCH, SUBMIT]), virtual_time=True).result == "submit done"


async def test_a_run_that_is_cancelled_before_it_starts_asks_nobody():
    cancel = asyncio.Event()
    cancel.set()
    end = await run_script([FETCH, SUBMIT], run_options={"cancel_event": cancel}, catch=WorkflowCancelledError)
    assert not end.client.calls
    assert end.error.iteration == 0
    assert end.error.completed_steps == {}


async def test_the_transcript_is_kept():
    cancel = asyncio.Event()
    workflow = agent(fetch=lambda **_: cancel.set())
    end = await run_script(
        [FETCH, SUBMIT], workflow, run_options={"cancel_event": cancel}, catch=WorkflowCancelledError
    )
    assert end.error.iteration == 1
    assert end.error.completed_steps == {"fetch": 1}
    assert [message.metadata.type for message in end.error.messages][-1] == MessageType.TOOL_RESULT


async def test_an_event_that_is_never_set_changes_nothing():
    assert (await run_script([FETCH, SUBMIT], run_options={"cancel_event": asyncio.Event()})).result == "submit done"


def test_a_model_call_under_way_is_given_up_at_once():
    provider = Scripted(Response(tool_calls=(FETCH,)), delay_s=3600.0)

    async def cancelled_after_a_second():
        cancel = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, cancel.set)
        runner = WorkflowRunner(ProviderClient(provider, "any"))
        with pytest.raises(WorkflowCancelledError) as caught:
            await runner.run(agent(), "go", prompt_vars={"role": "tester"}, cancel_event=cancel)
        assert len(caught.value.messages) == 2
        return loop.time()

    assert run(cancelled_after_a_second(), virtual_time=True) == pytest.approx(1.0)


def test_tools_that_are_running_are_let_finish():
    finished = []

    async def fetch(**_):
        await asyncio.sleep(60)
        finished.append(True)

    async def cancelled_in_the_middle():
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(1.0, cancel.set)
        return await run_script(
            [FETCH, SUBMIT], agent(fetch=fetch), run_options={"cancel_event": cancel}, catch=WorkflowCancelledError
        )

    end = run(cancelled_in_the_middle(), virtual_time=True)
    assert finished == [True]
    assert end.error.completed_steps == {"fetch": 1}


async def test_what_a_model_call_raises_is_raised_with_an_event_too():
    cancel = asyncio.Event()
    await run_script([OSError("gone")], run_options={"cancel_event": cancel}, catch=OSError)


async def test_cancelling_the_task_leaves_nothing_running():
    prompts = asyncio.Event()

    class Silent:
        async def send(self, messages, tools=None):
            prompts.set()
            await asyncio.Event().wait()

    running = WorkflowRunner(Silent()).run(agent(), "go", prompt_vars={"role": "tester"}, cancel_event=asyncio.Event())
    task = asyncio.ensure_future(running)
    await prompts.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


ASKED = {"prompt_vars": {"role": "tester"}}


async def test_a_streaming_runner_reports_every_chunk():
    received = []
    client = ScriptedClient([Response("Let me look.", tool_calls=(FETCH,)), SUBMIT])
    await WorkflowRunner(client, stream=True, on_chunk=received.append).run(agent(), "go", **ASKED)
    assert [chunk.type for chunk in received] == [
        *[ChunkType.TEXT_DELTA] * 3,
        ChunkType.TOOL_CALL_DELTA,
        ChunkType.FINAL,
        ChunkType.TOOL_CALL_DELTA,
        ChunkType.FINAL,
    ]
    assert "".join(chunk.content for chunk in received[:3]) == "Let me look."


async def test_a_listener_may_be_async():
    received = []

    async def listen(chunk):
        received.append(chunk.type)

    await WorkflowRunner(ScriptedClient([FETCH, SUBMIT]), stream=True, on_chunk=listen).run(agent(), "go", **ASKED)
    assert received.count(ChunkType.FINAL) == 2


async def test_a_stream_without_its_last_chunk_is_an_error():
    class Cut:
        async def send_stream(self, messages, tools=None):
            yield StreamChunk(ChunkType.TEXT_DELTA, "partial")

    with pytest.raises(StreamError, match="FINAL chunk") as caught:
        await WorkflowRunner(Cut(), stream=True).run(agent(), "go", **ASKED)
    assert len(caught.value.messages) == 2


async def test_a_providers_stream_becomes_chunks():
    received = []
    pieces = [
        TextDelta("void"),
        StreamRestart("broken"),
        ReasoningDelta("Hm."),
        TextDelta("Looking"),
        ToolCallDelta(0, "{}", "a", "fetch"),
        Response("Looking", tool_calls=(FETCH,), reasoning="Hm."),
    ]
    provider = Scripted(pieces, [Response(tool_calls=(SUBMIT,))])
    runner = WorkflowRunner(ProviderClient(provider, "any"), stream=True, on_chunk=received.append)
    assert await runner.run(agent(), "go", **ASKED) == "submit done"
    assert [(chunk.type, chunk.content) for chunk in received[:6]] == [
        (ChunkType.TEXT_DELTA, "void"),
        (ChunkType.RESTART, "broken"),
        (ChunkType.REASONING_DELTA, "Hm."),
        (ChunkType.TEXT_DELTA, "Looking"),
        (ChunkType.TOOL_CALL_DELTA, "{}"),
        (ChunkType.FINAL, ""),
    ]
    assert provider.requests[0].stream
    assert provider.closed_replies == 2


async def test_a_listener_that_fails_lets_go_of_the_stream():
    def refuse(_):
        raise RuntimeError("no room")

    provider = Scripted([TextDelta("one"), TextDelta("two"), Response("one two")])
    with pytest.raises(RuntimeError, match="no room"):
        await WorkflowRunner(ProviderClient(provider, "any"), stream=True, on_chunk=refuse).run(agent(), "go", **ASKED)
    assert provider.closed_replies == 1


FLOW = "{name: flow, config: {model: m}, steps: [{id: a, type: llm_call, prompt: Hi}]}"


class SendsOnly:
    async def send(self, messages, tools=None):
        return []


@pytest.mark.parametrize(
    ("client", "description", "hint"),
    [
        (MockProvider(), "MockProvider", "wrap it: ProviderClient(provider, model=…)"),
        (agent(), "Workflow", "WorkflowRunner(client), then run(workflow, user_message)"),
        (["hello"], "list", "a ScriptedClient([…])"),
        (ScriptedClient, "the class ScriptedClient itself", "a ScriptedClient([…])"),
        ("gpt-5", "a str", "a ProviderClient"),
        (None, "None", "a ProviderClient"),
    ],
)
def test_what_is_no_client_is_refused(client, description, hint):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(client)
    assert caught.value.source == "client"
    assert caught.value.reason == f"expected a client, got {description}"
    assert hint in caught.value.hint


def test_a_client_that_cannot_stream_is_refused_where_it_should():
    WorkflowRunner(SendsOnly())
    with pytest.raises(InputError, match="expected a client, got SendsOnly"):
        WorkflowRunner(SendsOnly(), stream=True)


@pytest.mark.parametrize(
    ("options", "description"),
    [
        (
            {"context_manager": TieredCompact()},
            (
                "context_manager: expected a ContextManager, got TieredCompact\n"
                "  hint: context_manager=ContextManager(TieredCompact(), budget_tokens=…)"
            ),
        ),
        (
            {"policy": {"max_same_calls": 2}},
            "policy: expected a GuardPolicy, got dict\n  hint: policy=GuardPolicy(max_same_calls=2)",
        ),
        ({"max_iterations": "3"}, "max_iterations: expected an int, got '3'"),
        ({"max_tool_errors": "3"}, "max_tool_errors: expected an int, got '3'"),
    ],
)
def test_options_of_a_runner_are_refused_by_name(options, description):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(ScriptedClient([]), **options)
    assert str(caught.value) == description


@pytest.mark.parametrize(
    ("prompts", "source", "hint"),
    [
        ((parse_workflow(FLOW), "go"), "workflow", "WorkflowEngine(workflow, provider) runs a YAML workflow"),
        (("go", agent()), "workflow", "run(workflow, user_message), in this order"),
        ((agent(), {"role": "user", "content": "go"}), "user_message", ""),
    ],
)
def test_what_cannot_be_run_is_refused(prompts, source, hint):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(ScriptedClient([])).run_sync(*prompts)
    assert caught.value.source == source
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("max_same_calls", "three", "expected an int, got 'three'"),
        ("max_tool_errors", None, "expected an int, got None"),
        ("max_premature_ends", 1.5, "expected an int, got 1.5"),
        ("max_retries_per_step", True, "expected an int, got True"),
        ("budget_usd", "1", "expected a number, got '1'"),
        ("tool_timeout_s", [5], "expected a number, got [5]"),
        ("budget_tokens", True, "expected a number, got True"),
    ],
)
def test_a_field_of_a_policy_that_is_no_number_is_refused_by_name(field, value, reason):
    with pytest.raises(InputError) as caught:
        GuardPolicy(**{field: value})
    assert caught.value.source == field
    assert caught.value.reason == reason


async def test_a_budget_for_a_model_without_a_price_is_refused_at_the_start():
    provider, workflow = OpenAIProvider(base_url="http://127.0.0.1:9/v1"), Workflow("test", tools=[])
    runner = WorkflowRunner(ProviderClient(provider, "gpt-99"), policy=GuardPolicy(budget_usd=1.0))
    with pytest.raises(InputError, match="no price is known for model 'gpt-99'"):
        await runner.run(workflow, "go")
    with pytest.raises(ProviderConnectionError):  # no budget, no question
        await WorkflowRunner(ProviderClient(provider, "gpt-99")).run(workflow, "go")


def test_an_agent_answers_by_the_ready_tool_and_learns_of_its_budget():
    def look(page: int) -> str:
        """Read a page."""
        return "Once upon a time. " * 60

    client = ScriptedClient([ToolCall("look", {"page": 1}), ToolCall("respond", {"message": "It is a tale."})])
    context = ContextManager(NoCompact(), budget_tokens=300, on_warning=warning_text)
    flow = Workflow("reader", tools=[look, respond], terminal_tool="respond")
    assert WorkflowRunner(client, context).run_sync(flow, "Read page 1.") == "It is a tale."
    assert "of 300 tokens. Finish with what you have" in client.calls[1].messages[-1]["content"]
