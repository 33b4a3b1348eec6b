"""A run's request to a model or an API, over any face."""

from __future__ import annotations

from typing import ClassVar, Protocol

from msgspec import Struct

from offbook.messages import Request
from offbook.recording.match.fingerprint import canonical_bytes, canonical_fields
from offbook.recording.match.folders import NO_RENAMES, Renames


class Call(Protocol):
    """A request to a model, a plain HTTP request, or a message of a socket (`is_message`).

    `fields` is its content as canonical JSON, and `request_hash` its fingerprint. `request` is the decoded model
    request; `problem` is the reason why one could not be decoded. `protocol`, `vendor`, `method` and `place` are its
    API's; a call of a provider in this process has none. `renames` are the names of folders in its answer.
    """

    @property
    def request(self) -> Request | None: ...
    @property
    def request_hash(self) -> str: ...
    @property
    def fields(self) -> bytes: ...
    @property
    def is_message(self) -> bool: ...
    @property
    def protocol(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def renames(self) -> Renames: ...


class ProviderCall(Struct, frozen=True, gc=False):
    """A request to a provider in this process."""

    request: Request
    request_hash: str
    is_message: ClassVar[bool] = False
    protocol: ClassVar[str] = ""
    vendor: ClassVar[str] = ""
    method: ClassVar[str] = ""
    place: ClassVar[str] = ""
    problem: ClassVar[str] = ""
    renames: ClassVar[Renames] = NO_RENAMES

    @property
    def fields(self) -> bytes:
        return canonical_bytes(canonical_fields(self.request))
