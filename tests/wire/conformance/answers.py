"""What the stand-in answers in these tests, by step."""

from __future__ import annotations

from pydantic import BaseModel

STEP = "x-offbook-step"
QUESTION = "How are you?"
PLAIN = "Very well, thank you, and how are you today?"
ODD_TEXT = 'Grüße, 世界 👩‍👩‍👧 \u0085 \u2028 \u2029 \x00 "quoted" back\\slash\nnew line ' * 40
JSON_TEXT = '{"city": "Oslo", "celsius": 21}'
REASONING = "Let me think. Twice."


class Weather(BaseModel):
    """What `JSON_TEXT` says, for SDKs that read answers into a type."""

    city: str
    celsius: int


ANSWERS = {
    "plain": {
        "content": PLAIN,
        "model": "model-1",
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "cached_tokens": 3},
    },
    "odd": {"content": ODD_TEXT},
    "json": {"content": JSON_TEXT},
    "thinking": {
        "content": "Forty-two.",
        "reasoning": REASONING,
        "chunks": [[0, {"reasoning": "Let me think."}], [0, {"reasoning": " Twice."}], [0, "Forty-"], [0, "two."]],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "reasoning_tokens": 4},
    },
    "cut": {"content": "Very", "finish_reason": "length"},
    "filtered": {"content": "", "finish_reason": "content_filter"},
    "empty": {"content": ""},
    "tools": {
        "content": "Let me look.",
        "tool_calls": [
            {"id": "call_a", "name": "weather", "arguments": {"city": "Oslo"}},
            {"id": "call_b", "name": "clock", "arguments": {}},
        ],
        "chunks": [
            [0, "Let me look."],
            [0, {"tool_call": {"index": 0, "id": "call_a", "name": "weather"}}],
            [0, {"tool_call": {"index": 0, "arguments": '{"city"'}}],
            [0, {"tool_call": {"index": 0, "arguments": ': "Oslo"}'}}],
            [0, {"tool_call": {"index": 1, "id": "call_b", "name": "clock", "arguments": "{}"}}],
        ],
    },
    "nameless": {
        "tool_calls": [
            {"name": "weather", "arguments": {"city": "Oslo"}},
            {"name": "weather", "arguments": {"city": "Rome"}},
        ]
    },
}
