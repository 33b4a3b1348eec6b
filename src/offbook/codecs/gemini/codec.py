"""Gemini's generateContent."""

from offbook.codecs.gemini.request import decode_request, encode_request
from offbook.codecs.gemini.response import decode_error, decode_response, encode_error, encode_response
from offbook.codecs.gemini.stream import GeminiStreamDecoder, encode_stream, encode_stream_error


class GeminiCodec:
    """The `:generateContent` and `:streamGenerateContent` protocol."""

    name = "gemini"
    stream_type = "text/event-stream"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = GeminiStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)

    @staticmethod
    def auth_headers(api_key: str) -> dict[str, str]:
        return {"x-goog-api-key": api_key} if api_key else {}
