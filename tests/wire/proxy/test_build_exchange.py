"""Captured bytes are decoded by the codec of the call; bytes that it cannot decode are recorded with a fault."""

import orjson
import pytest
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.faults import ConnectionReset, HttpError, MalformedResponse, StreamTruncate, Timeout
from offbook.messages import Response, ToolCall, Usage, deltas_of
from offbook.providers.pricing import Price, PriceTable
from offbook.recording.format.exchange import StreamPiece
from offbook.vendors import CODECS
from offbook.wire.proxy.recorder import ResponseCapture, build_exchange, provider_name_of
from offbook.wire.request import HttpRequest, parse_request
from tests.wire.http_requests import EVERY_PROTOCOL, PROTOCOLS, call_of, parsed_of

NAMES = {
    "openai_chat": "openai",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "google",
    "ollama": "ollama",
    "bedrock": "bedrock",
    "bedrock_anthropic": "bedrock_anthropic",
}
PRICES = PriceTable({"m": Price(1_000_000, 0)}, free_providers=("ollama",))
CALLED = (ToolCall("look_up", {"q": "x"}, "call_1"),)
RESPONSE = Response("Hello, you", "m", "", Usage(3, 2, 5), 0.0, 0.0, "tool_calls", CALLED)


def captured_of(parsed, *pieces, status=200, ending="complete", content_type="", has_client_left=False):
    response_capture = ResponseCapture(parsed, SYSTEM_CLOCK)
    kind = content_type or (parsed.route.any_codec.stream_type if parsed.is_streamed else "application/json")
    response_capture.start(status, {"content-type": kind, "x-request-id": "r"})
    for piece in pieces:
        response_capture.feed(piece)
    return response_capture.end(ending, has_client_left=has_client_left)


def recorded(parsed, *pieces, **options):
    captured = captured_of(parsed, *pieces, **options)
    return build_exchange(parsed, captured, prices=PRICES)


def frames_of(protocol, response=RESPONSE):
    return list(CODECS[protocol].encode_stream(response, deltas_of(response)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_is_read(protocol):
    parsed = parsed_of(protocol)
    exchange = recorded(parsed, orjson.dumps(CODECS[protocol].encode_response(RESPONSE)))
    assert exchange.content == "Hello, you"
    assert exchange.model == "m"
    assert exchange.provider == NAMES[protocol]
    assert [(call.name, call.arguments) for call in exchange.tool_calls] == [("look_up", {"q": "x"})]
    assert exchange.usage.prompt_tokens == 3
    assert exchange.usage.completion_tokens == 2
    assert exchange.cost_usd == (0 if protocol == "ollama" else 3)
    assert exchange.finish_reason == "tool_calls"
    assert exchange.fault is None
    assert exchange.chunks is None
    assert exchange.request_hash == parsed.request_hash
    assert exchange.wire.protocol == protocol


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_read_piece_by_piece(protocol):
    frames = frames_of(protocol)
    exchange = recorded(parsed_of(protocol, stream=True), *frames)
    assert [frame for _, frame in exchange.wire.timed_frames()] == frames
    assert exchange.content == "Hello, you"
    assert exchange.fault is None
    assert "".join(piece for _, piece in exchange.chunks if isinstance(piece, str)) == "Hello, you"
    assert any(isinstance(piece, StreamPiece) for _, piece in exchange.chunks)
    assert {at_ms for at_ms, _ in exchange.chunks} <= {at_ms for at_ms, _ in exchange.wire.frames}


def test_an_array_of_gemini_is_read_as_the_stream_that_it_is():
    call = call_of("gemini", stream=True)
    parsed = parse_request(HttpRequest("POST", call.path, "", {}, call.body))
    assert parsed.is_array
    documents = [frame.removeprefix(b"data: ").rstrip() for frame in frames_of("gemini")]
    pieces = [b"[" + documents[0], *(b",\r\n" + document for document in documents[1:]), b"]"]
    exchange = recorded(parsed, *pieces, content_type="application/json")
    assert [frame for _, frame in exchange.wire.timed_frames()] == pieces
    assert exchange.content == "Hello, you"
    assert exchange.fault is None


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize(
    ("ending", "expected"),
    [("complete", "clean"), ("cut", "cut"), ("reset", "ConnectionError"), ("silence", "TimeoutError")],
)
def test_a_stream_that_ends_too_early_says_how(protocol, ending, expected):
    response = Response("Hello", "m")
    exchange = recorded(
        parsed_of(protocol, stream=True), *frames_of(protocol, response)[:-3], b"data: {", ending=ending
    )
    exchange_left = recorded(
        parsed_of(protocol, stream=True), *frames_of(protocol, response)[:-3], has_client_left=True
    )
    assert isinstance(exchange.fault, StreamTruncate | MalformedResponse)
    if ending != "complete":
        assert exchange.fault == StreamTruncate(len(exchange.chunks or ()), expected)
        assert exchange.usage is None
    assert exchange_left.fault == StreamTruncate(len(exchange_left.chunks or ()), "clean")


def test_a_stream_that_was_complete_and_then_reset_has_been_reset():
    exchange = recorded(parsed_of(stream=True), *frames_of("openai_chat"), ending="reset")
    assert exchange.fault == StreamTruncate(len(exchange.chunks), "ConnectionError")


def test_a_stream_that_the_client_left_behind_its_last_event_is_complete():
    exchange = recorded(parsed_of(stream=True), *frames_of("openai_chat"), has_client_left=True)
    assert exchange.fault is None
    assert exchange.content == "Hello, you"


def test_bytes_inside_a_stream_that_cannot_be_read_are_recorded_with_a_fault():
    first, *_ = frames_of("openai_chat", Response("Hello"))[1:]
    exchange = recorded(parsed_of(stream=True), first, b"data: {broken\n\n", b"data: [DONE]\n\n")
    assert exchange.fault == StreamTruncate(1, "malformed")
    assert exchange.content == "Hello"
    assert recorded(parsed_of(stream=True), b"data: {broken\n\n").fault == MalformedResponse("{broken")


def test_an_error_inside_a_stream_is_a_fault():
    error = CODECS["anthropic"].encode_stream_error("overloaded")
    exchange = recorded(parsed_of("anthropic", stream=True), error)
    assert exchange.fault == StreamTruncate(0, "error_event")
    assert exchange.wire.content() == error


def test_a_whole_answer_where_a_stream_was_asked_for_is_kept_as_it_came():
    body = orjson.dumps(CODECS["openai_chat"].encode_response(RESPONSE))
    exchange = recorded(parsed_of(stream=True), body, content_type="application/json")
    assert exchange.fault == StreamTruncate(0, "clean")
    assert exchange.wire.content() == body
    assert exchange.wire.is_streamed


def test_events_where_none_were_asked_for_are_a_body():
    exchange = recorded(parsed_of(), *frames_of("openai_chat"), content_type="text/event-stream")
    assert not exchange.wire.is_streamed
    assert isinstance(exchange.fault, MalformedResponse)


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("stream", [True, False])
def test_an_error_status_is_the_fault_it_was(protocol, stream):
    body = orjson.dumps(CODECS[protocol].encode_error(503, "busy"))
    exchange = recorded(parsed_of(protocol, stream=stream), body, status=503, content_type="application/json")
    assert exchange.fault == HttpError(503, {"content-type": "application/json", "x-request-id": "r"}, body.decode())
    assert exchange.wire.status == 503
    assert exchange.wire.body == body.decode()
    assert exchange.usage is None


def test_an_error_whose_body_broke_off_is_a_truncated_answer():
    assert recorded(parsed_of(), b"{", status=503, ending="cut").fault == StreamTruncate(0, "cut")


def test_where_nothing_came_there_are_no_bytes():
    parsed = parsed_of()
    nothing = ResponseCapture(parsed, SYSTEM_CLOCK).end("cut", failure="gone")
    exchange = build_exchange(parsed, nothing, prices=PRICES)
    assert exchange.fault == ConnectionReset()
    assert exchange.wire is None
    assert exchange.provider == "openai"
    silent = build_exchange(parsed, ResponseCapture(parsed, SYSTEM_CLOCK).end("silence"), prices=PRICES)
    assert isinstance(silent.fault, Timeout)


def test_plain_http_has_nothing_beside_its_bytes():
    parsed = parse_request(HttpRequest("GET", "/v1/models", "", {}, b""))
    exchange = recorded(parsed, b"{}", b"", status=500)
    assert exchange.fault is None
    assert exchange.provider == ""
    assert exchange.usage is None
    assert exchange.wire.body == "{}"
    assert provider_name_of(parsed) == "openai"
    stream = recorded(parsed, b"data: 1\n\ndata: 2\n\nda", content_type="text/event-stream", ending="cut")
    assert len(stream.wire.frames) == 3
    assert stream.fault == StreamTruncate(3, "cut")


def test_a_model_that_the_answer_does_not_name_is_the_one_that_was_asked():
    body = orjson.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})
    assert recorded(parsed_of(model="mine"), body).model == "mine"


def test_bytes_that_make_a_codec_fail_are_recorded(caplog):
    class Choking:
        name = "openai_chat"
        stream_type = "text/event-stream"

        def decode_response(self, data):
            raise KeyError("surprise")

        def stream_decoder(self):
            raise KeyError("surprise")

    class Route:
        vendor, protocol, codec = "openai", "openai_chat", Choking()

    for stream in (False, True):
        parsed = replace(parsed_of(stream=stream), route=Route())
        exchange = recorded(parsed, b"bytes", content_type="text/event-stream")
        assert exchange.fault == MalformedResponse("bytes")
        assert exchange.wire.content() == b"bytes"
    assert "could not be decoded; its bytes are recorded" in caplog.text
