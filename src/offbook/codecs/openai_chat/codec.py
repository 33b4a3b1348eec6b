"""OpenAI chat completions, and so every server that speaks it."""

from offbook.codecs.openai_chat.request import decode_request, encode_request
from offbook.codecs.openai_chat.response import decode_error, decode_response, encode_error, encode_response
from offbook.codecs.openai_chat.stream import OpenAIChatStreamDecoder, encode_stream, encode_stream_error


class OpenAIChatCodec:
    """The `/chat/completions` protocol."""

    name = "openai_chat"
    stream_type = "text/event-stream; charset=utf-8"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = OpenAIChatStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)

    @staticmethod
    def auth_headers(api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}
