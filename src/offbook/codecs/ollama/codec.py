"""Ollama's chat."""

from offbook.codecs.ollama.request import decode_request, encode_request
from offbook.codecs.ollama.response import decode_error, decode_response, encode_error, encode_response
from offbook.codecs.ollama.stream import OllamaStreamDecoder, encode_stream, encode_stream_error


class OllamaCodec:
    """The `/api/chat` protocol."""

    name = "ollama"
    stream_type = "application/x-ndjson"
    encode_request = staticmethod(encode_request)
    decode_request = staticmethod(decode_request)
    encode_response = staticmethod(encode_response)
    decode_response = staticmethod(decode_response)
    encode_stream = staticmethod(encode_stream)
    encode_stream_error = staticmethod(encode_stream_error)
    stream_decoder = OllamaStreamDecoder
    encode_error = staticmethod(encode_error)
    decode_error = staticmethod(decode_error)

    @staticmethod
    def auth_headers(api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}
