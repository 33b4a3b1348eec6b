"""Reading a peer's JSON into declared shapes: what does not fit is an error that says where."""

from typing import TypeVar

import msgspec
import orjson

from offbook.errors import MalformedResponseError, RequestError
from offbook.messages import JsonObject

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


def shorten(text: str, limit: int = 120) -> str:
    """`text` cut to `limit` characters, for an error message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
