"""OpenAI responses' particulars: what its servers and its SDK put on the wire, literally."""

import orjson
import pytest

from offbook.codecs.base import WireRequest
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, RequestError
from offbook.messages import ReasoningDelta, Request, Response, TextDelta, ToolCall, ToolCallDelta, Usage
from offbook.vendors import codec_of

CODEC = codec_of("openai_responses")
HELLO = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAAABp",
}
CALL_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city":"Paris"}',
    "status": "completed",
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}


def encode(*messages, **fields):
    wire = CODEC.encode_request(Request(messages=messages or (HELLO,), model="gpt-5", **fields))
    assert wire.path == "/responses"
    return wire.body


def decode(items, **fields):
    return CODEC.decode_request(WireRequest("/v1/responses", {"model": "gpt-5", "input": items} | fields))


def messages_of(items, **fields):
    return list(decode(items, **fields).messages)


def said(*parts, **fields):
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": list(parts),
    } | fields


def output_text(text):
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def test_the_key_goes_as_a_bearer_token():
    assert CODEC.auth_headers("secret") == {"Authorization": "Bearer secret"}
    assert CODEC.auth_headers("") == {}


class TestConversation:
    def test_goes_as_instructions_and_items(self):
        body = encode(
            {"role": "system", "content": "Be brief."},
            HELLO,
            {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL], "reasoning_content": "Hm."},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "developer", "content": "In French."},
        )
        assert body == {
            "model": "gpt-5",
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Let me look."},
                {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Paris"}'},
                {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
                {"role": "developer", "content": "In French."},
            ],
        }

    def test_is_read_from_a_text(self):
        assert messages_of("Hello", instructions="Be brief.") == [{"role": "system", "content": "Be brief."}, HELLO]

    def test_keeps_a_system_message_that_is_no_plain_text_at_the_front_in_its_place(self):
        parts = {"role": "system", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": " brief."}]}
        later = {"role": "system", "content": "In French."}
        body = encode(parts, HELLO, later)
        assert "instructions" not in body
        assert [item["role"] for item in body["input"]] == ["system", "user", "system"]
        assert messages_of(body["input"]) == [parts, HELLO, later]

    def test_reads_an_answer_that_is_sent_back_without_its_ids_and_states(self):
        items = [HELLO, said(output_text("Let me look.")), CALL_ITEM]
        items.append({"type": "function_call_output", "call_id": "call_1", "output": "sunny"})
        assert messages_of(items) == [
            HELLO,
            {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ]

    def test_puts_parallel_calls_into_one_message_and_what_follows_them_into_another(self):
        second = CALL_ITEM | {"call_id": "call_2"}
        first_turn, second_turn = messages_of([CALL_ITEM, second, said(output_text("Wait."))])
        assert [call["id"] for call in first_turn["tool_calls"]] == ["call_1", "call_2"]
        assert first_turn["content"] is None
        assert second_turn == {"role": "assistant", "content": "Wait."}

    def test_keeps_reasoning_with_the_turn_that_it_led_to(self):
        items = [HELLO, REASONING, CALL_ITEM, REASONING | {"id": "rs_2", "summary": []}, said(output_text("Hm."))]
        _, first_turn, second_turn = messages_of(items)
        assert first_turn == {
            "role": "assistant",
            "content": None,
            "tool_calls": [CALL],
            "reasoning_content": "First.\n\nThen.",
            "reasoning_items": [REASONING],
        }
        assert "reasoning_content" not in second_turn
        assert second_turn["reasoning_items"] == [items[3]]

    def test_gives_reasoning_back_as_it_came_in_its_place(self):
        call = {name: value for name, value in CALL_ITEM.items() if name not in ("id", "status")}
        items = [HELLO, REASONING, call, REASONING | {"id": "rs_2"}]
        assert encode(*messages_of(items))["input"] == items

    def test_keeps_what_only_this_api_knows_of_an_item(self):
        items = [
            {"role": "assistant", "content": "Hm.", "phase": "commentary"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}", "namespace": "n"},
            {"type": "function_call_output", "call_id": "a", "output": "", "caller": {"type": "direct"}},
        ]
        assert encode(*messages_of(items))["input"] == items

    def test_passes_items_of_other_kinds_untouched(self):
        items = [
            {"type": "item_reference", "id": "msg_1"},
            HELLO,
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "message", "role": "user", "content": "Go on."},
        ]
        messages = messages_of(items)
        assert messages[0] == {"role": "item", "content": [items[0]]}
        assert messages[3] == {"role": "user", "content": "Go on."}
        assert encode(*messages)["input"][:3] == items[:3]

    def test_writes_arguments_that_are_an_object_as_text(self):
        call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
        [item] = encode({"role": "assistant", "content": "", "tool_calls": [call]})["input"]
        assert item["arguments"] == '{"city":"Paris"}'

    def test_sends_a_message_without_content_as_empty_text(self):
        assert encode({"role": "assistant", "content": None})["input"] == [{"role": "assistant", "content": ""}]

    @pytest.mark.parametrize(
        "item",
        [
            {},
            {"type": "message", "content": "Hello"},
            {"role": "user"},
            {"role": "assistant", "content": 5},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a"},
            {"type": "reasoning", "summary": "Hm."},
        ],
    )
    def test_with_an_item_of_a_wrong_shape_is_refused(self, item):
        with pytest.raises(RequestError):
            decode([item])

    def test_with_a_call_of_a_wrong_shape_is_refused(self):
        with pytest.raises(RequestError):
            encode({"role": "assistant", "tool_calls": [{"id": "a"}]})


class TestParts:
    CHAT = (
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "https://host/cat.png", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    )
    WIRE = (
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "https://host/cat.png", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    )

    def test_go_in_the_words_of_the_api_and_come_back(self):
        message = {"role": "user", "content": list(self.CHAT)}
        [item] = encode(message)["input"]
        assert item == {"role": "user", "content": list(self.WIRE)}
        assert messages_of([item]) == [message]

    def test_of_the_model_are_output(self):
        refusal = {"type": "refusal", "refusal": "No."}
        message = {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, refusal]}
        [item] = encode(message)["input"]
        assert item["content"] == [{"type": "output_text", "text": "Hm."}, refusal]
        assert messages_of([item]) == [message]

    def test_of_a_result_go_as_those_of_a_user(self):
        [item] = encode({"role": "tool", "tool_call_id": "a", "content": list(self.CHAT)})["input"]
        assert item["output"] == list(self.WIRE)
        assert messages_of([item])[0]["content"] == list(self.CHAT)

    def test_of_an_image_that_the_vendor_keeps_pass_untouched(self):
        part = {"type": "input_image", "file_id": "file_1", "detail": "auto"}
        [message] = messages_of([{"role": "user", "content": [part]}])
        assert message["content"] == [part]

    def test_keep_their_annotations_if_there_are_any(self):
        cited = {"type": "output_text", "text": "So.", "annotations": [{"type": "url_citation", "url": "https://host"}]}
        [message] = messages_of([said(cited)])
        assert message["content"] == [cited | {"type": "text"}]
        assert encode(message)["input"][0]["content"] == [cited]


class TestTools:
    def test_are_flat_and_not_strict_unless_they_say_so(self):
        plain = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}
        strict = {"type": "function", "function": {"name": "clock", "strict": True}, "defer_loading": True}
        body = encode(tools=(plain, strict))
        assert body["tools"] == [
            {"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA, "strict": False},
            {"type": "function", "name": "clock", "parameters": None, "strict": True, "defer_loading": True},
        ]
        assert decode("Hello", tools=body["tools"]).tools == (plain, strict)

    def test_that_leave_it_to_the_api_whether_they_are_strict_still_do(self):
        tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
        decoded = decode("Hello", tools=[tool]).tools
        assert decoded[0]["function"]["strict"] is None
        assert encode(tools=decoded)["tools"] == [tool | {"strict": None}]

    def test_of_the_vendor_pass_untouched(self):
        tool = {"type": "web_search", "search_context_size": "low"}
        assert encode(tools=(tool,))["tools"] == [tool]
        assert decode("Hello", tools=[tool]).tools == (tool,)

    @pytest.mark.parametrize(
        ("choice", "wire"),
        [
            ("required", "required"),
            ({"type": "function", "function": {"name": "weather"}}, {"type": "function", "name": "weather"}),
            ({"type": "web_search"}, {"type": "web_search"}),
        ],
    )
    def test_are_chosen_in_the_words_of_the_api(self, choice, wire):
        assert encode(tool_choice=choice)["tool_choice"] == wire
        assert decode("Hello", tool_choice=wire).tool_choice == choice

    def test_of_a_wrong_shape_are_refused(self):
        with pytest.raises(RequestError):
            encode(tools=({"type": "function", "name": "weather"},))
        with pytest.raises(RequestError):
            decode("Hello", tools=[{"type": "function", "function": {"name": "weather"}}])


def test_parameters_have_their_names_and_others_pass_through():
    extra = {
        "previous_response_id": "resp_1",
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "stream_options": {"include_obfuscation": False},
    }
    body = encode(temperature=0.5, max_tokens=9, stream=True, extra=extra)
    assert body == {
        "model": "gpt-5",
        "input": [HELLO],
        "temperature": 0.5,
        "max_output_tokens": 9,
        "stream": True,
        **extra,
    }
    assert CODEC.decode_request(WireRequest("/responses", body)) == Request(
        (HELLO,), "gpt-5", temperature=0.5, max_tokens=9, extra=extra, stream=True
    )


ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1741476777,
    "status": "completed",
    "model": "gpt-5",
    "output": [
        REASONING,
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "arguments": {"unlike": "a function's"}},
        said(output_text("Let me "), output_text("look.")),
        CALL_ITEM,
        CALL_ITEM | {"call_id": "call_2", "name": "clock", "arguments": "{now"},
    ],
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 123,
    },
}


def answered(*items, **fields):
    return CODEC.decode_response(orjson.dumps({"status": "completed", "output": list(items)} | fields))


class TestResponses:
    def test_are_read_with_their_reasoning_calls_and_usage(self):
        assert CODEC.decode_response(orjson.dumps(ANSWER)) == Response(
            content="Let me look.",
            model="gpt-5",
            usage=Usage.of(36, 87, cached=12, reasoning=64),
            finish_reason="tool_calls",
            tool_calls=(
                ToolCall("weather", {"city": "Paris"}, "call_1"),
                ToolCall("clock", id="call_2", raw_arguments="{now"),
            ),
            reasoning="First.\n\nThen.",
        )

    def test_that_refuse_say_so_in_their_text(self):
        assert answered(said({"type": "refusal", "refusal": "I cannot."})) == Response("I cannot.")

    def test_of_a_model_that_shows_its_reasoning_are_read_with_it(self):
        shown = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
        assert answered(shown, said(output_text("Hi"))).reasoning == "Hm."

    @pytest.mark.parametrize(
        ("fields", "finish_reason"),
        [
            ({"status": "completed"}, "stop"),
            ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
            ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
            ({"status": "incomplete", "incomplete_details": None}, "incomplete"),
            ({"status": "cancelled"}, "cancelled"),
            ({"status": None}, None),
        ],
    )
    def test_tell_why_they_ended(self, fields, finish_reason):
        response = answered(**fields)
        assert response.finish_reason == finish_reason
        assert CODEC.decode_response(orjson.dumps(CODEC.encode_response(response))) == response

    def test_that_were_cut_in_a_call_ended_for_that(self):
        cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        response = answered(CALL_ITEM | {"arguments": '{"city":'}, **cut)
        assert response.finish_reason == "length"
        assert response.tool_calls == (ToolCall("weather", id="call_1", raw_arguments='{"city":'),)

    @pytest.mark.parametrize(
        ("error", "message"),
        [({"code": "server_error", "message": "It broke."}, "It broke."), (None, "no reason given")],
    )
    def test_that_failed_raise_what_went_wrong(self, error, message):
        with pytest.raises(ProviderError, match=f"the response failed: {message}") as caught:
            answered(status="failed", error=error)
        assert not isinstance(caught.value, MalformedResponseError)
        assert '"failed"' in caught.value.body

    @pytest.mark.parametrize(
        "item",
        [5, {}, {"type": "message", "content": "Hi"}, CALL_ITEM | {"arguments": {"city": "Paris"}}, {"type": 5}],
    )
    def test_with_an_item_of_a_wrong_shape_are_malformed(self, item):
        with pytest.raises(MalformedResponseError):
            answered(item)

    def test_are_written_as_the_server_writes_them(self):
        response = Response(
            content="Let me look.",
            model="gpt-5",
            usage=Usage.of(36, 87, cached=12, reasoning=64),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_1"), ToolCall("clock", raw_arguments="{now")),
            reasoning="Hm.",
        )
        encoded = CODEC.encode_response(response)
        assert encoded["object"] == "response"
        assert encoded["status"] == "completed"
        assert encoded["model"] == "gpt-5"
        assert encoded["output"] == [
            {"type": "reasoning", "id": "rs_offbook_0", "summary": [{"type": "summary_text", "text": "Hm."}]},
            said(output_text("Let me look."), id="msg_offbook_1"),
            CALL_ITEM | {"id": "fc_offbook_2"},
            {
                "type": "function_call",
                "id": "fc_offbook_3",
                "call_id": "call_offbook_1",
                "name": "clock",
                "arguments": "{now",
                "status": "completed",
            },
        ]
        assert encoded["usage"]["output_tokens_details"] == {"reasoning_tokens": 64}

    def test_that_are_errors_have_the_body_of_the_vendor(self):
        error = {"message": "Slow down.", "type": "rate_limit_error", "param": None, "code": None}
        assert CODEC.encode_error(429, "Slow down.") == {"error": error}


def frame(kind, **fields):
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, "sequence_number": 0} | fields))


def ending(kind="completed", **fields):
    return frame(f"response.{kind}", response={"model": "gpt-5", "status": kind} | fields)


def read(*frames):
    """The deltas of a stream, and the response they make up."""
    decoder = CODEC.stream_decoder()
    deltas = [delta for piece in frames for delta in decoder.feed(piece)]
    left, response = decoder.close()
    return deltas + left, response


def added(index, item):
    return frame("response.output_item.added", output_index=index, item=item)


def done(index, item):
    return frame("response.output_item.done", output_index=index, item=item)


def delta(kind, index, text, **fields):
    return frame(f"response.{kind}.delta", output_index=index, item_id="x", delta=text, obfuscation="Q7", **fields)


class TestStreams:
    def test_are_read_item_by_item(self):
        opened = CALL_ITEM | {"arguments": "", "status": "in_progress"}
        usage = {"input_tokens": 3, "output_tokens": 4}
        deltas, response = read(
            frame("response.created", response={"id": "resp_1", "status": "in_progress", "output": []}),
            frame("response.queued", response={}),
            added(0, REASONING | {"summary": []}),
            frame("response.reasoning_summary_part.added", output_index=0, summary_index=0),
            delta("reasoning_summary_text", 0, "First."),
            frame("response.reasoning_summary_part.added", output_index=0, summary_index=1),
            delta("reasoning_summary_text", 0, "Then."),
            done(0, REASONING),
            added(1, {"type": "web_search_call", "id": "ws_1"}),
            frame("response.web_search_call.searching", output_index=1, item_id="ws_1"),
            done(1, {"type": "web_search_call", "id": "ws_1"}),
            added(2, said(status="in_progress")),
            delta("output_text", 2, "Let me ", content_index=0),
            delta("output_text", 2, "look.", content_index=0),
            done(2, said(output_text("Let me look."))),
            added(3, opened),
            added(4, opened | {"call_id": "call_2", "name": "clock"}),
            delta("function_call_arguments", 3, '{"city":'),
            delta("function_call_arguments", 4, "{}"),
            delta("function_call_arguments", 3, '"Paris"}'),
            delta("custom_tool_call_input", 5, "unread"),
            frame("response.function_call_arguments.done", output_index=3, arguments='{"city":"Paris"}'),
            done(3, CALL_ITEM),
            ending(usage=usage, output=ANSWER["output"]),
        )
        assert deltas == [
            ReasoningDelta("First."),
            ReasoningDelta("\n\n"),
            ReasoningDelta("Then."),
            TextDelta("Let me "),
            TextDelta("look."),
            ToolCallDelta(0, "", "call_1", "weather"),
            ToolCallDelta(1, "", "call_2", "clock"),
            ToolCallDelta(0, '{"city":'),
            ToolCallDelta(1, "{}"),
            ToolCallDelta(0, '"Paris"}'),
        ]
        assert response == Response(
            content="Let me look.",
            model="gpt-5",
            usage=Usage.of(3, 4),
            finish_reason="tool_calls",
            tool_calls=(ToolCall("weather", {"city": "Paris"}, "call_1"), ToolCall("clock", {}, "call_2")),
            reasoning="First.\n\nThen.",
        )

    def test_whose_items_come_whole_are_read_the_same(self):
        second = CALL_ITEM | {"call_id": "call_2", "name": "clock", "arguments": ""}
        deltas, response = read(
            frame("response.reasoning_summary_part.added", output_index=0, summary_index=1),
            done(0, REASONING),
            done(1, said(output_text("Hi"))),
            added(2, CALL_ITEM | {"arguments": ""}),
            done(2, CALL_ITEM),
            delta("function_call_arguments", 3, "of a call that was not announced"),
            done(3, second),
            ending(),
        )
        assert deltas == [
            ReasoningDelta("First.\n\nThen."),
            TextDelta("Hi"),
            ToolCallDelta(0, "", "call_1", "weather"),
            ToolCallDelta(0, '{"city":"Paris"}'),
            ToolCallDelta(1, "", "call_2", "clock"),
        ]
        assert [call.args for call in response.tool_calls] == [{"city": "Paris"}, {}]

    def test_that_refuse_or_show_their_reasoning_are_read_in_pieces(self):
        deltas, response = read(delta("reasoning_text", 0, "Hm."), delta("refusal", 1, "No."), ending())
        assert deltas == [ReasoningDelta("Hm."), TextDelta("No.")]
        assert response.reasoning == "Hm."
        assert response.content == "No."

    def test_tell_why_they_ended(self):
        reason = {"reason": "max_output_tokens"}
        assert read(ending("incomplete", incomplete_details=reason))[1].finish_reason == "length"

    def test_are_not_read_beyond_their_last_event(self):
        assert read(ending(), b"data: [DONE]\n\n")[1] == Response(model="gpt-5")

    def test_that_were_not_completed_are_refused(self):
        with pytest.raises(ProviderConnectionError):
            read(added(0, said()), delta("output_text", 0, "Hi"), done(0, said(output_text("Hi"))))

    @pytest.mark.parametrize(
        "last",
        [
            frame("error", code="server_error", message="It broke.", param=None),
            frame("error", error={"type": "server_error", "message": "It broke."}),
            b'data: {"error": {"message": "It broke."}}\n\n',
            b'data: {"error": "It broke."}\n\n',
            ending("failed", error={"code": "server_error", "message": "It broke."}),
            frame("response.completed", response={"status": "failed", "error": {"message": "It broke."}}),
        ],
    )
    def test_that_tell_an_error_raise_it(self, last):
        with pytest.raises(ProviderError, match=r"error inside the stream: It broke\.") as caught:
            read(last)
        assert not isinstance(caught.value, MalformedResponseError)
        assert "It broke." in caught.value.body

    def test_that_failed_without_a_word_tell_what_they_sent(self):
        with pytest.raises(ProviderError, match=r'error inside the stream: .*"failed"'):
            read(ending("failed"))

    @pytest.mark.parametrize(
        "broken",
        [
            b"data: oops\n\n",
            b"data: [DONE]\n\n",
            frame("response.output_text.delta", output_index=0, delta=5),
            frame("response.output_item.added", output_index=0),
            frame("response.completed"),
        ],
    )
    def test_of_something_else_are_malformed(self, broken):
        with pytest.raises(MalformedResponseError):
            read(broken)

    def test_are_written_in_the_order_that_clients_insist_on(self):
        response = Response("Hi", model="gpt-5", usage=Usage.of(3, 4), finish_reason="tool_calls")
        deltas = [
            ReasoningDelta("Hm."),
            TextDelta("H"),
            TextDelta("i"),
            ToolCallDelta(0, '{"city":', "call_1", "weather"),
            ToolCallDelta(0, '"Paris"}'),
        ]
        frames = list(CODEC.encode_stream(response, deltas))
        events = [orjson.loads(piece.partition(b"data: ")[2]) for piece in frames]
        names = [piece.partition(b"\n")[0].removeprefix(b"event: ").decode() for piece in frames]
        assert (
            names
            == [event["type"] for event in events]
            == [
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.reasoning_summary_part.added",
                "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done",
                "response.output_item.done",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.output_item.added",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.output_item.done",
                "response.completed",
            ]
        )
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        finished = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert events[-1]["response"]["output"] == finished
        assert finished[2] == CALL_ITEM | {"id": "fc_offbook_2"}

    def test_that_were_cut_by_a_limit_end_as_incomplete(self):
        *_, last = CODEC.encode_stream(Response("Hi", finish_reason="length"), [TextDelta("Hi")])
        assert last.startswith(b"event: response.incomplete\n")
