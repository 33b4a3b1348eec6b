"""Tool calling as text, for models that have none."""

import pytest

from offbook.agent import GuardPolicy, PromptedTools, ScriptedClient, ToolCallError, Workflow, WorkflowRunner
from offbook.agent.prompted_tools import prompt_tools
from offbook.tools import ToolSpec

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
