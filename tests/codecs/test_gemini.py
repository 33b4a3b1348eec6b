"""Gemini's particulars: what its servers and its SDK put on the wire, literally."""

import orjson
import pytest

from offbook.codecs.base import WireRequest
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, RequestError
from offbook.messages import ReasoningDelta, Request, Response, TextDelta, ToolCall, ToolCallDelta, Usage
from offbook.vendors import codec_of

CODEC = codec_of("gemini")
PATH = "/models/gemini-2.5-flash:generateContent"
HELLO = {"role": "user", "content": "Hello"}
PIXEL = "iVBORw0KGgo="


def request_of(*messages, model="gemini-2.5-flash", **fields):
    return Request(messages=messages or (HELLO,), model=model, **fields)


def encode(*messages, **fields):
    return CODEC.encode_request(request_of(*messages, **fields)).body


def decode(body, path=PATH):
    return CODEC.decode_request(WireRequest(path, {"contents": []} | body))


def call_message(call_id, name, arguments, **fields):
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call | fields]}


class TestPath:
    @pytest.mark.parametrize(
        ("model", "stream", "path"),
        [
            ("gemini-2.5-flash", False, "/models/gemini-2.5-flash:generateContent"),
            ("gemini-2.5-flash", True, "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
            ("models/gemini-2.5-flash", False, "/models/gemini-2.5-flash:generateContent"),
            ("tunedModels/mine-123", True, "/tunedModels/mine-123:streamGenerateContent?alt=sse"),
        ],
    )
    def test_names_the_model_once(self, model, stream, path):
        assert CODEC.encode_request(request_of(model=model, stream=stream)).path == path

    @pytest.mark.parametrize(
        ("path", "model", "stream"),
        [
            ("/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash", False),
            ("/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "gemini-2.5-flash", True),
            ("/models/gemini-2.5-flash:streamGenerateContent", "gemini-2.5-flash", True),
            ("/v1beta/tunedModels/mine-123:generateContent?key=abc", "tunedModels/mine-123", False),
        ],
    )
    def test_reports_the_model_and_whether_to_stream(self, path, model, stream):
        request = decode({}, path)
        assert request.model == model
        assert request.stream == stream

    @pytest.mark.parametrize("path", ["", "/models/m", "/models/m:embedContent", "/models/:generateContent"])
    def test_without_a_model_and_method_is_refused(self, path):
        with pytest.raises(RequestError, match="does not name a model"):
            decode({}, path)

    def test_the_key_goes_in_a_header_of_the_vendor(self):
        assert CODEC.auth_headers("secret") == {"x-goog-api-key": "secret"}
        assert CODEC.auth_headers("") == {}


class TestConversation:
    def test_goes_as_contents_and_a_system_instruction(self):
        assert encode(
            {"role": "system", "content": "Be brief."},
            HELLO,
            {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting."},
            {"role": "developer", "content": "In French."},
        ) == {
            "contents": [
                {"role": "user", "parts": [{"text": "Hello"}]},
                {"role": "model", "parts": [{"text": "A greeting.", "thought": True}, {"text": "Hi."}]},
            ],
            "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "In French."}]},
        }

    def test_is_read_from_contents_whose_role_may_be_missing(self):
        request = decode(
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
                "contents": [
                    {"parts": [{"text": "Hello"}]},
                    {
                        "role": "model",
                        "parts": [
                            {"text": "A greeting.", "thought": True},
                            {"text": "Hi.", "thoughtSignature": "c2ln"},
                        ],
                    },
                ],
            }
        )
        assert request.messages == (
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi.", "reasoning_content": "A greeting."},
        )

    def test_leaves_out_messages_that_hold_nothing(self):
        body = encode(HELLO, {"role": "assistant", "content": None}, {"role": "user", "content": "Still there?"})
        assert [content["role"] for content in body["contents"]] == ["user", "user"]

    @pytest.mark.parametrize(
        "message", [{"content": "no role"}, {"role": "user", "content": 5}, {"role": "assistant", "tool_calls": [{}]}]
    )
    def test_in_another_shape_is_refused(self, message):
        with pytest.raises(RequestError):
            encode(message)


class TestParts:
    @pytest.mark.parametrize(
        ("part", "wire"),
        [
            ({"type": "text", "text": "Look:"}, {"text": "Look:"}),
            (
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            ),
            (
                {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}},
                {"fileData": {"fileUri": "https://example.com/cat.jpg"}},
            ),
            (
                {"type": "image_url", "image_url": {"url": "gs://bucket/cat.jpg", "format": "image/jpeg"}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://bucket/cat.jpg"}},
            ),
            *[
                (part, part)
                for part in (
                    {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
                    {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/cat.mp4"}},
                    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                    {"type": "image_url", "image_url": {"url": "cat.jpg"}},
                    {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
                    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                )
            ],
        ],
    )
    def test_survive_the_wire_whatever_they_are(self, part, wire):
        content = [{"type": "text", "text": "What is this?"}, part]
        body = encode({"role": "user", "content": content})
        assert body["contents"] == [{"role": "user", "parts": [{"text": "What is this?"}, wire]}]
        assert decode(body).messages == ({"role": "user", "content": content},)

    @pytest.mark.parametrize("part", [{"inlineData": "x"}, {"fileData": {"fileUri": 5}}, {"functionResponse": []}])
    def test_of_a_wrong_shape_are_refused(self, part):
        with pytest.raises(RequestError):
            decode({"contents": [{"role": "user", "parts": [part]}]})


class TestNames:
    def test_in_snake_case_are_read_as_well(self):
        request = decode(
            {
                "system_instruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"parts": [{"inline_data": {"mime_type": "image/png", "data": "-_8="}}]},
                    {"role": "model", "parts": [{"function_call": {"name": "clock"}, "thought_signature": "c2ln"}]},
                    {"parts": [{"function_response": {"name": "clock", "response": {"result": "noon"}}}]},
                ],
                "generation_config": {"max_output_tokens": 9, "top_k": 3},
                "tools": [{"function_declarations": [{"name": "clock", "parameters_json_schema": {"not": {}}}]}],
                "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["clock"]}},
            }
        )
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,+/8="}}
        signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
        assert request == request_of(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [image]},
            call_message("call_0", "clock", "{}", **signed),
            {"role": "tool", "tool_call_id": "call_0", "content": "noon"},
            max_tokens=9,
            tools=({"type": "function", "function": {"name": "clock", "parameters": {"not": {}}}},),
            tool_choice={"type": "function", "function": {"name": "clock"}},
            extra={"generationConfig": {"top_k": 3}},
        )


class TestToolCalls:
    def test_go_as_function_calls_and_their_results_as_one_user_content(self):
        body = encode(
            HELLO,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
                    {"id": "b", "type": "function", "function": {"name": "clock", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "sunny"},
            {"role": "tool", "tool_call_id": "b", "content": "noon"},
        )
        assert body["contents"][1:] == [
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "a", "name": "weather", "args": {"city": "Paris"}}},
                    {"functionCall": {"id": "b", "name": "clock", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a", "name": "weather", "response": {"result": "sunny"}}},
                    {"functionResponse": {"id": "b", "name": "clock", "response": {"result": "noon"}}},
                ],
            },
        ]

    def test_of_different_turns_may_share_an_id(self):
        body = encode(
            HELLO,
            call_message("call_0", "weather", "{}"),
            {"role": "tool", "tool_call_id": "call_0", "content": "sunny"},
            call_message("call_0", "clock", "{}"),
            {"role": "tool", "tool_call_id": "call_0", "content": "noon"},
        )
        names = [part["functionResponse"]["name"] for content in body["contents"][2::2] for part in content["parts"]]
        assert names == ["weather", "clock"]

    def test_without_ids_are_numbered_and_results_find_their_calls(self):
        request = decode(
            {
                "contents": [
                    {
                        "role": "model",
                        "parts": [
                            {"text": "Let me see."},
                            {"functionCall": {"name": "weather", "args": {"city": "Paris"}}},
                            {"functionCall": {"name": "clock"}},
                        ],
                    },
                    {
                        "role": "user",
                        "parts": [
                            {"functionResponse": {"name": "clock", "response": {"hour": 12}}},
                            {"functionResponse": {"name": "weather", "response": {"result": ["sunny"]}}},
                            {"text": "Well?"},
                        ],
                    },
                    {"role": "model", "parts": [{"functionCall": {"name": "clock", "args": {}}}]},
                    {"role": "function", "parts": [{"functionResponse": {"name": "clock", "response": {}}}]},
                ]
            }
        )
        said, noon, sunny, question, again, later = request.messages
        assert said["content"] == "Let me see."
        assert [(call["id"], call["function"]) for call in said["tool_calls"]] == [
            ("call_0", {"name": "weather", "arguments": '{"city":"Paris"}'}),
            ("call_1", {"name": "clock", "arguments": "{}"}),
        ]
        assert noon == {"role": "tool", "tool_call_id": "call_1", "content": '{"hour":12}'}
        assert sunny == {"role": "tool", "tool_call_id": "call_0", "content": '["sunny"]'}
        assert question == {"role": "user", "content": "Well?"}
        assert again["tool_calls"][0]["id"] == later["tool_call_id"] == "call_2"

    def test_whose_arguments_are_no_object_keep_their_text(self):
        body = encode(HELLO, call_message("a", "weather", '{"city": '))
        assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"raw_arguments": '{"city": '}

    def test_whose_arguments_are_an_object_already_go_as_they_are(self):
        body = encode(HELLO, call_message("a", "weather", {"city": "Paris"}))
        assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"city": "Paris"}

    def test_keep_their_signatures(self):
        signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
        message = call_message("a", "clock", "{}", **signed)
        body = encode(HELLO, message, model="gemini-3-pro")
        assert body["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
        assert decode(body).messages == (HELLO, message)

    @pytest.mark.parametrize(
        ("model", "signatures"),
        [
            ("gemini-3-pro-preview", ["skip_thought_signature_validator", None]),
            ("models/gemini-flash-latest", ["skip_thought_signature_validator", None]),
            ("gemini-2.5-flash", [None, None]),
            ("gemini-1.5-pro", [None, None]),
            ("gemma-3-27b-it", [None, None]),
        ],
    )
    def test_without_a_signature_ask_models_that_want_one_to_do_without(self, model, signatures):
        message = call_message("a", "clock", "{}")
        message["tool_calls"].append({"id": "b", "type": "function", "function": {"name": "clock", "arguments": "{}"}})
        body = encode(HELLO, message, model=model)
        assert [part.get("thoughtSignature") for part in body["contents"][1]["parts"]] == signatures
        assert decode(body).messages == (HELLO, message)


FUNCTION = {
    "name": "weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
        "required": ["city"],
    },
}


class TestTools:
    def test_go_as_declarations_of_one_tool_beside_the_vendor_s_own(self):
        clock = {"name": "clock", "description": "The time"}
        tools = (
            {"type": "function", "function": FUNCTION | {"strict": True}},
            {"googleSearch": {}},
            {"type": "function", "function": clock},
        )
        body = encode(tools=tools)
        assert body["tools"] == [{"functionDeclarations": [FUNCTION, clock]}, {"googleSearch": {}}]
        assert decode(body).tools == (
            {"type": "function", "function": FUNCTION},
            {"type": "function", "function": clock},
            {"googleSearch": {}},
        )

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"type": "object", "properties": {"city": {"type": ["string", "null"]}}},
            {"type": "object", "properties": {"days": {"type": "integer", "enum": [1, 7]}}},
            {"$ref": "#/$defs/City", "$defs": {"City": {"type": "object"}}},
            {"anyOf": [{"const": 1}]},
            {"type": "object", "properties": {"days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}}},
        ],
    )
    def test_whose_schema_is_more_than_the_vendor_s_subset_go_as_json_schema(self, schema):
        tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
        body = encode(tools=(tool,))
        assert body["tools"] == [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": schema}]}]
        assert decode(body).tools == (tool,)

    def test_declared_beside_another_tool_in_one_object_are_read_apart(self):
        request = decode({"tools": [{"functionDeclarations": [FUNCTION], "codeExecution": {}}]})
        assert request.tools == ({"type": "function", "function": FUNCTION}, {"codeExecution": {}})

    @pytest.mark.parametrize(
        ("choice", "config"),
        [
            ("auto", {"mode": "AUTO"}),
            ("none", {"mode": "NONE"}),
            ("required", {"mode": "ANY"}),
            ("validated", {"mode": "VALIDATED"}),
            (
                {"type": "function", "function": {"name": "weather"}},
                {"mode": "ANY", "allowedFunctionNames": ["weather"]},
            ),
        ],
    )
    def test_are_chosen_from_in_the_vendor_s_words(self, choice, config):
        body = encode(tool_choice=choice)
        assert body["toolConfig"] == {"functionCallingConfig": config}
        assert decode(body) == request_of(tool_choice=choice)

    def test_a_choice_among_several_functions_stays_in_extra(self):
        config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather", "clock"]}}
        request = decode({"toolConfig": config})
        assert request.tool_choice is None
        assert request.extra == {"toolConfig": config}
        assert CODEC.encode_request(request).body["toolConfig"] == config

    def test_a_choice_of_another_shape_is_refused(self):
        with pytest.raises(RequestError, match="tool_choice"):
            encode(tool_choice={"type": "allowed_tools"})


class TestParameters:
    def test_of_generation_are_merged_with_those_of_extra(self):
        extra = {
            "generationConfig": {"topK": 5, "responseMimeType": "application/json"},
            "toolConfig": {"retrievalConfig": {"languageCode": "fr"}},
            "safetySettings": [],
        }
        request = request_of(temperature=0.5, max_tokens=100, tool_choice="none", extra=extra)
        body = CODEC.encode_request(request).body
        assert body["generationConfig"] == {
            "temperature": 0.5,
            "maxOutputTokens": 100,
            "topK": 5,
            "responseMimeType": "application/json",
        }
        assert body["toolConfig"] == {
            "functionCallingConfig": {"mode": "NONE"},
            "retrievalConfig": {"languageCode": "fr"},
        }
        assert decode(body) == request

    def test_unknown_to_us_go_to_extra_and_back(self):
        body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "cachedContent": "cachedContents/1"}
        request = decode(body)
        assert request.extra == {"cachedContent": "cachedContents/1"}
        assert CODEC.encode_request(request).body == body

    def test_in_extra_that_are_no_object_are_refused(self):
        with pytest.raises(RequestError):
            encode(extra={"generationConfig": "hot"})


class TestResponse:
    def test_is_read_with_its_thoughts_calls_and_usage(self):
        data = b"""{
          "candidates": [{
            "content": {"role": "model", "parts": [
              {"text": "The user wants ", "thought": true},
              {"text": "the weather.", "thought": true},
              {"text": "Let me "}, {"text": "look.", "thoughtSignature": "c2ln"},
              {"functionCall": {"name": "weather", "args": {"city": "Paris"}}, "thoughtSignature": "c2ln"},
              {"functionCall": {"id": "fc_7", "name": "clock", "args": {}}}
            ]},
            "finishReason": "STOP", "index": 0, "safetyRatings": []
          }],
          "usageMetadata": {
            "promptTokenCount": 50, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 20, "thoughtsTokenCount": 30,
            "cachedContentTokenCount": 40, "totalTokenCount": 104,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 50}]
          },
          "modelVersion": "gemini-2.5-flash", "responseId": "Il0taoSYJ5Cez7"
        }"""
        assert CODEC.decode_response(data) == Response(
            content="Let me look.",
            model="gemini-2.5-flash",
            usage=Usage(54, 50, 104, 40, 30),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_0"), ToolCall("clock", {}, "fc_7")),
            reasoning="The user wants the weather.",
        )

    @pytest.mark.parametrize(
        ("reason", "finish_reason"),
        [
            ("STOP", "stop"),
            ("MAX_TOKENS", "length"),
            ("SAFETY", "content_filter"),
            ("RECITATION", "content_filter"),
            ("BLOCKLIST", "content_filter"),
            ("PROHIBITED_CONTENT", "content_filter"),
            ("SPII", "content_filter"),
            ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
            ("FINISH_REASON_UNSPECIFIED", None),
        ],
    )
    def test_reports_why_it_ended(self, reason, finish_reason):
        response = CODEC.decode_response(orjson.dumps({"candidates": [{"finishReason": reason}]}))
        assert response.finish_reason == finish_reason
        assert response.content == ""

    def test_to_a_blocked_prompt_is_a_filtered_one(self):
        data = b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}'
        assert CODEC.decode_response(data) == Response(usage=Usage(9, 0, 9), finish_reason="content_filter")

    @pytest.mark.parametrize(
        "data",
        [
            b'{"candidates": []}',
            b'{"promptFeedback": {}}',
            b'{"candidates": [{"content": {"parts": "x"}}]}',
            b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": []}}]}}]}',
            b'{"candidates": [{}], "usageMetadata": {"promptTokenCount": "9"}}',
        ],
    )
    def test_of_a_wrong_shape_is_malformed(self, data):
        with pytest.raises(MalformedResponseError):
            CODEC.decode_response(data)

    def test_is_written_as_the_vendor_writes_it(self):
        response = Response(
            content="Let me look.",
            model="gemini-2.5-flash",
            usage=Usage(50, 50, 100, 40, 30),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "a"), ToolCall("clock", id="b", raw_arguments="{now")),
            reasoning="Hm.",
        )
        assert CODEC.encode_response(response) == {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "Hm.", "thought": True},
                            {"text": "Let me look."},
                            {"functionCall": {"id": "a", "name": "weather", "args": {"city": "Paris"}}},
                            {"functionCall": {"id": "b", "name": "clock", "args": {"raw_arguments": "{now"}}},
                        ],
                        "role": "model",
                    },
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "modelVersion": "gemini-2.5-flash",
            "responseId": "offbook",
            "usageMetadata": {
                "promptTokenCount": 50,
                "candidatesTokenCount": 20,
                "totalTokenCount": 100,
                "cachedContentTokenCount": 40,
                "thoughtsTokenCount": 30,
            },
        }

    def test_that_says_nothing_has_no_parts(self):
        assert CODEC.encode_response(Response())["candidates"][0]["content"] == {"role": "model"}

    @pytest.mark.parametrize("finish_reason", [None, "OTHER"])
    def test_keeps_an_unusual_end(self, finish_reason):
        response = Response("Hi", finish_reason=finish_reason)
        assert CODEC.decode_response(orjson.dumps(CODEC.encode_response(response))) == response

    def test_never_counts_fewer_completion_tokens_than_none(self):
        usage = CODEC.encode_response(Response(usage=Usage(5, 0, 5, 0, 3)))["usageMetadata"]
        assert usage == {"promptTokenCount": 5, "candidatesTokenCount": 0, "totalTokenCount": 5}


STREAM = (
    b'data: {"candidates": [{"content": {"parts": [{"text": "Hm.", "thought": true}], "role": "model"}, "index": 0}],'
    b' "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}, "modelVersion": "gemini-2.5-flash"}\r\n\r\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": "Let me "}], "role": "model"}, "index": 0}]}\r\n\r\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": "look."},'
    b' {"functionCall": {"name": "weather", "args": {"city": "Paris"}}}], "role": "model"}, "index": 0}]}\r\n\r\n'
    b'data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "clock"}}], "role": "model"},'
    b' "index": 0}]}\r\n\r\n'
    b'data: {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}], "role": "model"},'
    b' "finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 6,'
    b' "thoughtsTokenCount": 2, "totalTokenCount": 12}, "modelVersion": "gemini-2.5-flash"}\r\n\r\n'
)


class TestStream:
    def test_is_read_frame_by_frame(self):
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
                model="gemini-2.5-flash",
                usage=Usage(4, 8, 12, 0, 2),
                finish_reason="tool_calls",
                tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_0"), ToolCall("clock", {}, "call_1")),
                reasoning="Hm.",
            ),
        )

    def test_of_a_blocked_prompt_is_complete(self):
        decoder = CODEC.stream_decoder()
        assert list(decoder.feed(b'data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n')) == []
        assert decoder.close() == ([], Response(finish_reason="content_filter"))

    def test_follows_its_first_candidate_alone(self):
        decoder = CODEC.stream_decoder()
        body = (
            b'data: {"candidates": [{"content": {"parts": [{"text": "one"}]}, "index": 0},'
            b' {"content": {"parts": [{"text": "two"}]}, "finishReason": "STOP", "index": 1}]}\n\n'
        )
        assert list(decoder.feed(body)) == [TextDelta("one")]
        with pytest.raises(ProviderConnectionError):
            decoder.close()

    def test_that_reports_an_error_raises_it(self):
        frame = b'data: {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}\n\n'
        with pytest.raises(ProviderError, match=r"error inside the stream: The model is overloaded\.") as caught:
            list(CODEC.stream_decoder().feed(frame))
        assert not isinstance(caught.value, MalformedResponseError)
        assert "UNAVAILABLE" in caught.value.body

    @pytest.mark.parametrize("frame", [b"data: oops\n\n", b'data: {"candidates": 5}\n\n', b"data: [DONE]\n\n"])
    def test_of_something_else_is_malformed(self, frame):
        with pytest.raises(MalformedResponseError):
            list(CODEC.stream_decoder().feed(frame))

    def test_is_written_in_lines_of_data_alone_with_calls_whole(self):
        response = Response("Hi", model="gemini-2.5-flash", usage=Usage.of(3, 4), finish_reason="tool_calls")
        deltas = [
            TextDelta("H"),
            ToolCallDelta(0, '{"city":', "a", "weather"),
            ToolCallDelta(1, "{}", "b", "clock"),
            ToolCallDelta(0, '"Paris"}'),
            TextDelta("i"),
        ]
        frames = list(CODEC.encode_stream(response, deltas))
        assert all(frame.startswith(b"data: {") and frame.endswith(b"}\n\n") for frame in frames)
        assert all(frame.count(b"\n") == 2 for frame in frames)
        candidates = [orjson.loads(frame.removeprefix(b"data: "))["candidates"][0] for frame in frames]
        assert [candidate["content"]["parts"] for candidate in candidates] == [
            [{"text": "H"}],
            [{"text": "i"}],
            [{"functionCall": {"id": "a", "name": "weather", "args": {"city": "Paris"}}}],
            [{"functionCall": {"id": "b", "name": "clock", "args": {}}}],
            [{"text": ""}],
        ]
        assert [candidate.get("finishReason") for candidate in candidates] == [None, None, None, None, "STOP"]
        assert orjson.loads(frames[-1].removeprefix(b"data: "))["usageMetadata"]["totalTokenCount"] == 7

    def test_whose_end_is_unknown_is_complete_all_the_same(self):
        response = Response("Hi", finish_reason=None)
        decoder = CODEC.stream_decoder()
        for frame in CODEC.encode_stream(response, [TextDelta("Hi")]):
            list(decoder.feed(frame))
        assert decoder.close() == ([], response)


class TestError:
    @pytest.mark.parametrize(
        ("status_code", "word"),
        [
            (400, "INVALID_ARGUMENT"),
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (404, "NOT_FOUND"),
            (422, "INVALID_ARGUMENT"),
            (429, "RESOURCE_EXHAUSTED"),
            (500, "INTERNAL"),
            (502, "INTERNAL"),
            (503, "UNAVAILABLE"),
            (504, "DEADLINE_EXCEEDED"),
        ],
    )
    def test_reports_the_vendor_s_word_for_its_status(self, status_code, word):
        body = orjson.dumps(CODEC.encode_error(status_code, "it broke"))
        assert body == b'{"error":{"code":%d,"message":"it broke","status":"%b"}}' % (status_code, word.encode())
