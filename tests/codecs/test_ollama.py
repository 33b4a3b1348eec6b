"""Ollama's particulars: what its server and its SDK put on the wire, literally."""

import orjson
import pytest

from offbook.codecs.base import WireRequest
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, RequestError
from offbook.messages import ReasoningDelta, Request, Response, TextDelta, ToolCall, ToolCallDelta, Usage
from offbook.vendors import codec_of

CODEC = codec_of("ollama")
HELLO = {"role": "user", "content": "Hello"}


def request_of(*messages, **fields):
    return Request(messages=messages or (HELLO,), model="qwen3", **fields)


def encode(*messages, **fields):
    return CODEC.encode_request(request_of(*messages, **fields)).body


def decode(body):
    return CODEC.decode_request(WireRequest("/api/chat", {"model": "qwen3", "messages": []} | body))


def call_message(call_id, name, arguments):
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class TestRequests:
    def test_always_say_whether_to_stream(self):
        assert CODEC.encode_request(request_of()) == WireRequest(
            "/api/chat", {"model": "qwen3", "messages": [HELLO], "stream": False}
        )
        assert encode(stream=True)["stream"] is True

    @pytest.mark.parametrize(("body", "stream"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
    def test_that_do_not_say_whether_to_stream_ask_for_a_stream(self, body, stream):
        assert decode(body).stream is stream

    def test_merge_their_options_with_those_of_extra(self):
        request = request_of(
            temperature=0.5,
            max_tokens=100,
            tool_choice="required",
            extra={"options": {"num_ctx": 8192}, "keep_alive": "5m", "think": True},
        )
        body = CODEC.encode_request(request).body
        assert body == {
            "model": "qwen3",
            "messages": [HELLO],
            "stream": False,
            "tool_choice": "required",
            "options": {"temperature": 0.5, "num_predict": 100, "num_ctx": 8192},
            "keep_alive": "5m",
            "think": True,
        }
        assert decode(body) == request

    def test_carry_tools_as_they_are(self):
        tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}, "strict": True}}
        body = encode(tools=(tool,))
        assert body["tools"] == [tool]
        assert decode(body).tools == (tool,)

    @pytest.mark.parametrize("extra", [{"options": "hot"}, {"options": [1]}])
    def test_whose_options_are_no_object_are_refused(self, extra):
        with pytest.raises(RequestError):
            encode(extra=extra)

    @pytest.mark.parametrize(
        "body",
        [
            {"messages": [{"role": "user", "content": ["Hello"]}]},
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
            {"options": {"num_predict": "many"}},
            {"stream": "yes"},
        ],
    )
    def test_of_a_wrong_shape_are_refused(self, body):
        with pytest.raises(RequestError):
            decode(body)

    def test_carry_a_key_only_if_there_is_one(self):
        assert CODEC.auth_headers("secret") == {"Authorization": "Bearer secret"}
        assert CODEC.auth_headers("") == {}


class TestConversation:
    def test_keeps_its_roles_and_its_thoughts(self):
        messages = (
            {"role": "system", "content": "Be brief."},
            HELLO,
            {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting."},
        )
        body = encode(*messages)
        assert body["messages"] == [
            {"role": "system", "content": "Be brief."},
            HELLO,
            {"role": "assistant", "content": "Hi.", "thinking": "A greeting."},
        ]
        assert decode(body).messages == messages

    def test_calls_a_developer_the_system(self):
        assert encode({"role": "developer", "content": "Be brief."})["messages"][0]["role"] == "system"

    def test_has_text_even_where_a_message_says_nothing(self):
        assert encode({"role": "assistant", "content": None})["messages"] == [{"role": "assistant", "content": ""}]

    @pytest.mark.parametrize(
        ("media_type", "data"),
        [
            ("image/png", "iVBORw0KGgoAAAANSUhEUg=="),
            ("image/jpeg", "/9j/4AAQSkZJRg=="),
            ("image/gif", "R0lGODlhAQABAA=="),
            ("image/webp", "UklGRiQAAABXRUJQ"),
            ("application/octet-stream", "AAAA"),
        ],
    )
    def test_has_images_beside_its_text(self, media_type, data):
        image = {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        message = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}
        shown = {"role": "user", "content": [image]}
        body = encode(message, shown)
        assert body["messages"] == [
            {"role": "user", "content": "What is this?", "images": [data]},
            {"role": "user", "content": "", "images": [data]},
        ]
        assert decode(body).messages == (message, shown)

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ],
    )
    def test_with_what_the_server_cannot_take_is_refused(self, part):
        with pytest.raises(RequestError, match="Ollama does not support"):
            encode({"role": "user", "content": [part]})

    @pytest.mark.parametrize("message", [{"content": "no role"}, {"role": "user", "content": 5}])
    def test_in_another_shape_is_refused(self, message):
        with pytest.raises(RequestError):
            encode(message)


class TestToolCalls:
    def test_go_as_objects_and_results_with_the_name_of_their_tool(self):
        body = encode(
            call_message("a", "weather", '{"city": "Paris"}'),
            {"role": "tool", "tool_call_id": "a", "content": "sunny"},
            call_message("a", "clock", ""),
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "noon"}]},
        )
        assert body["messages"] == [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "function": {"name": "weather", "arguments": {"city": "Paris"}}}],
            },
            {"role": "tool", "content": "sunny", "tool_name": "weather", "tool_call_id": "a"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "function": {"name": "clock", "arguments": {}}}],
            },
            {"role": "tool", "content": "noon", "tool_name": "clock", "tool_call_id": "a"},
        ]

    def test_without_ids_are_numbered_and_results_find_their_calls(self):
        request = decode(
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
                            {"function": {"name": "clock", "arguments": {}}},
                        ],
                    },
                    {"role": "tool", "content": "noon", "tool_name": "clock"},
                    {"role": "tool", "content": "sunny"},
                    {"role": "assistant", "content": "One more.", "tool_calls": [{"function": {"name": "clock"}}]},
                    {"role": "tool", "content": "one", "tool_name": "clock"},
                ]
            }
        )
        first, noon, sunny, second, one = request.messages
        assert first["content"] is None
        assert [(call["id"], call["function"]) for call in first["tool_calls"]] == [
            ("call_0", {"name": "weather", "arguments": '{"city":"Paris"}'}),
            ("call_1", {"name": "clock", "arguments": "{}"}),
        ]
        assert noon == {"role": "tool", "content": "noon", "tool_call_id": "call_1"}
        assert sunny == {"role": "tool", "content": "sunny", "tool_call_id": "call_0"}
        assert second["content"] == "One more."
        assert second["tool_calls"][0]["id"] == one["tool_call_id"] == "call_2"

    def test_keep_the_ids_that_they_have(self):
        messages = (
            call_message("call_p7o2gz50", "clock", "{}"),
            {"role": "tool", "content": "noon", "tool_call_id": "call_p7o2gz50"},
        )
        assert decode(encode(*messages)).messages == messages

    def test_whose_arguments_are_no_object_keep_their_text(self):
        body = encode(call_message("a", "weather", '{"city": '))
        assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == {"raw_arguments": '{"city": '}

    def test_whose_arguments_are_an_object_already_go_as_they_are(self):
        body = encode(call_message("a", "weather", {"city": "Paris"}))
        assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == {"city": "Paris"}


class TestResponses:
    def test_are_read_with_their_thoughts_calls_and_usage(self):
        data = b"""{
          "model": "qwen3", "created_at": "2026-05-18T22:54:57.641643Z",
          "message": {
            "role": "assistant", "content": "Let me look.", "thinking": "Hm.",
            "tool_calls": [
              {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
              {"id": "call_p7o2gz50", "function": {"index": 1, "name": "clock", "arguments": {}}}
            ]
          },
          "done_reason": "stop", "done": true, "total_duration": 885095291, "load_duration": 3753500,
          "prompt_eval_count": 122, "prompt_eval_duration": 328493000, "eval_count": 33, "eval_duration": 552222000
        }"""
        assert CODEC.decode_response(data) == Response(
            content="Let me look.",
            model="qwen3",
            usage=Usage.of(122, 33),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_0"), ToolCall("clock", {}, "call_p7o2gz50")),
            reasoning="Hm.",
        )

    @pytest.mark.parametrize("finish_reason", ["stop", "length", "load", None])
    def test_tell_why_they_ended(self, finish_reason):
        response = Response("Hi", finish_reason=finish_reason)
        encoded = CODEC.encode_response(response)
        assert encoded.get("done_reason") == finish_reason
        assert CODEC.decode_response(orjson.dumps(encoded)) == response

    @pytest.mark.parametrize(
        "data",
        [
            b'{"done": true}',
            b'{"message": "Hi", "done": true}',
            b'{"message": {"role": "assistant", "content": 5}}',
            b'{"message": {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": []}}]}}',
            b'{"message": {"role": "assistant"}, "eval_count": "9"}',
        ],
    )
    def test_of_a_wrong_shape_are_malformed(self, data):
        with pytest.raises(MalformedResponseError):
            CODEC.decode_response(data)

    def test_are_written_as_the_server_writes_them(self):
        response = Response(
            content="Let me look.",
            model="qwen3",
            usage=Usage.of(122, 33),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "a"), ToolCall("clock", raw_arguments="{now")),
            reasoning="Hm.",
        )
        assert CODEC.encode_response(response) == {
            "model": "qwen3",
            "created_at": "1970-01-01T00:00:00Z",
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "thinking": "Hm.",
                "tool_calls": [
                    {"id": "a", "function": {"name": "weather", "arguments": {"city": "Paris"}}},
                    {"function": {"name": "clock", "arguments": {"raw_arguments": "{now"}}},
                ],
            },
            "done": True,
            "done_reason": "stop",
            "total_duration": 0,
            "load_duration": 0,
            "prompt_eval_count": 122,
            "prompt_eval_duration": 0,
            "eval_count": 33,
            "eval_duration": 0,
        }

    def test_that_are_errors_tell_nothing_but_a_text(self):
        assert CODEC.encode_error(404, "model 'qwen9' not found") == {"error": "model 'qwen9' not found"}


STREAM = (
    b'{"model":"qwen3","created_at":"2026-05-27T22:54:57Z",'
    b'"message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}\n'
    b'{"model":"qwen3","created_at":"2026-05-27T22:54:57Z",'
    b'"message":{"role":"assistant","content":"Let me "},"done":false}\n'
    b'{"model":"qwen3","created_at":"2026-05-27T22:54:58Z","message":{"role":"assistant","content":"look.",'
    b'"tool_calls":[{"function":{"name":"weather","arguments":{"city":"Paris"}}}]},"done":false}\n'
    b'{"model":"qwen3","created_at":"2026-05-27T22:54:58Z","message":{"role":"assistant","content":"",'
    b'"tool_calls":[{"function":{"name":"clock","arguments":{}}}]},"done":false}\n'
    b'{"model":"qwen3","created_at":"2026-05-27T22:54:59Z","message":{"role":"assistant","content":""},'
    b'"done_reason":"stop","done":true,"total_duration":885095291,"load_duration":3753500,'
    b'"prompt_eval_count":122,"prompt_eval_duration":328493000,"eval_count":33,"eval_duration":552222000}\n'
)


class TestStreams:
    def test_are_read_line_by_line(self):
        decoder = CODEC.stream_decoder()
        assert list(decoder.feed(STREAM)) == [
            ReasoningDelta("Hm."),
            TextDelta("Let me "),
            TextDelta("look."),
            ToolCallDelta(0, '{"city":"Paris"}', "call_0", "weather"),
            ToolCallDelta(1, "{}", "call_1", "clock"),
        ]
        assert decoder.close() == (
            [],
            Response(
                content="Let me look.",
                model="qwen3",
                usage=Usage.of(122, 33),
                finish_reason="tool_calls",
                tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_0"), ToolCall("clock", {}, "call_1")),
                reasoning="Hm.",
            ),
        )

    def test_whose_last_line_has_no_end_are_read_all_the_same(self):
        decoder = CODEC.stream_decoder()
        list(decoder.feed(b'{"message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop"}'))
        assert decoder.close() == ([TextDelta("Hi")], Response("Hi"))

    def test_that_were_not_done_are_refused(self):
        decoder = CODEC.stream_decoder()
        list(decoder.feed(b'{"message":{"role":"assistant","content":"Hi"},"done":false,"done_reason":"stop"}\n'))
        with pytest.raises(ProviderConnectionError):
            decoder.close()

    def test_that_tell_an_error_raise_it(self):
        with pytest.raises(ProviderError, match="error inside the stream: model runner has stopped") as caught:
            list(CODEC.stream_decoder().feed(b'{"error":"model runner has stopped"}\n'))
        assert not isinstance(caught.value, MalformedResponseError)
        assert caught.value.body == '{"error":"model runner has stopped"}'

    @pytest.mark.parametrize("line", [b"oops\n", b'{"message": 5}\n', b"[]\n", b'data: {"done": true}\n'])
    def test_of_something_else_are_malformed(self, line):
        with pytest.raises(MalformedResponseError):
            list(CODEC.stream_decoder().feed(line))

    def test_are_written_in_lines_with_calls_whole(self):
        response = Response("Hi", model="qwen3", usage=Usage.of(3, 4), finish_reason="tool_calls")
        deltas = [
            ReasoningDelta("Hm."),
            TextDelta("H"),
            ToolCallDelta(0, '{"city":', "a", "weather"),
            ToolCallDelta(1, "{}", "b", "clock"),
            ToolCallDelta(0, '"Paris"}'),
            TextDelta("i"),
        ]
        lines = list(CODEC.encode_stream(response, deltas))
        assert all(line.count(b"\n") == 1 and line.endswith(b"}\n") for line in lines)
        answers = [orjson.loads(line) for line in lines]
        assert [answer["message"] for answer in answers] == [
            {"role": "assistant", "content": "", "thinking": "Hm."},
            {"role": "assistant", "content": "H"},
            {"role": "assistant", "content": "i"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "function": {"name": "weather", "arguments": {"city": "Paris"}}}],
            },
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "b", "function": {"name": "clock", "arguments": {}}}],
            },
            {"role": "assistant", "content": ""},
        ]
        assert [answer["done"] for answer in answers] == [False] * 5 + [True]
        assert "done_reason" not in answers[0]
        last = answers[-1]
        assert last["done_reason"] == "stop"
        assert last["prompt_eval_count"] == 3
        assert last["eval_count"] == 4
        assert last["total_duration"] == 0
