"""A model whose lines are written beforehand."""

import pytest

from offbook import InputError, OffbookError, Response
from offbook.agent import (
    GuardPolicy,
    PromptedTools,
    ScriptedClient,
    ScriptError,
    TextResponse,
    ToolCall,
    ToolCallError,
    Workflow,
    WorkflowRunner,
)
from offbook.agent.clients import prompt_tools
from offbook.tools import ToolSpec
from tests.agent.small_agents import FETCH, SUBMIT, agent, run_script


def int_of(after):
    return after


async def test_lines_come_in_many_shapes():
    lines = [
        "text",
        TextResponse("text"),
        Response("text"),
        FETCH,
        [FETCH, FETCH],
        lambda messages, tools: ToolCall(tools[1].name, {"after": len(messages)}),
    ]
    end = await run_script(lines, agent(submit=lambda after: after), max_iterations=9)
    assert end.result == 13


async def test_a_script_that_runs_out_says_so():
    end = await run_script([FETCH], catch=ScriptError)
    assert str(end.error) == "called a 2nd time, but the script has 1 line\n  the last message (tool): fetch done"


async def test_what_was_asked_once_too_often_is_kept():
    end = await run_script([SUBMIT], catch=ScriptError)
    assert "the last message (tool): [StepEnforcementError] You cannot call submit yet." in str(end.error)
    assert list(end.error.messages) == list(end.client.calls[1].messages)
    assert end.client.left == []


async def test_a_long_message_is_shortened():
    with pytest.raises(ScriptError) as caught:
        await ScriptedClient([]).send([{"role": "user", "content": "x" * 1000}])
    assert str(caught.value).endswith(f" {'x' * 199}…")


async def test_a_script_that_is_asked_nothing_says_so_too():
    with pytest.raises(ScriptError, match=r"called a 1st time, but the script has 0 lines$"):
        await ScriptedClient([]).send([])


async def test_a_function_of_one_parameter_gets_the_messages_alone():
    end = await run_script([FETCH, lambda messages: ToolCall("submit", {"after": len(messages)})], agent(submit=int_of))
    assert end.result == 4


async def test_a_function_that_does_not_tell_what_it_takes_gets_messages_and_tools():
    assert await ScriptedClient([max]).send([], []) == Response()


@pytest.mark.parametrize("line", ["hello", FETCH, Response("x"), KeyError("x"), {"content": "x"}, len, None])
def test_a_line_that_is_no_list_is_refused(line):
    with pytest.raises(InputError, match="lines: expected a list of lines, got ") as caught:
        ScriptedClient(line)
    assert caught.value.hint.startswith("ScriptedClient([")


async def test_an_error_in_the_script_is_raised():
    await run_script([KeyError("x")], catch=KeyError)


async def test_lines_left_over_are_complained_about():
    with (
        pytest.raises(ScriptError, match="1 of 3 lines unused"),
        ScriptedClient([FETCH, SUBMIT, "never said"]) as client,
    ):
        await WorkflowRunner(client).run(agent(), "go", prompt_vars={"role": "tester"})
    assert client.left == ["never said"]


async def test_a_test_that_failed_is_not_complained_about():
    with pytest.raises(ZeroDivisionError), ScriptedClient(["never said"]):
        raise ZeroDivisionError


async def test_a_script_that_was_played_to_its_end_is_fine():
    with ScriptedClient([FETCH, SUBMIT]) as client:
        await WorkflowRunner(client).run(agent(), "go", prompt_vars={"role": "tester"})
    client.assert_used_up()


def test_a_script_error_is_one_of_ours():
    assert issubclass(ScriptError, OffbookError)


LOOK = ToolSpec("look", "Look at a page.", {"type": "object", "properties": {"page": {"type": "integer"}}})
CALLS = [
    {"id": "a", "type": "function", "function": {"name": "look", "arguments": {"page": 1}}},
    {"id": "b", "type": "function", "function": {"name": "look", "arguments": '{"page": 2'}},
]


def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}"


def submit(text: str) -> str:
    """Finish."""
    return text


READER = Workflow("reader", tools=[look, submit], required_steps=["look"], terminal_tool="submit")


async def played(*lines, **options):
    client = ScriptedClient(lines)
    result = await WorkflowRunner(PromptedTools(client), **options).run(READER, "Read page 1.")
    return client, result


def test_the_system_prompt_describes_the_tools():
    [system, user] = prompt_tools(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], [LOOK]
    )
    assert system["content"].startswith("Be brief.\n\nYou have tools.")
    assert system["content"].endswith(
        '- look: Look at a page.\n  arguments: {"type": "object", "properties": {"page": {"type": "integer"}}}'
    )
    assert user == {"role": "user", "content": "Hi"}


def test_a_conversation_without_a_system_prompt_gets_one():
    assert [message["role"] for message in prompt_tools([{"role": "user", "content": "Hi"}], [LOOK])] == [
        "system",
        "user",
    ]


def test_without_tools_there_is_nothing_to_describe():
    assert prompt_tools([{"role": "user", "content": "Hi"}], []) == [{"role": "user", "content": "Hi"}]


def test_calls_and_results_are_text():
    conversation = [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": "Both.", "tool_calls": CALLS},
        {"role": "tool", "content": "one", "tool_call_id": "a", "name": "look"},
        {"role": "tool", "content": "two", "tool_call_id": "b"},
        {"role": "user", "content": "And now?"},
    ]
    assert prompt_tools(conversation, []) == [
        {"role": "user", "content": "Read."},
        {
            "role": "assistant",
            "content": 'Both.\n{"tool": "look", "args": {"page": 1}}\n{"tool": "look", "args": {"page": 2}',
        },
        {"role": "user", "content": "Result of look:\none\n\nResult of the call:\ntwo\n\nAnd now?"},
    ]


def test_parts_of_a_message_stay_parts():
    picture = {"role": "user", "content": [{"type": "text", "text": "Look"}]}
    assert prompt_tools([{"role": "user", "content": "Hi"}, picture], []) == [
        {"role": "user", "content": "Hi"},
        picture,
    ]


async def test_an_agent_runs_on_a_model_that_writes_its_calls():
    client, result = await played(
        '{"tool": "look", "args": {"page": 1}}', '{"tool": "submit", "args": {"text": "read"}}'
    )
    assert result == "read"
    assert [call.tools for call in client.calls] == [[], []]
    assert client.calls[1].messages[-2:] == [
        {"role": "assistant", "content": '{"tool": "look", "args": {"page": 1}}'},
        {"role": "user", "content": "Result of look:\npage 1"},
    ]


async def test_the_guards_speak_to_such_a_model_too():
    client, result = await played(
        '{"tool": "submit", "args": {"text": "too soon"}}',
        '{"tool": "look", "args": {"page": 1}}',
        '{"tool": "submit", "args": {"text": "read"}}',
    )
    assert result == "read"
    assert "You cannot call submit yet." in client.calls[1].messages[-1]["content"]


async def test_a_streamed_answer_is_read_alike():
    lines = ('{"tool": "look", "args": {"page": 1}}', '{"tool": "submit", "args": {"text": "read"}}')
    assert (await played(*lines, stream=True))[1] == "read"


async def test_it_needs_the_rescue_of_calls():
    policy = GuardPolicy(rescue=False, max_retries_per_step=0)
    with pytest.raises(ToolCallError):
        await played('{"tool": "look", "args": {"page": 1}}', policy=policy)
