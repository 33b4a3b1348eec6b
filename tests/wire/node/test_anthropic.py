"""The Anthropic SDK for Node as a client of the stand-in."""

import pytest

from tests.wire.conformance.answers import ODD_TEXT, PLAIN, REASONING
from tests.wire.node.questions import ANTHROPIC

pytestmark = pytest.mark.xdist_group("node_sdks")

TOOLS = [("call_a", "weather", {"city": "Oslo"}), ("call_b", "clock", {})]
HELPER = {"call": "messages.stream", "final": "finalMessage"}
both_ways = pytest.mark.parametrize("how", [{}, HELPER], ids=["whole", "streamed"])


@both_ways
def test_a_message_brings_the_text_and_the_usage(ask, how):
    answer = ask(ANTHROPIC, **how).value
    assert [block["text"] for block in answer["content"]] == [PLAIN]
    assert answer["usage"]["cache_read_input_tokens"] == 3
    assert answer["usage"]["output_tokens"] == 5
    assert answer["stop_reason"] == "end_turn"


@both_ways
def test_odd_text_comes_unchanged(ask, how):
    assert ask(ANTHROPIC, "odd", **how).value["content"][0]["text"] == ODD_TEXT


def test_a_streamed_message_begins_and_ends_as_it_should(ask):
    pieces = ask(ANTHROPIC, is_streamed=True).pieces
    assert pieces[0]["type"] == "message_start"
    assert pieces[-1]["type"] == "message_stop"
    assert len([piece for piece in pieces if piece["type"] == "content_block_delta"]) > 3


@both_ways
def test_parallel_tool_calls_are_distinguished_whole_and_in_pieces(ask, how):
    answer = ask(ANTHROPIC, "tools", **how).value
    uses = [block for block in answer["content"] if block["type"] == "tool_use"]
    assert [(use["id"], use["name"], use["input"]) for use in uses] == TOOLS
    assert answer["stop_reason"] == "tool_use"


@both_ways
def test_thinking_comes_before_the_text(ask, how):
    thinking, text = ask(ANTHROPIC, "thinking", **how).value["content"]
    assert thinking["thinking"] == REASONING
    assert text["text"] == "Forty-two."


def test_tokens_are_counted(ask):
    params = {"max_tokens": None}
    assert ask(ANTHROPIC, call="messages.countTokens", params=params).value["input_tokens"] > 0


def test_an_unknown_beta_is_tolerated(ask):
    answer = ask(ANTHROPIC, call="beta.messages.create", params={"betas": ["no-such-beta-2026-01-01"]}).value
    assert answer["content"][0]["text"] == PLAIN
