"""What came over the wire: the status, headers and bytes of one answer, as files spell them."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

PLAIN_HTTP = "http"
"""The protocol of an exchange that is no call of a model, such as a list of models."""

_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_KEPT = re.compile(
    r"content-type|retry-after(-ms)?|x-should-retry|(x-)?request-id"
    r"|(x-|anthropic-)?ratelimit-.+|openai-(?!(organization|project)$).+"
)


class Base64(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are no UTF-8 text."""

    base64: str

    def __post_init__(self) -> None:
        self.decode()

    def decode(self) -> bytes:
        """The bytes. Raises ValueError if the text is no base64."""
        try:
            return b64decode(self.base64, validate=True)
        except ValueError as error:
            raise ValueError(f"not base64: {error}") from None


WireText: TypeAlias = str | Base64
TimedFrame: TypeAlias = tuple[Annotated[float, Meta(ge=0)], WireText]
"""Bytes that arrived together and when they came, in ms since the request."""


class WireRecord(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """One answer as it came: `frames` if it was streamed, else `body`. Names of headers are lower-case.

    `protocol` is the name of a codec, or `http` for an exchange that is no call of a model.

    Raises:
        ValueError: a header could be taken for more than one, or there are frames and a body.
    """

    protocol: str
    status: Annotated[int, Meta(ge=100, le=599)] = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: WireText | None = None
    frames: list[TimedFrame] | None = None

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if reason := _unfit_reason(name, value):
                raise ValueError(f"the header {ascii(name)[:60]} {reason}")
        if self.frames is not None and self.body is not None:
            raise ValueError("an answer has frames or a body, not both")

    @property
    def is_streamed(self) -> bool:
        """Whether the answer came in frames."""
        return self.frames is not None

    def timed_frames(self) -> list[tuple[float, bytes]]:
        """The bytes with their times in ms; a body is one frame at 0, and nothing is none."""
        if self.frames is not None:
            return [(at_ms, wire_bytes(text)) for at_ms, text in self.frames]
        return [] if self.body is None else [(0.0, wire_bytes(self.body))]

    def content(self) -> bytes:
        """All bytes of the answer."""
        return b"".join(data for _, data in self.timed_frames())


def _unfit_reason(name: str, value: str) -> str:
    """Why a header could not be sent as it is; empty if it could."""
    if not _NAME.fullmatch(name):
        return "is no lower-case name"
    return "" if _VALUE.fullmatch(value) else "has characters that no header may have"


def wire_text(data: bytes) -> WireText:
    """Bytes as files spell them: text if they are UTF-8, else base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Base64(b64encode(data).decode())


def wire_bytes(text: WireText) -> bytes:
    """The bytes that `wire_text` spelt."""
    return text.encode() if isinstance(text, str) else text.decode()


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that matter when an answer is replayed, their names in lower case.

    Those that name an account, hold credentials or tell how bytes were packed are left out.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if _KEPT.fullmatch(name) and not _unfit_reason(name, value)}
