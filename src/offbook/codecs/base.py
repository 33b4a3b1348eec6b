"""The Codec interface that every protocol implements, helpers for its JSON, and the errors of HTTP statuses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from math import isfinite
from typing import Generic, Protocol, TypeVar

import msgspec
import orjson
from msgspec import Struct

from offbook.decoding import convert, decode
from offbook.errors import MalformedResponseError, ProviderError, RateLimitError, RequestError
from offbook.messages import Accumulator, JsonObject, Request, Response, StreamDelta
from offbook.text import shorten

AWS_RETRY_AFTER = "x-amz-retry-after"
NO_ID = "offbook"
"""The id of a response without one."""


class WireRequest(Struct, frozen=True):
    """A request as sent over HTTP: the path below the base URL with its query, and the JSON body."""

    path: str
    body: JsonObject


class OtherProtocolError(RequestError):
    """A request that shares its path with this protocol, and is of another one, which no codec decodes."""


class StreamDecoder(Protocol):
    """Decodes the bytes of one streamed response to deltas, however the bytes are split."""

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        """Yield the deltas that `data` completes.

        Raises:
            MalformedResponseError: the bytes violate the protocol.
            ProviderError: the provider reports an error inside the stream.
        """
        ...

    def close(self) -> tuple[list[StreamDelta], Response]:
        """Return the remaining deltas when the bytes have ended, and the response that all deltas make up.

        Raises:
            ProviderConnectionError: the stream ended before its last event.
        """
        ...


F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


class Frames(Protocol[F_co]):
    """Decodes the bytes of a body to frames, however the bytes are split."""

    def feed(self, data: bytes) -> Iterable[F_co]: ...

    def close(self) -> Iterable[F_co]: ...


class FramedStreamDecoder(ABC, Generic[F]):
    """A stream decoder that reads frame by frame, and joins the deltas of all frames."""

    def __init__(self, frames: Frames[F]) -> None:
        self._frames = frames
        self._joined = Accumulator()

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        return self._take(self._frames.feed(data))

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = list(self._take(self._frames.close()))
        return deltas, self._end()

    def _take(self, frames: Iterable[F]) -> Iterator[StreamDelta]:
        for frame in frames:
            for delta in self._read(frame):
                self._joined.add(delta)
                yield delta

    @abstractmethod
    def _read(self, frame: F) -> Iterable[StreamDelta]:
        """Return the deltas in a frame."""

    @abstractmethod
    def _end(self) -> Response:
        """Return the whole response. Raises the error of an incomplete stream if its last frame is missing."""


class ResponseEncoder(Protocol):
    """Encodes a response. `id` becomes part of the ids that the protocol requires, to make them unique in a run."""

    def __call__(self, response: Response, *, id: str = NO_ID) -> JsonObject: ...


class StreamEncoder(Protocol):
    """Encodes deltas as frames, between those that start and end a stream of `response`; `id` as above."""

    def __call__(self, response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]: ...


def bearer_auth(api_key: str) -> dict[str, str]:
    """Return the header that carries the key as a bearer token, or no header for an empty key."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def error_message(data: bytes, *path: str) -> str:
    """Return the text at `path` in a JSON error body, or the whole body as text."""
    text = data.decode("utf-8", "replace").strip()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return shorten(text, 500)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else shorten(text, 500)


def nested_error_message(data: bytes) -> str:
    """Return the message of an error body in the nested shape of OpenAI, Anthropic and Gemini."""
    return error_message(data, "error", "message")


class Codec(Struct, frozen=True, kw_only=True, eq=False):
    """One protocol. Clients encode requests and decode responses; servers do the reverse.

    Attributes:
        stream_type: the content type of a streamed response.
        decode_request: raises RequestError if the body is not a request of this protocol.
        decode_response: the caller sets `provider`, `cost_usd` and `latency_ms`. Raises MalformedResponseError if the
            bytes are not a response of this protocol, and ProviderError if the response reports a failure.
        encode_stream_error: an error as the vendor reports it inside a stream.
        encode_error: the body of an error, by its status and message, that the vendor's SDK understands.
        decode_error: the message in such a body, or the body itself if it has another shape.
        auth_headers: those that carry the key, unless it is empty, and those that the protocol requires with it.
    """

    name: str
    stream_type: str
    encode_request: Callable[[Request], WireRequest]
    decode_request: Callable[[WireRequest], Request]
    encode_response: ResponseEncoder
    decode_response: Callable[[bytes], Response]
    encode_stream: StreamEncoder
    encode_stream_error: Callable[[str], bytes]
    stream_decoder: Callable[[], StreamDecoder]
    encode_error: Callable[[int, str], JsonObject]
    decode_error: Callable[[bytes], str] = nested_error_message
    auth_headers: Callable[[str], dict[str, str]] = bearer_auth


T = TypeVar("T")


def decode_answer(data: bytes | str, shape: type[T]) -> T:
    """Decode a provider's JSON as `shape`. Undeclared fields are ignored.

    Raises:
        MalformedResponseError: `data` is not JSON, or a field has the wrong type.
    """
    try:
        return decode(data, shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raw = data if isinstance(data, str) else data.decode("utf-8", "replace")
        raise MalformedResponseError(f"{error}; got {shorten(raw)!r}", raw=raw) from None


def convert_request(body: object, shape: type[T]) -> T:
    """Convert a client's JSON body to `shape`.

    Raises:
        RequestError: a field is missing or has the wrong type.
    """
    try:
        return convert(body, shape)
    except msgspec.ValidationError as error:
        raise RequestError(str(error), source="request body") from None


def without_none(fields: JsonObject) -> JsonObject:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def renamed(name: str | None, names: Mapping[str, str]) -> str | None:
    """Return the name that `names` has for `name`, or `name` itself."""
    return names.get(name, name) if name is not None else None


def undeclared_fields(fields: JsonObject, shape: type[Struct]) -> JsonObject:
    """Return the fields that `shape` does not declare."""
    return {name: value for name, value in fields.items() if name not in shape.__struct_encode_fields__}


def content_blocks(deltas: Iterable[StreamDelta]) -> Iterator[Iterator[StreamDelta]]:
    """Yield the deltas block by block: adjacent ones of one kind, and of one tool call, share a block."""
    for _, block in groupby(deltas, key=lambda delta: (type(delta), getattr(delta, "index", 0))):
        yield block


def stream_error(message: object, *, raw: str) -> ProviderError:
    """Return the error for a failure that the provider reports inside a stream."""
    return ProviderError(f"error inside the stream: {message}", body=raw)


def error_of_status(
    status_code: int, *, headers: Mapping[str, str], body: str, message: str, now: datetime
) -> ProviderError:
    """Return the error for a response with a status other than 200. A `Retry-After` date is relative to `now`."""
    reason = f"HTTP {status_code}: {message}"
    if status_code == 429:
        return RateLimitError(reason, headers=headers, body=body, retry_after_s=retry_after_s(headers, now=now))
    return ProviderError(reason, status_code=status_code, headers=headers, body=body)


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the wait that the provider requests, from `retry-after-ms`, `x-amz-retry-after` or `retry-after`.

    `retry-after` is in seconds or a date, the others are in ms. A date is relative to the `date` of the same response,
    or to `now` if it has none.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), (AWS_RETRY_AFTER, 0.001), ("retry-after", 1.0)):
        try:
            wait_s = float(lowered[name]) * unit_s
        except (KeyError, ValueError):
            continue
        return max(0.0, wait_s) if isfinite(wait_s) else None
    moment = _moment(lowered.get("retry-after"))
    if moment is None:
        return None
    return max(0.0, (moment - (_moment(lowered.get("date")) or now)).total_seconds())


def _moment(date: str | None) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it loads sockets, and is seldom needed

    try:
        moment = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC)
