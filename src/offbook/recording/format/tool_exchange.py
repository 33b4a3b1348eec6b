"""A tool exchange: one recorded tool call, with its arguments, its result or error, and its timing."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, Struct, UnsetType

from offbook.errors import RecordedToolError, ToolResolutionError, ToolTimeoutError
from offbook.messages import JsonObject
from offbook.tools.definition import ToolDef
from offbook.tools.result_text import plain_str, result_text


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
        return hash_arguments(self.arguments)

    @property
    def answer(self) -> Any:
        """The result, as a value that the caller may change; None if there is none."""
        return None if self.result is UNSET else msgspec.json.decode(msgspec.json.encode(self.result))

    def is_same(self, other: ToolExchange) -> bool:
        """Whether the other is a copy of this exchange."""
        return msgspec.json.encode(self) == msgspec.json.encode(other)


ToolEntry: TypeAlias = ToolExchange | list[ToolExchange]


def hash_arguments(arguments: JsonObject) -> str:
    """The SHA-256 of arguments that are JSON, in hex, whatever the order of their names."""
    return sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()


class _KeyError(KeyError):
    """A KeyError that says its message as it is, where the built-in one would quote it."""

    __str__ = Exception.__str__


_KeyError.__name__ = _KeyError.__qualname__ = "KeyError"

_OS_ERRORS = (
    *(OSError, BlockingIOError, ChildProcessError, FileExistsError, FileNotFoundError, InterruptedError),
    *(IsADirectoryError, NotADirectoryError, PermissionError, ProcessLookupError, TimeoutError, ConnectionError),
    *(BrokenPipeError, ConnectionAbortedError, ConnectionRefusedError, ConnectionResetError),
)
_KNOWN_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, Exception, FloatingPointError),
        *(ImportError, IndexError, LookupError, MemoryError, ModuleNotFoundError, NameError, NotImplementedError),
        *(OverflowError, RecursionError, ReferenceError, RuntimeError, TypeError, UnicodeError, ValueError),
        *(ZeroDivisionError, ToolResolutionError, _KeyError),
        *_OS_ERRORS,
    )
}
"""The errors that are raised again as what they were. Nothing that a file names is looked up anywhere else."""


def recorded_error(error: Exception) -> RecordedError:
    """The error as files spell it."""
    return RecordedError(type(error).__name__, plain_str(error).encode(errors="replace").decode())


def error_from_record(recorded: RecordedError, *, tool: ToolDef) -> Exception:
    """The error that was recorded: of its own class where that is a well-known one, else a RecordedToolError.

    Its text, and the name of its class, are the recorded ones.
    """
    if recorded.type == "ToolTimeoutError":
        late = ToolTimeoutError(tool=tool.name, timeout_s=tool.timeout_s or 0.0)
        late.args = (recorded.message,)
        return late
    kind = _KNOWN_ERRORS.get(recorded.type)
    return RecordedToolError.of(recorded.type, recorded.message) if kind is None else kind(recorded.message)


class JsonForm(NamedTuple):
    """A JSON value that a model is told alike. `type_name` names the type of what `value` is only the text of."""

    value: Any
    type_name: str | None = None


def json_form(value: object) -> JsonForm:
    """The value as it is kept. Dataclasses, Structs, pydantic models and the like become objects and lists.

    What JSON knows only as text (a date, bytes, any other object) is kept as the text that a model is
    told of it. Never raises.
    """
    text = result_text(value)
    if not isinstance(value, str) and (_is_plain(value) or text.startswith(("{", "["))):
        try:
            kept = orjson.loads(text)
            if orjson.dumps(kept) == text.encode():
                return JsonForm(kept)
        except (TypeError, ValueError):  # no JSON, or nested too deep for it
            pass
    readable = text.encode(errors="replace").decode()
    return JsonForm(readable, None if isinstance(value, str) and readable == text else type(value).__name__)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def json_arguments(arguments: Mapping[str, object]) -> JsonObject:
    """Arguments as they are kept."""
    return {name: json_form(value).value for name, value in arguments.items()}
