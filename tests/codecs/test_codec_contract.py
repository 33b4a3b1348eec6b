"""What every codec promises: what it encodes it decodes again, whole or streamed, however the bytes are cut."""

from contextlib import suppress
from itertools import pairwise, takewhile

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.codecs.base import WireRequest
from offbook.codecs.framing import encode_frame
from offbook.errors import MalformedResponseError, ProviderConnectionError, RequestError
from offbook.messages import ReasoningDelta, Response, TextDelta, ToolCallDelta, Usage
from offbook.vendors import CODECS, VENDORS

from .strategies import requests, responses, streams

DEEP = b'{"a": ' + b"[" * 100_000

pytestmark = pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))


def over_the_wire(wire):
    """The request as the other side reads it."""
    return WireRequest(wire.path, orjson.loads(orjson.dumps(wire.body)))


PROMPT_PROTOCOLS = {name for vendor in VENDORS.values() for name in vendor.prompt_codecs.values()}


def asked_of(codec, request):
    """The request as the protocol can carry it: some have one prompt, and no tools."""
    if codec.name not in PROMPT_PROTOCOLS:
        return request
    has_system = codec.name == "ollama_generate" and request.messages[0]["role"] == "system"
    system = request.messages[:1] if has_system else ()
    return replace(request, messages=(*system, request.messages[-1]), tools=())


@given(request_=requests())
def test_a_request_survives_the_wire(codec, request_):
    request_ = asked_of(codec, request_)
    assert codec.decode_request(over_the_wire(codec.encode_request(request_))) == request_


def as_carried(codec, response):
    """The response as the protocol can carry it: Converse does not name its model, a prompt is answered by text."""
    if codec.name in PROMPT_PROTOCOLS:
        reasoning = response.reasoning if codec.name == "ollama_generate" else None
        end = "stop" if response.tool_calls else response.finish_reason
        return replace(response, tool_calls=(), finish_reason=end, reasoning=reasoning)
    return replace(response, model="") if codec.name == "bedrock" else response


@given(response=responses())
def test_a_response_survives_the_wire(codec, response):
    assert codec.decode_response(orjson.dumps(codec.encode_response(response))) == as_carried(codec, response)


def decode_stream(codec, pieces):
    """All deltas of a stream fed in `pieces`, and the response they make up."""
    decoder = codec.stream_decoder()
    read = [delta for piece in pieces for delta in decoder.feed(piece)]
    left, joined = decoder.close()
    return read + left, joined


def prose(deltas):
    return [delta for delta in deltas if not isinstance(delta, ToolCallDelta)]


@given(stream=streams())
def test_a_stream_survives_the_wire_with_its_text_in_the_same_pieces(codec, stream):
    response, deltas = stream
    read, joined = decode_stream(codec, codec.encode_stream(response, deltas))
    kinds = TextDelta if codec.name == "openai_completions" else (TextDelta, ReasoningDelta)
    assert prose(read) == [delta for delta in deltas if isinstance(delta, kinds)]
    assert joined == as_carried(codec, response)


@settings(max_examples=15)
@given(stream=streams(), data=st.data())
def test_a_stream_reads_the_same_wherever_its_bytes_are_cut(codec, stream, data):
    """Byte by byte, and in few pieces: a piece may hold frames and the beginning of the next."""
    body = b"".join(codec.encode_stream(*stream))
    whole = decode_stream(codec, [body])
    assert decode_stream(codec, [body[i : i + 1] for i in range(len(body))]) == whole
    cuts = data.draw(st.lists(st.integers(0, len(body)), min_size=1, max_size=4).map(sorted))
    assert decode_stream(codec, [body[i:j] for i, j in pairwise([0, *cuts, len(body)])]) == whole


def test_a_stream_that_is_cut_at_any_byte_is_whole_or_an_error(codec):
    """In two pieces it reads as in one. What ends there is refused, unless all but its usage has come."""
    response = as_carried(codec, Response("Grüße, Oslo", "m", usage=Usage.of(3, 5), finish_reason="stop"))
    body = b"".join(codec.encode_stream(response, [TextDelta("Grüße, "), TextDelta("Oslo")]))
    whole = decode_stream(codec, [body])
    for place in range(1, len(body)):
        assert decode_stream(codec, [body[:place], body[place:]]) == whole
        with suppress(ProviderConnectionError, MalformedResponseError):
            assert replace(decode_stream(codec, [body[:place]])[1], usage=response.usage) == whole[1]


@settings(max_examples=15)
@given(stream=streams())
def test_a_stream_cut_short_is_refused_unless_only_its_usage_is_missing(codec, stream):
    response, deltas = stream
    frames = list(codec.encode_stream(response, deltas))
    for count in range(len(frames)):
        try:
            _, joined = decode_stream(codec, frames[:count])
        except ProviderConnectionError:
            continue
        assert replace(joined, usage=response.usage) == as_carried(codec, response)


def test_a_stream_is_whole_without_the_line_that_only_says_so(codec):
    frames = list(codec.encode_stream(Response(content="Hello", model="m"), [TextDelta("Hello")]))
    says_only_so = frames[-1] == b"data: [DONE]\n\n"
    assert says_only_so is (codec.name in ("openai_chat", "openai_completions"))
    if says_only_so:
        assert decode_stream(codec, frames[:-1]) == decode_stream(codec, frames)


def decode_frames(codec, frames):
    """The deltas of the frames, of a stream that has not ended."""
    return list(codec.stream_decoder().feed(b"".join(frames)))


def test_what_came_before_a_broken_frame_is_not_lost_with_it(codec):
    names = {"anthropic": "content_block_delta", "bedrock": "contentBlockDelta", "bedrock_anthropic": "chunk"}
    broken = encode_frame(codec.stream_type, b"{bad", names.get(codec.name, ""))
    response = Response(content="Hello", model="m")
    frames = list(codec.encode_stream(response, [TextDelta("Hello")]))
    sent = list(takewhile(lambda frame: not decode_frames(codec, frames[: frames.index(frame)]), frames))
    deltas = codec.stream_decoder().feed(b"".join(sent) + broken)
    assert next(deltas) == TextDelta("Hello")
    with pytest.raises(MalformedResponseError):
        next(deltas)


def test_an_empty_stream_is_refused(codec):
    with pytest.raises(ProviderConnectionError):
        codec.stream_decoder().close()


@pytest.mark.parametrize(
    "data", [b"", b"not json", b"[]", b"null", b"{}", b'{"choices": 7}', b"\xff\xfe", b'{"a": ', DEEP]
)
def test_what_is_no_response_is_malformed(codec, data):
    with pytest.raises(MalformedResponseError) as caught:
        codec.decode_response(data)
    assert caught.value.raw == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "body", [{}, {"messages": "hi", "contents": "hi", "model": "m"}, {"messages": [1], "model": 3}]
)
def test_what_is_no_request_is_refused(codec, body):
    if codec.name == "openai_responses" and body.get("model") != 3:
        return  # a prompt on the vendor's servers may hold everything, so that no field must be there
    with pytest.raises(RequestError):
        codec.decode_request(WireRequest("", body))


def test_an_error_body_reports_its_message_again(codec):
    assert codec.decode_error(orjson.dumps(codec.encode_error(500, "it broke"))) == "it broke"


@pytest.mark.parametrize("data", [b"<html>bad gateway</html>", b'{"unknown": "shape"}', b'{"error": 5}', b'"text"'])
def test_an_error_body_of_another_shape_is_reported_as_it_is(codec, data):
    assert codec.decode_error(data) == data.decode()
