"""Answers of vendors' SDKs as our values."""

import pytest
from openai.types.chat import ChatCompletion

from offbook import InputError, MalformedResponseError, ToolCall, Usage, read_response

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"order": 42}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
}


@pytest.mark.parametrize(
    "answer",
    [ChatCompletion.model_validate(COMPLETION), COMPLETION, ChatCompletion.model_validate(COMPLETION).to_json()],
)
def test_an_answer_of_the_openai_sdk_is_read_with_its_calls_usage_and_cost(answer):
    response = read_response(answer)
    assert response.tool_calls == (ToolCall("find", {"order": 42}, "a"),)
    assert (response.usage, response.provider) == (Usage.of(100, 10), "openai")
    assert response.cost_usd > 0


def test_other_vendors_are_named():
    answer = {"message": {"role": "assistant", "content": "Hi"}, "model": "llama3", "done": True, "done_reason": "stop"}
    response = read_response(answer, "ollama")
    assert (response.content, response.cost_usd) == ("Hi", 0.0)


def test_an_unknown_vendor_is_refused():
    with pytest.raises(InputError, match="one of: openai, openai_responses, anthropic, google, ollama"):
        read_response(COMPLETION, "opnai")


def test_what_is_no_answer_is_refused():
    with pytest.raises(InputError, match="got list"):
        read_response([COMPLETION])
    with pytest.raises(MalformedResponseError):
        read_response({"error": "nope"})
