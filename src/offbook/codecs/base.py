"""The Codec protocol that every wire format implements, and how a peer's JSON is read into declared types."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec
import orjson
from msgspec import Struct

from offbook.errors import MalformedResponseError, RequestError
from offbook.messages import JsonObject, Request, Response, StreamDelta
from offbook.text import shorten

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


T = TypeVar("T")


def decode_answer(data: bytes | str, shape: type[T]) -> T:
    """A provider's JSON as `shape`; fields that the shape does not name are ignored.

    Raises:
        MalformedResponseError: it is not JSON, or a field has the wrong type.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raw = data if isinstance(data, str) else data.decode("utf-8", "replace")
        raise MalformedResponseError(f"{error}; got {shorten(raw)!r}", raw=raw) from None


def convert_request(body: object, shape: type[T]) -> T:
    """A client's JSON body as `shape`.

    Raises:
        RequestError: a field is missing or has the wrong type.
    """
    try:
        return msgspec.convert(body, type=shape)
    except msgspec.ValidationError as error:
        raise RequestError(str(error), source="request body") from None


def error_message(data: bytes, *path: str) -> str:
    """The text at `path` in a JSON error body, or the body as text where there is none."""
    text = data.decode("utf-8", "replace").strip()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return shorten(text, 500)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else shorten(text, 500)


def without_none(fields: JsonObject) -> JsonObject:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
