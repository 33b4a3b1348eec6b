"""A tool exchange: one recorded call of a tool, with its arguments, how it ended and how long it took."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from offbook.messages import JsonObject


class RecordedError(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An error as files spell it: the name of its class, and what it said."""

    type: str
    message: str = ""


class ToolExchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a tool. Without `arguments` it answers any call of its tool.

    `result` is a JSON value; where the tool gave something else it is its text, and `result_type` names
    what it was. `arguments_hash` tells what the arguments were where they no longer do: when a secret
    was taken out of them.
    """

    arguments: JsonObject | UnsetType = UNSET
    result: Any = UNSET
    result_type: str | None = None
    error: RecordedError | None = None
    latency_ms: float = 0.0
    recorded_at: str | None = None
    arguments_hash: str | None = None

    @property
    def fingerprint(self) -> str | None:
        """The hash of the arguments that this answers; None if it answers any."""
        if self.arguments_hash or isinstance(self.arguments, UnsetType):
            return self.arguments_hash or None
        return hash_of(self.arguments)

    @property
    def answer(self) -> Any:
        """The result, as a value that the caller may change; None if there is none."""
        return None if self.result is UNSET else msgspec.json.decode(msgspec.json.encode(self.result))

    def is_same(self, other: ToolExchange) -> bool:
        """Whether the other is a copy of this exchange."""
        return msgspec.json.encode(self) == msgspec.json.encode(other)


ToolEntry: TypeAlias = ToolExchange | list[ToolExchange]


def hash_of(arguments: JsonObject) -> str:
    """The SHA-256 of arguments that are JSON, in hex, whatever the order of their names."""
    return sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()
