"""Anthropic messages, and so every server that speaks it."""

from offbook.codecs.anthropic.request import decode_request, encode_request
from offbook.codecs.anthropic.response import decode_error, decode_response, encode_error, encode_response
from offbook.codecs.anthropic.stream import AnthropicStreamDecoder, encode_stream, encode_stream_error

API_VERSION = "2023-06-01"


class AnthropicCodec:
    """The `/v1/messages` protocol."""

    name = "anthropic"
    stream_type = "text/event-stream; charset=utf-8"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = AnthropicStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)

    @staticmethod
    def auth_headers(api_key: str) -> dict[str, str]:
        key = {"x-api-key": api_key} if api_key else {}
        return {"anthropic-version": API_VERSION} | key
