"""Reading a client's JSON body into a declared shape: what does not fit is an error that names its place."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from offbook.errors import RequestError

T = TypeVar("T", bound=msgspec.Struct)
_AT = " - at `$"
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


def read_body(body: object, shape: type[T], *, place: str = "") -> T:
    """A JSON object as `shape`, whose own fields may also be named as in Python; other fields are ignored.

    `place` is where the object stands in the body.

    Raises:
        RequestError: it is no object, or a field is missing or is not what the shape says.
    """
    try:
        return msgspec.convert(_renamed(body, shape), type=shape)
    except msgspec.ValidationError as error:
        raise _complaint(str(error), place) from None


def _renamed(body: object, shape: type[T]) -> object:
    if not isinstance(body, dict):
        return body
    names = dict(zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True))
    return {names.get(name, name): value for name, value in body.items()}


def _complaint(message: str, place: str) -> RequestError:
    reason, _, path = message.rpartition(_AT) if _AT in message else (message, "", "")
    path = path.removesuffix("`")
    missing = _MISSING.fullmatch(reason)
    if missing:
        reason, path = "this field is missing", f"{path}.{missing['name']}"
    return RequestError(reason[:1].lower() + reason[1:], source="request body", place=f"{place}{path}".lstrip("."))
