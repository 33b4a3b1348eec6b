"""The Anthropic messages codec: where its wire differs from the OpenAI chat shape."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.base import WireRequest
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, RequestError
from offbook.messages import (
    ReasoningDelta,
    Request,
    Response,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from offbook.vendors import codec_of

from .strategies import json_values, names

CODEC = codec_of("anthropic")
USER = {"role": "user", "content": "Hi"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def encode(*messages, **fields):
    """The wire body of a request."""
    return CODEC.encode_request(Request(messages=messages, model="claude-opus-4-1", **fields)).body


def decode(**body):
    """The request in a wire body."""
    return CODEC.decode_request(WireRequest("/v1/messages", {"model": "m", "max_tokens": 10, "messages": []} | body))


def call(call_id, tool, arguments):
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def unknown(kind):
    return kind not in {"text", "image", "image_url", "tool_use", "tool_result"}


unknown_parts = st.builds(
    lambda kind, fields: fields | {"type": kind}, names.filter(unknown), st.dictionaries(names, json_values, max_size=3)
)


class TestRequests:
    def test_goes_to_the_messages_path_with_the_version_and_the_key(self):
        assert CODEC.encode_request(Request(messages=(USER,), model="m")).path == "/v1/messages"
        assert CODEC.auth_headers("sk") == {"anthropic-version": "2023-06-01", "x-api-key": "sk"}
        assert CODEC.auth_headers("") == {"anthropic-version": "2023-06-01"}

    def test_a_plain_request_says_no_more_than_it_must(self):
        assert encode(USER) == {"model": "claude-opus-4-1", "max_tokens": 4096, "messages": [USER]}

    def test_what_has_no_field_of_its_own_travels_in_extra(self):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        body = encode(USER, temperature=0.5, max_tokens=7, stream=True, extra={"thinking": thinking, "top_k": 3})
        assert body == {
            "model": "claude-opus-4-1",
            "max_tokens": 7,
            "messages": [USER],
            "temperature": 0.5,
            "stream": True,
            "thinking": thinking,
            "top_k": 3,
        }
        decoded = CODEC.decode_request(WireRequest("/v1/messages", body))
        assert decoded.extra == {"thinking": thinking, "top_k": 3}
        assert decoded.temperature == 0.5
        assert decoded.max_tokens == 7
        assert decoded.stream

    @pytest.mark.parametrize(
        ("choice", "wire"),
        [
            ("auto", {"type": "auto"}),
            ("required", {"type": "any"}),
            ("none", {"type": "none"}),
            ({"type": "function", "function": {"name": "get"}}, {"type": "tool", "name": "get"}),
            ({"type": "auto", "disable_parallel_tool_use": True}, {"type": "auto", "disable_parallel_tool_use": True}),
        ],
    )
    def test_a_tool_choice_is_translated_both_ways(self, choice, wire):
        assert encode(USER, tool_choice=choice)["tool_choice"] == wire
        assert decode(tool_choice=wire).tool_choice == choice


class TestTools:
    def test_a_function_tool_is_flattened_and_back(self):
        wire = {
            "name": "get_weather",
            "description": "Current weather",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
        assert encode(USER, tools=(WEATHER,))["tools"] == [wire]
        assert decode(tools=[wire]).tools == (WEATHER,)
        assert decode(tools=[wire | {"type": "custom"}]).tools == (WEATHER,)

    def test_what_a_tool_says_beside_its_function_goes_along(self):
        function = WEATHER["function"] | {"strict": True}
        tool = {"type": "function", "function": function, "cache_control": {"type": "ephemeral"}}
        wire = encode(USER, tools=(tool,))["tools"][0]
        assert wire["strict"] is True
        assert wire["cache_control"] == {"type": "ephemeral"}
        assert decode(tools=[wire]).tools == (tool,)

    def test_a_function_without_parameters_takes_an_empty_object(self):
        tool = {"type": "function", "function": {"name": "now"}}
        assert encode(USER, tools=(tool,))["tools"] == [
            {"name": "now", "input_schema": {"type": "object", "properties": {}}}
        ]

    def test_a_tool_of_another_type_passes_untouched_both_ways(self):
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
        assert encode(USER, tools=(search,))["tools"] == [search]
        assert decode(tools=[search]).tools == (search,)

    def test_a_function_tool_without_its_function_is_refused(self):
        with pytest.raises(RequestError):
            encode(USER, tools=({"type": "function"},))


class TestSystemPrompt:
    def test_one_text_becomes_a_string(self):
        body = encode({"role": "system", "content": "Be brief."}, USER)
        assert body["system"] == "Be brief."
        assert body["messages"] == [USER]
        assert decode(**body).messages == ({"role": "system", "content": "Be brief."}, USER)

    def test_several_messages_become_blocks_and_messages_again(self):
        several = ({"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."})
        body = encode(*several, USER)
        assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
        assert decode(**body).messages == (*several, USER)

    def test_a_list_of_parts_stays_one_message(self):
        parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B", "cache_control": {"type": "ephemeral"}}]
        message = {"role": "system", "content": parts}
        body = encode(message, USER)
        assert body["system"] == parts
        assert decode(**body).messages == (message, USER)

    def test_a_developer_message_counts_as_system_wherever_it_stands(self):
        body = encode(USER, {"role": "developer", "content": "Be brief."})
        assert body["system"] == "Be brief."
        assert body["messages"] == [USER]

    def test_a_system_message_inside_the_conversation_is_read_in_place(self):
        later = {"role": "system", "content": "Now be brief."}
        assert decode(messages=[USER, later]).messages == (USER, later)


class TestConversation:
    def test_tool_calls_and_their_results_become_blocks_of_one_message_each(self):
        assistant = {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [call("toolu_1", "get_weather", '{"city":"Rome"}'), call("toolu_2", "now", "{}")],
        }
        results = (
            {"role": "tool", "tool_call_id": "toolu_1", "content": "21 °C"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "noon"},
        )
        thanks = {"role": "user", "content": "Thanks"}
        body = encode(USER, assistant, *results, thanks)
        assert body["messages"] == [
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "21 °C"},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "noon"},
                ],
            },
            thanks,
        ]
        assert decode(**body).messages == (USER, assistant, *results, thanks)

    def test_user_messages_in_a_row_stay_separate(self):
        assert encode(USER, USER)["messages"] == [USER, USER]
        assert decode(messages=[USER, USER]).messages == (USER, USER)

    def test_results_are_read_before_the_text_that_a_client_put_around_them(self):
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "21 °C"}]}
        decoded = decode(messages=[{"role": "user", "content": [{"type": "text", "text": "And now?"}, result]}])
        assert decoded.messages == (
            {"role": "tool", "tool_call_id": "toolu_1", "content": "21 °C"},
            {"role": "user", "content": "And now?"},
        )

    def test_a_failed_result_stays_a_failure(self):
        message = {"role": "tool", "tool_call_id": "toolu_1", "content": "no such city", "is_error": True}
        body = encode(message)
        assert body["messages"][0]["content"] == [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True}
        ]
        assert decode(**body).messages == (message,)

    def test_a_result_without_content_is_empty(self):
        block = {"type": "tool_result", "tool_use_id": "toolu_1"}
        assert decode(messages=[{"role": "user", "content": [block]}]).messages == (
            {"role": "tool", "tool_call_id": "toolu_1", "content": ""},
        )

    @pytest.mark.parametrize("content", [None, ""])
    def test_a_call_without_text_sends_no_text_block(self, content):
        message = {"role": "assistant", "content": content, "tool_calls": [call("toolu_1", "now", "")]}
        assert encode(message)["messages"][0]["content"] == [
            {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
        ]

    def test_a_message_without_content_is_sent_as_empty_text(self):
        assert encode({"role": "assistant", "content": None})["messages"] == [{"role": "assistant", "content": ""}]

    @pytest.mark.parametrize("text", ['{"city": "Ro', "[1]", "null", "Rome"])
    def test_arguments_that_are_no_object_are_kept_as_text(self, text):
        message = {"role": "assistant", "content": None, "tool_calls": [call("toolu_1", "get", text)]}
        assert encode(message)["messages"][0]["content"][0]["input"] == {"raw_arguments": text}

    def test_arguments_given_as_an_object_are_sent_as_they_are(self):
        message = {"role": "assistant", "content": None, "tool_calls": [call("toolu_1", "get", {"city": "Rome"})]}
        assert encode(message)["messages"][0]["content"][0]["input"] == {"city": "Rome"}

    def test_reasoning_is_not_sent_but_thinking_blocks_are(self):
        blocks = [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "Emw"},
            {"type": "text", "text": "Hello"},
        ]
        message = {"role": "assistant", "content": blocks, "reasoning_content": "Hm."}
        body = encode(USER, message)
        assert body["messages"][1] == {"role": "assistant", "content": blocks}
        assert decode(**body).messages[1] == {"role": "assistant", "content": blocks}

    def test_thinking_blocks_stand_before_the_calls_they_led_to(self):
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}
        cached = call("toolu_1", "now", "{}") | {"cache_control": {"type": "ephemeral"}}
        message = {"role": "assistant", "content": [thinking], "tool_calls": [cached]}
        use = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}, "cache_control": {"type": "ephemeral"}}
        body = encode(message)
        assert body["messages"] == [{"role": "assistant", "content": [thinking, use]}]
        assert decode(**body).messages == (message,)

    def test_fields_that_the_api_does_not_know_are_left_out(self):
        assert encode(USER | {"name": "ann"})["messages"] == [USER]

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "tool_result", "content": "21 °C"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": 21},
        ],
    )
    def test_a_result_of_another_shape_is_refused(self, block):
        with pytest.raises(RequestError):
            decode(messages=[{"role": "user", "content": [block]}])

    def test_a_call_of_another_shape_is_refused(self):
        with pytest.raises(RequestError):
            decode(messages=[{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1"}]}])
        with pytest.raises(RequestError):
            encode({"role": "assistant", "tool_calls": [{"id": "toolu_1"}]})


class TestContent:
    @pytest.mark.parametrize(
        ("url", "source"),
        [
            ("data:image/png;base64,iVBORw0=", {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}),
            ("https://example.com/cat.jpg", {"type": "url", "url": "https://example.com/cat.jpg"}),
        ],
    )
    def test_an_image_is_translated_both_ways(self, url, source):
        text = {"type": "text", "text": "What is it?"}
        content = [text, {"type": "image_url", "image_url": {"url": url}, "cache_control": {"type": "ephemeral"}}]
        body = encode({"role": "user", "content": content})
        block = {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}
        assert body["messages"][0]["content"] == [text, block]
        assert decode(**body).messages[0]["content"] == content

    def test_an_image_in_a_tool_result_is_translated_too(self):
        parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}]
        message = {"role": "tool", "tool_call_id": "toolu_1", "content": parts}
        body = encode(message)
        assert body["messages"][0]["content"][0]["content"][0]["source"]["media_type"] == "image/png"
        assert decode(**body).messages == (message,)

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "image_url", "image_url": {"url": "gs://bucket/cat.jpg"}},
            {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
            {"type": "image_url", "image_url": {}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        ],
    )
    def test_an_image_from_elsewhere_passes_untouched_both_ways(self, part):
        body = encode({"role": "user", "content": [part]})
        assert body["messages"][0]["content"] == [part]
        assert decode(**body).messages[0]["content"] == [part]

    @given(parts=st.lists(unknown_parts, min_size=1, max_size=3), role=st.sampled_from(["user", "assistant", "tool"]))
    def test_unknown_parts_pass_untouched_both_ways(self, parts, role):
        message = {"role": role, "content": parts} | ({"tool_call_id": "toolu_1"} if role == "tool" else {})
        body = encode(message)
        (block,) = body["messages"]
        sent = block["content"][0]["content"] if role == "tool" else block["content"]
        assert sent == parts
        assert decode(**orjson.loads(orjson.dumps(body))).messages == (message,)

    def test_a_single_block_of_nothing_but_text_is_read_as_text(self):
        plain = {"type": "text", "text": "Hi"}
        cached = plain | {"cache_control": {"type": "ephemeral"}}
        assert decode(messages=[{"role": "user", "content": [plain]}]).messages == (USER,)
        assert decode(messages=[{"role": "user", "content": [cached]}]).messages[0]["content"] == [cached]
        assert decode(messages=[{"role": "user", "content": [plain, plain]}]).messages[0]["content"] == [plain, plain]


MESSAGE = b"""{
  "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "model": "claude-opus-4-1-20250805",
  "content": [
    {"type": "thinking", "thinking": "The user wants weather.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
    {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
    {"type": "text", "text": "Let me ", "citations": null},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Rome"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]},
    {"type": "text", "text": "check."},
    {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "get_weather", "input": {"city": "Rome"}}
  ],
  "stop_reason": "tool_use", "stop_sequence": null,
  "usage": {"input_tokens": 21, "cache_creation_input_tokens": 188, "cache_read_input_tokens": 1000,
            "output_tokens": 393, "output_tokens_details": {"thinking_tokens": 40}, "service_tier": "standard"}
}"""


class TestResponses:
    def test_blocks_are_sorted_by_kind_and_unknown_ones_left_out(self):
        assert CODEC.decode_response(MESSAGE) == Response(
            content="Let me check.",
            model="claude-opus-4-1-20250805",
            usage=Usage.of(1209, 393, cached=1000, reasoning=40),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("get_weather", {"city": "Rome"}, "toolu_01A09q90qw90lq917835lq9"),),
            reasoning="The user wants weather.",
        )

    def test_a_response_is_written_as_the_sdk_reads_it(self):
        response = Response(
            content="Sure.",
            model="claude-opus-4-1",
            usage=Usage.of(10, 5, cached=4, reasoning=2),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("now", {"zone": "UTC"}, "toolu_1"), ToolCall("now", raw_arguments="{")),
            reasoning="Hm.",
        )
        assert CODEC.encode_response(response) == {
            "id": "msg_offbook",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-1",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "text", "text": "Sure."},
                {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"zone": "UTC"}},
                {"type": "tool_use", "id": "toolu_offbook_1", "name": "now", "input": {"raw_arguments": "{"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 6,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 4,
                "output_tokens": 5,
                "output_tokens_details": {"thinking_tokens": 2},
            },
        }

    @pytest.mark.parametrize(
        ("stop_reason", "finish_reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
            ("pause_turn", "pause_turn"),
            (None, None),
        ],
    )
    def test_a_stop_reason_is_reported_in_our_words(self, stop_reason, finish_reason):
        data = orjson.dumps({"content": [], "stop_reason": stop_reason})
        assert CODEC.decode_response(data).finish_reason == finish_reason

    @pytest.mark.parametrize(
        ("finish_reason", "stop_reason"),
        [
            ("stop", "end_turn"),
            ("length", "max_tokens"),
            ("tool_calls", "tool_use"),
            ("content_filter", "refusal"),
            ("pause_turn", "pause_turn"),
            (None, None),
        ],
    )
    def test_a_finish_reason_is_reported_in_the_vendors_words(self, finish_reason, stop_reason):
        assert CODEC.encode_response(Response(finish_reason=finish_reason))["stop_reason"] == stop_reason

    @pytest.mark.parametrize(
        "message",
        [
            {"type": "error", "error": {"type": "api_error", "message": "no"}},
            {"content": "text"},
            {"content": [{"text": "no type"}]},
            {"content": [{"type": "tool_use", "name": "now", "input": "{}"}]},
            {"content": [], "usage": {"input_tokens": "many"}},
        ],
    )
    def test_a_message_of_another_shape_is_malformed(self, message):
        with pytest.raises(MalformedResponseError):
            CODEC.decode_response(orjson.dumps(message))


class TestErrors:
    @pytest.mark.parametrize(
        ("status_code", "kind"),
        [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (402, "billing_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (409, "conflict_error"),
            (413, "request_too_large"),
            (422, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "api_error"),
            (504, "timeout_error"),
            (529, "overloaded_error"),
        ],
    )
    def test_a_status_has_the_vendors_error_type(self, status_code, kind):
        body = CODEC.encode_error(status_code, "no")
        assert body == {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_offbook"}

    def test_the_message_of_a_real_error_body_is_found(self):
        data = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}'
        assert CODEC.decode_error(data) == "Overloaded"


STREAM = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_014p7gG3wDgGV9EUtLvnow3U","type":"message","role":"assistant",\
"model":"claude-opus-4-1-20250805","stop_sequence":null,"usage":{"input_tokens":472,"cache_creation_input_tokens":0,\
"cache_read_input_tokens":128,"output_tokens":2},"content":[],"stop_reason":null}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two cities, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"two calls."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Okay"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":", let's see:"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_1",\
"name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"query\\": 1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6",\
"name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\\"city\\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":" \\"Rome\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_01A09q90qw90lq917835lq9",\
"name":"get_weather","input":{"city":"Oslo"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"""


def frame(event, **data):
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {orjson.dumps(data).decode()}\n\n".encode()


START = frame("message_start", type="message_start", message={"model": "m", "usage": {"input_tokens": 3}})
TEXT = frame(
    "content_block_delta", type="content_block_delta", index=0, delta={"type": "text_delta", "text": "half a th"}
)
END = frame("message_delta", type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9})
STOP = frame("message_stop", type="message_stop")


def read(*frames):
    """All deltas of a stream, and the response they make up."""
    decoder = CODEC.stream_decoder()
    deltas = [delta for data in frames for delta in decoder.feed(data)]
    left, response = decoder.close()
    return deltas + left, response


class TestStreams:
    def test_a_recorded_stream_is_read_whole(self):
        deltas, response = read(STREAM.encode())
        assert deltas == [
            ReasoningDelta("Two cities, "),
            ReasoningDelta("two calls."),
            TextDelta("Okay"),
            TextDelta(", let's see:"),
            ToolCallDelta(0, "", "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather"),
            ToolCallDelta(0, '{"city":'),
            ToolCallDelta(0, ' "Rome"}'),
            ToolCallDelta(1, '{"city":"Oslo"}', "toolu_01A09q90qw90lq917835lq9", "get_weather"),
        ]
        assert response == Response(
            content="Okay, let's see:",
            model="claude-opus-4-1-20250805",
            usage=Usage.of(600, 89, cached=128),
            finish_reason="tool_calls",
            tool_calls=(
                ToolCall("get_weather", {"city": "Rome"}, "toolu_01T1x1fJ34qAmk2tNTrN7Up6"),
                ToolCall("get_weather", {"city": "Oslo"}, "toolu_01A09q90qw90lq917835lq9"),
            ),
            reasoning="Two cities, two calls.",
        )

    def test_counts_sent_again_at_the_end_replace_the_first_ones(self):
        usage = {"input_tokens": 50, "cache_read_input_tokens": 8, "output_tokens": 9}
        end = frame("message_delta", type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        assert read(START, end, STOP)[1].usage == Usage.of(58, 9, cached=8)

    def test_input_given_whole_at_the_start_is_not_taken_twice(self):
        block = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"zone": "UTC"}}
        start = frame("content_block_start", type="content_block_start", index=0, content_block=block)
        piece = {"type": "input_json_delta", "partial_json": '{"zone":"UTC"}'}
        again = frame("content_block_delta", type="content_block_delta", index=0, delta=piece)
        assert read(START, start, again, END)[1].tool_calls == (ToolCall("now", {"zone": "UTC"}, "toolu_1"),)

    def test_a_stream_that_reports_no_counts_has_none(self):
        start = frame("message_start", type="message_start", message={"model": "m"})
        end = frame("message_delta", type="message_delta", delta={"stop_reason": "end_turn"})
        assert read(start, end)[1].usage == Usage()

    def test_text_that_a_block_starts_with_is_read(self):
        block = {"type": "text", "text": "Well, "}
        start = frame("content_block_start", type="content_block_start", index=0, content_block=block)
        assert read(START, start, TEXT, END)[1].content == "Well, half a th"

    def test_events_without_a_name_are_reported_by_their_type(self):
        nameless = [data.split(b"\n", 1)[1] for data in (START, TEXT, END)]
        assert read(*nameless) == read(START, TEXT, END)

    def test_events_of_an_unknown_kind_are_ignored(self):
        news = frame("news", type="news", message="of another shape", index="none", delta=5)
        assert read(START, news, TEXT, END) == read(START, TEXT, END)

    def test_nothing_counts_after_the_end(self):
        assert read(START, TEXT, END, STOP, TEXT, b"data: [DONE]\n\n") == read(START, TEXT, END)

    @pytest.mark.parametrize("ending", [END, STOP])
    def test_a_stop_reason_or_a_stop_event_makes_a_stream_complete(self, ending):
        assert read(START, TEXT, ending)[1].content == "half a th"

    def test_a_stream_without_either_broke(self):
        with pytest.raises(ProviderConnectionError):
            read(START, TEXT, frame("ping", type="ping"))

    def test_an_error_inside_the_stream_is_raised_with_its_body(self):
        error = {"type": "overloaded_error", "message": "Overloaded"}
        data = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
        for event in ("error", ""):
            decoder = CODEC.stream_decoder()
            assert list(decoder.feed(START + TEXT)) == [TextDelta("half a th")]
            with pytest.raises(ProviderError, match="Overloaded") as caught:
                list(decoder.feed(frame(event, type="error", error=error)))
            assert type(caught.value) is ProviderError
            assert caught.value.body == data

    @pytest.mark.parametrize(
        "data",
        [
            b"event: message_start\ndata: not json\n\n",
            frame("message_start", type="message_start"),
            frame("content_block_start", type="content_block_start", index=0),
            frame("content_block_delta", type="content_block_delta", index=0, delta={"type": "text_delta", "text": 5}),
        ],
    )
    def test_an_event_of_another_shape_is_malformed(self, data):
        with pytest.raises(MalformedResponseError):
            list(CODEC.stream_decoder().feed(data))

    def test_a_stream_is_written_in_the_order_that_sdks_insist_on(self):
        response = Response(
            content="Okay.", model="claude-opus-4-1", usage=Usage.of(10, 5, cached=4), finish_reason="tool_calls"
        )
        deltas = [
            ReasoningDelta("Hm."),
            TextDelta("Ok"),
            TextDelta("ay."),
            ToolCallDelta(0, '{"zone":', "toolu_1", "now"),
            ToolCallDelta(0, '"UTC"}'),
            ToolCallDelta(1, "{}", None, "now"),
        ]
        usage = {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 0,
            "output_tokens_details": {"thinking_tokens": 0},
        }
        message = {
            "id": "msg_offbook",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-1",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        assert [unframe(data) for data in CODEC.encode_stream(response, deltas)] == [
            {"type": "message_start", "message": message},
            start(0, {"type": "thinking", "thinking": "", "signature": ""}),
            piece(0, {"type": "thinking_delta", "thinking": "Hm."}),
            stop(0),
            start(1, {"type": "text", "text": ""}),
            piece(1, {"type": "text_delta", "text": "Ok"}),
            piece(1, {"type": "text_delta", "text": "ay."}),
            stop(1),
            start(2, {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}),
            piece(2, {"type": "input_json_delta", "partial_json": '{"zone":'}),
            piece(2, {"type": "input_json_delta", "partial_json": '"UTC"}'}),
            stop(2),
            start(3, {"type": "tool_use", "id": "toolu_offbook_1", "name": "now", "input": {}}),
            piece(3, {"type": "input_json_delta", "partial_json": "{}"}),
            stop(3),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": usage | {"output_tokens": 5},
            },
            {"type": "message_stop"},
        ]


def unframe(data):
    """The data of one frame, whose event name must be the data's type."""
    name, line, *blank = data.decode().split("\n")
    content = orjson.loads(line.removeprefix("data: "))
    assert name == f"event: {content['type']}"
    assert blank == ["", ""]
    return content


def start(index, block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index, delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index):
    return {"type": "content_block_stop", "index": index}
