"""The codec protocol: one wire format, both directions, as pure functions of bytes and values."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from offbook.messages import JsonObject, Request, Response, StreamDelta

NO_ID = "offbook"
"""What stands in the ids of an answer that is given none."""


class WireRequest(Struct, frozen=True):
    """A request as it goes over HTTP: path below the base URL (query included) and JSON body."""

    path: str
    body: JsonObject


class StreamDecoder(Protocol):
    """Turns the bytes of one streamed answer into deltas, however the bytes are cut."""

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        """The deltas that `data` completes, up to what it breaks.

        Raises:
            MalformedResponseError: the bytes are not what the protocol says.
            ProviderError: the provider reported an error inside the stream.
        """
        ...

    def close(self) -> tuple[list[StreamDelta], Response]:
        """The deltas left when the bytes have ended, and the response that all deltas make up.

        Raises:
            ProviderConnectionError: the stream ended before its last event.
        """
        ...


class Codec(Protocol):
    """One protocol. The client side encodes requests and decodes answers, the server side the reverse."""

    @property
    def name(self) -> str: ...

    @property
    def stream_type(self) -> str:
        """The content type of a streamed answer."""
        ...

    def auth_headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry the key (none if it is empty) and those that the protocol demands beside it."""
        ...

    def encode_request(self, request: Request) -> WireRequest: ...

    def decode_request(self, wire: WireRequest) -> Request:
        """Raises RequestError if the body is not a request of this protocol."""
        ...

    def encode_response(self, response: Response, *, id: str = NO_ID) -> JsonObject:
        """The response. `id` goes into the ids that the protocol demands, to set it apart from others of a run."""
        ...

    def decode_response(self, data: bytes) -> Response:
        """The response, with `provider`, `cost_usd` and `latency_ms` left for the caller to fill in.

        Raises:
            MalformedResponseError: `data` is not a response of this protocol.
            ProviderError: the response says that it failed.
        """
        ...

    def encode_stream(self, response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
        """Frames for the deltas, between the frames that open and end a stream of `response`; `id` as above."""
        ...

    def encode_stream_error(self, message: str) -> bytes:
        """The frame by which the vendor reports an error inside a stream."""
        ...

    def stream_decoder(self) -> StreamDecoder: ...

    def encode_error(self, status_code: int, message: str) -> JsonObject:
        """The error body that the vendor's SDK understands."""
        ...

    def decode_error(self, data: bytes) -> str:
        """The message in an error body, or the body itself where it has another shape."""
        ...
