"""A tool exchange: one recorded tool call, with its arguments, its result or error, and its timing."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from offbook.clock import MAX_WAIT_MS
from offbook.errors import OffbookError, ToolResolutionError, ToolTimeoutError
from offbook.messages import JsonObject
from offbook.recording.format.wire_record import WireRecord
from offbook.tools.definition import ToolDef
from offbook.tools.result_text import plain_str, result_text


class RecordedToolError(OffbookError):
    """The recorded error of a tool, if its class is not one that replay knows.

    `type` is the name of that class and, if it is an identifier, of this error's own class too, so that the error
    reads as it did when it was recorded. `message` is its message.
    """

    def __init__(self, message: str, *, type: str) -> None:
        self.type, self.message = type, message
        super().__init__(message if self.__class__.__name__ == type else f"{type}: {message}")

    @classmethod
    def of(cls, name: str, message: str) -> RecordedToolError:
        """Return an error whose class has that name."""
        kind = type(name, (RecordedToolError,), {}) if name.isidentifier() else RecordedToolError
        error: RecordedToolError = kind(message, type=name)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return RecordedToolError.of, (self.type, self.message)


class RecordedError(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An error in the format of the file: the name of its class, and its message."""

    type: str
    message: str = ""


class ToolExchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One recorded tool call. Without `arguments` it answers any call of its tool.

    `result` is a JSON value. If the tool returned something else, it is the text of that, and `result_type` is the
    name of its type. `arguments_hash` identifies the original arguments if a secret was removed from them. `wire` has
    the messages of an MCP server, the answer last.
    """

    arguments: JsonObject | UnsetType = UNSET
    result: Any = UNSET
    result_type: str | None = None
    error: RecordedError | None = None
    latency_ms: Annotated[float, Meta(le=MAX_WAIT_MS)] = 0.0
    recorded_at: str | None = None
    arguments_hash: str | None = None
    wire: WireRecord | None = None

    @property
    def fingerprint(self) -> str | None:
        """The hash of the arguments that this answers; None if it answers any."""
        if self.arguments_hash or isinstance(self.arguments, UnsetType):
            return self.arguments_hash or None
        return hash_arguments(self.arguments)

    @property
    def answer(self) -> Any:
        """A copy of the result that the caller may change; None if there is none."""
        return None if self.result is UNSET else msgspec.json.decode(msgspec.json.encode(self.result))


ToolEntry: TypeAlias = ToolExchange | list[ToolExchange]


def hash_arguments(arguments: JsonObject) -> str:
    """Return the SHA-256 of JSON arguments in hex, whatever the order of their names."""
    return sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()


class _KeyError(KeyError):
    """A KeyError whose message is not quoted."""

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
"""The errors that are raised again with their own class. No other name in a file is ever looked up."""


def recorded_error(error: Exception) -> RecordedError:
    """Return an error in the format of the file."""
    return RecordedError(type(error).__name__, plain_str(error).encode(errors="replace").decode())


def error_from_record(recorded: RecordedError, *, tool: ToolDef) -> Exception:
    """Return the recorded error: of its own class if that is well known, else a RecordedToolError.

    Its message and the name of its class are the recorded ones.
    """
    if recorded.type == "ToolTimeoutError":
        timeout = ToolTimeoutError(tool=tool.name, timeout_s=tool.timeout_s or 0.0)
        timeout.args = (recorded.message,)
        return timeout
    kind = _KNOWN_ERRORS.get(recorded.type)
    return RecordedToolError.of(recorded.type, recorded.message) if kind is None else kind(recorded.message)


class JsonForm(NamedTuple):
    """A JSON value. If it is only the text of another value, `type_name` is the name of that value's type."""

    value: Any
    type_name: str | None = None


def json_form(value: object) -> JsonForm:
    """Return a value as it is recorded: a JSON value that a model sees as the same text. Never raises.

    Dataclasses, Structs, pydantic models and the like become objects and lists. A value without a JSON form (a date,
    bytes, any other object) becomes the text that a model sees.
    """
    text = result_text(value)
    if not isinstance(value, str) and (_is_plain(value) or text.startswith(("{", "["))):
        try:
            parsed = orjson.loads(text)
            if orjson.dumps(parsed) == text.encode():
                return JsonForm(parsed)
        except (TypeError, ValueError):  # not JSON, or nested too deep
            pass
    readable = text.encode(errors="replace").decode()
    return JsonForm(readable, None if isinstance(value, str) and readable == text else type(value).__name__)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def json_arguments(arguments: Mapping[str, object]) -> JsonObject:
    """Return arguments as they are recorded."""
    return {name: json_form(value).value for name, value in arguments.items()}
