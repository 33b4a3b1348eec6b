"""Faults as bytes."""

from math import inf

import orjson
import pytest

from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.faults import Fault, parse_fault
from offbook.vendors import CODECS
from offbook.wire.faults import FaultTarget, apply_fault
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse, is_retryable, spoils_answer
from tests.faults.samples import SAMPLES
from tests.wire.http_requests import (
    EVERY_PROTOCOL,
    PROTOCOLS,
    answer_to,
    call_of,
    decode,
    error_in,
    parsed_of,
    read,
    session_of,
    text_in,
    text_of,
)

CONTENT = "one two three four"
ENTRY = {"a": {"content": CONTENT}}


def answer_with(line, call, responses=None, **options):
    return answer_to(session_of(responses or ENTRY, faults=[f"everywhere: {line}"], **options), call)


def clean(call):
    """The frames of the answer without a fault."""
    answer = answer_to(session_of(ENTRY, faults=["everywhere: slow_drip 1"]), call)
    return [data for _, data in answer.frames]


@pytest.mark.parametrize("stream", [False, True])
def test_a_timeout_sends_nothing_and_falls_silent(stream):
    assert answer_with("timeout", call_of(stream=stream)) == HttpResponse(None, ending="silence", end_ms=inf)
    assert answer_with("timeout 50", call_of(stream=stream)) == HttpResponse(None, ending="silence", end_ms=50.0)


def test_a_reset_sends_nothing():
    assert answer_with("connection_reset", call_of()) == HttpResponse(None, ending="reset")


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_an_http_error_has_the_shape_of_its_vendor(protocol):
    answer = answer_with("http_error 503 headers.Retry-After=7", call_of(protocol, stream=protocol == "anthropic"))
    assert answer.status == 503
    assert answer.headers["retry-after"] == "7"
    assert error_in(answer, protocol) == "an injected error"


def test_the_body_of_an_http_error_can_be_set():
    answer = answer_with('http_error 418 body="teapot ☕" headers.Content-Type=text/plain', call_of())
    assert answer.content.decode() == "teapot ☕"
    assert answer.headers["content-type"] == "text/plain"


def test_headers_that_http_has_no_room_for_are_left_out_or_mended():
    fault = {
        "type": "http_error",
        "status_code": 500,
        "headers": {"bad name": "1", "x-note": "a\r\nb: ☕", "x-ok": "é"},
    }
    answer = answer_to(session_of({"a": {"fault": fault}}), call_of())
    assert answer.headers["x-note"] == "a??b: ?"
    assert answer.headers["x-ok"] == "é"
    assert "bad name" not in answer.headers


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_context_overflow_is_a_400_of_the_vendor(protocol):
    answer = answer_with("context_overflow", call_of(protocol))
    assert answer.status == 400
    assert "maximum context length" in error_in(answer, protocol)
    is_coded = b"context_length_exceeded" in answer.content
    assert is_coded is protocol.startswith("openai")


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("stream", [False, True])
def test_malformed_bytes_come_with_the_right_content_type(protocol, stream):
    answer = answer_with('malformed_response "<oops> ☕"', call_of(protocol, stream=stream))
    assert answer.status == 200
    assert answer.content.decode() == "<oops> ☕"
    assert answer.headers["content-type"] == (CODECS[protocol].stream_type if stream else "application/json")


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize(("stream", "raw"), [(False, "[\n  1\n]"), (True, '{"status": "ok"}'), (True, "[\n  1\n]")])
def test_json_of_another_shape_is_framed_as_its_protocol_frames_it(protocol, stream, raw):
    fault = {"type": "wrong_shape", "raw": raw}
    answer = answer_to(session_of({"a": {"fault": fault}}), call_of(protocol, stream=stream))
    content = text_in(answer.content)
    if stream and not protocol.startswith(("ollama", "bedrock")):
        assert content.startswith(b"data: ")
        assert content.endswith(b"\n\n")
        content = content.removeprefix(b"data: ")
    assert orjson.loads(content) == orjson.loads(raw)
    assert b"\n" not in content.rstrip() or not stream


@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_content_type_comes_with_the_right_bytes(stream):
    answer = answer_with("wrong_content_type text/plain", call_of(stream=stream))
    assert answer.headers["content-type"] == "text/plain"
    assert text_of(answer) == CONTENT


TRUNCATIONS = [
    (0, "ConnectionError", "reset", 0.0),
    (1, "TimeoutError", "silence", inf),
    (3, "cut", "cut", 0.0),
    (1_000, "clean", "complete", 0.0),
    (0, "clean", "complete", 0.0),
    (1_000, "ConnectionError", "reset", 0.0),
]


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_truncated_stream_has_as_many_frames_as_the_fault_says_and_never_the_last(protocol):
    call = call_of(protocol, stream=True)
    frames = clean(call)
    for after, how, ending, end_ms in TRUNCATIONS:
        answer = answer_with(f"stream_truncate {after} raise={how}", call)
        assert answer.content == b"".join(frames[:-1][:after])
        assert answer.status == 200
        assert answer.ending == ending
        assert answer.end_ms == end_ms


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("after", [0, 3])
def test_an_error_inside_a_stream_has_the_shape_of_its_vendor(protocol, after):
    call = call_of(protocol, stream=True)
    answer = answer_with(f"stream_truncate {after} raise=error_event", call)
    assert answer.content.startswith(b"".join(clean(call)[:after]))
    assert answer.ending == "complete"
    with pytest.raises(ProviderError, match="an injected error"):
        decode(answer.content, protocol, is_streamed=True)


@pytest.mark.parametrize("after", [0, 2])
def test_an_error_inside_an_array_keeps_it_an_array(after):
    call = HttpRequest("POST", "/v1beta/models/m:streamGenerateContent", "", {}, call_of("gemini").body)
    pieces = orjson.loads(answer_with(f"stream_truncate {after} raise=error_event", call).content)
    assert len(pieces) == after + 1
    assert pieces[-1]["error"]["message"] == "an injected error"


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_stream_can_end_in_garbage_that_no_client_can_read(protocol):
    answer = answer_with("stream_truncate 2 raise=malformed", call_of(protocol, stream=True))
    with pytest.raises(ProviderError):
        decode(answer.content, protocol, is_streamed=True)


@pytest.mark.parametrize("how", ["ConnectionError", "TimeoutError", "cut", "clean", "error_event", "malformed"])
def test_half_of_a_whole_answer_comes_before_it_breaks_off(how):
    whole = answer_to(session_of(ENTRY), call_of()).content
    answer = answer_with(f"stream_truncate 3 raise={how}", call_of())
    assert answer.content.startswith(whole[: len(whole) // 2])
    assert not whole.startswith(answer.content) or answer.content == whole[: len(whole) // 2]


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize(("after", "on_time"), [(0, 0), (2, 2), (1_000, None)])
def test_a_stalled_stream_goes_on_after_a_while(protocol, after, on_time):
    call = call_of(protocol, stream=True)
    answer = answer_with(f"stream_stall {after} for_ms=300", call)
    in_time = b"".join(data for at_ms, data in answer.frames if at_ms == 0.0)
    expected = clean(call)[: len(clean(call)) - 1 if on_time is None else on_time]
    assert in_time == b"".join(expected)
    assert {at_ms for at_ms, _ in answer.frames} <= {0.0, 300.0}
    assert answer.end_ms == 300.0
    assert read(answer, protocol).content == CONTENT


def test_a_whole_answer_stalls_as_a_whole():
    answer = answer_with("stream_stall 3 for_ms=300", call_of())
    assert [at_ms for at_ms, _ in answer.frames] == [300.0]
    assert text_of(answer) == CONTENT


def test_a_stream_drips_frame_by_frame():
    call = call_of(stream=True)
    answer = answer_with("slow_drip 5", call)
    assert [at_ms for at_ms, _ in answer.frames] == [5.0 * number for number in range(1, len(answer.frames) + 1)]
    assert len(answer.frames) >= len(CONTENT.split()) + 2
    assert answer.end_ms == answer.frames[-1][0]
    assert text_of(answer) == CONTENT


def test_a_whole_answer_drips_too():
    answer = answer_with("slow_drip 5", call_of())
    assert len(answer.frames) == 16
    assert text_of(answer) == CONTENT


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_faults_of_the_models_own_are_reported_in_the_protocol_of_the_call(protocol, stream):
    call = call_of(protocol, stream=stream)
    assert read(answer_with("empty_response", call), protocol).content == ""
    assert read(answer_with("content_filter", call), protocol).finish_reason == "content_filter"
    assert [each.tool for each in read(answer_with("unknown_tool", call), protocol).tool_calls] == ["no_such_tool"]
    asking = read(answer_with('tool_call_fault look_up args={"word":"x"}', call), protocol)
    assert [(each.tool, each.args) for each in asking.tool_calls] == [("look_up", {"word": "x"})]
    partial = read(answer_with("partial_response", call), protocol)
    assert partial.content == CONTENT
    assert partial.finish_reason == "length"
    assert partial.usage.completion_tokens == 0


@pytest.mark.parametrize(("place", "fault"), list(enumerate(SAMPLES)), ids=lambda value: getattr(value, "type", ""))
def test_a_fault_that_a_recording_declares_acts_like_one_of_a_plan(place, fault):
    for stream in (False, True):
        call = call_of(PROTOCOLS[(place + stream) % len(PROTOCOLS)], stream=stream)
        planned = answer_to(session_of(ENTRY, faults=[parse_fault(f"everywhere: {fault}")]), call)
        entry = {"content": CONTENT, "fault": {"type": fault.type} | fields(fault)}
        assert answer_to(session_of({"a": entry}), call) == planned


def fields(fault):
    return {
        name: getattr(fault, attribute)
        for name, attribute in zip(fault.__struct_encode_fields__, fault.__struct_fields__, strict=True)
    }


@pytest.mark.parametrize("line", ["stream_truncate 2 raise=clean", "stream_stall 1", "slow_drip", "wrong_content_type"])
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_can_be_made_of_an_answer_that_never_comes(line, stream):
    responses = {"a": {"fault": {"type": "connection_reset"}}}
    answer = answer_with(line, call_of(stream=stream), responses)
    assert answer.status is None
    assert answer.content == b""
    assert answer.ending == "reset"


@pytest.mark.parametrize("line", ["empty_response", "unknown_tool", "content_filter", "partial_response"])
def test_a_fault_of_a_models_own_leaves_calls_of_plain_http_alone(line):
    call = HttpRequest("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "x"}')
    assert answer_with(line, call) == answer_to(session_of(ENTRY), call)


def test_an_embedding_can_fail_like_any_call_of_a_model():
    call = HttpRequest("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "x"}')
    assert answer_with("http_error 429", call).status == 429
    assert answer_with("stream_truncate 1 raise=cut", call).ending == "cut"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages/count_tokens"])
def test_faults_do_not_fire_at_what_is_no_call_of_a_model(path):
    call = HttpRequest("GET", path, "", {}, b"")
    assert answer_with("http_error 500", call).status != 500


def test_an_answer_that_clients_try_again_has_failed():
    assert [status for status in range(200, 600) if is_retryable(HttpResponse(status))] == [
        408,
        409,
        429,
        *range(500, 600),
    ]


@pytest.mark.parametrize(
    "answer",
    [HttpResponse(None, ending="silence"), HttpResponse(200, ending="cut"), HttpResponse(None, ending="reset")],
)
def test_an_answer_that_breaks_off_has_failed(answer):
    assert is_retryable(answer)


@pytest.mark.parametrize(
    ("line", "is_spoilt"),
    [
        ("stream_truncate 1 raise=clean", True),
        ("stream_truncate 1 raise=error_event", True),
        ("malformed_response", True),
        ("wrong_shape", True),
        ("wrong_content_type", False),
        ("http_error 500", True),
        ("http_error 400", False),
        ("stream_stall", False),
        ("slow_drip", False),
        ("empty_response", False),
        ("partial_response", False),
    ],
)
def test_a_fault_spoils_an_answer_if_a_client_would_ask_for_it_again(line, is_spoilt):
    fault = parse_fault(f"everywhere: {line}").fault
    session = session_of(ENTRY)
    call = call_of(stream=True)
    whole = answer_to(session, call)
    answer = apply_fault(fault, FaultTarget(parsed_of(stream=True), lambda: whole, lambda: read(whole)))
    assert spoils_answer(fault, answer) is is_spoilt
    assert not spoils_answer(None, whole)


class Outage(Fault, frozen=True, tag="outage"):
    """A fault of which nothing is written down but what it raises."""

    async def apply(self, call):
        raise ERRORS[call.request.model]


ERRORS = {
    "down": ProviderError("down", status_code=503, headers={"retry-after": "7", "bad name": "x"}),
    "odd": ProviderError("odd"),
    "reset": ProviderConnectionError("reset"),
    "late": ProviderTimeoutError("late"),
    "html": MalformedResponseError("no JSON", raw="<html>"),
}


def failed(model):
    """The answer to a call of the model at which the outage fires."""
    return apply_fault(Outage(), FaultTarget(parsed_of(model=model), HttpResponse, ProviderError))


def test_a_fault_that_raises_becomes_the_response_that_makes_a_client_raise_the_like():
    down = failed("down")
    assert down.status == 503
    assert down.headers["retry-after"] == "7"
    assert error_in(down) == "down"
    assert "bad name" not in down.headers
    assert failed("odd").status == 500
    assert failed("reset") == HttpResponse(None, ending="reset")
    assert failed("late") == HttpResponse(None, ending="silence", end_ms=inf)
    assert failed("html").status == 200
    assert failed("html").content == b"<html>"
