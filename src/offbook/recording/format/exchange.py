"""An exchange: one recorded model or tool call, with its request, its answer or error, and its timing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from offbook.clock import MAX_WAIT_MS
from offbook.errors import OffbookError, RecordingFormatError, ToolResolutionError, ToolTimeoutError
from offbook.faults import AnyFault
from offbook.messages import (
    JsonObject,
    ReasoningDelta,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    deltas_of,
    json_text,
    plain_str,
    result_text,
)
from offbook.recording.format.wire_record import WireRecord
from offbook.text import printable
from offbook.tools.definition import ToolDef

ABSENT = Raw()
_NO_USAGE = Usage()


class RecordedToolCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool call in the file format. `arguments` is an object, or a str if it is not a JSON object."""

    id: str | None = None
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    reasoning: str | None = None


class ToolCallPiece(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a streamed tool call."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class StreamPiece(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A streamed piece other than plain text: a part of the reasoning, or of a tool call."""

    reasoning: str | None = None
    tool_call: ToolCallPiece | None = None


TimedPiece: TypeAlias = tuple[Annotated[float, Meta(le=MAX_WAIT_MS)], str | StreamPiece]
"""The time of a streamed piece, in ms since the request, and the piece."""


Condition = Literal["tool_error", "empty", "any"]
"""The use of a hand-written answer: after a failed tool, after an empty answer, or always."""

AfterTool: TypeAlias = Annotated[str, Meta(pattern=r"^after \S+$")]
"""The use of a hand-written tool result: `after create_invoice`."""

CONDITIONAL = "when "
"""The prefix of the fingerprints of exchanges with a `when`."""


class Exchange(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """One recorded model call. `request` is the JSON of the request, unparsed.

    `wire` is set if the exchange was recorded over HTTP. A plain HTTP exchange has only `wire` and `request`. A
    hand-written exchange with `when` answers only requests that nothing else answers.
    """

    when: Condition | None = None
    content: str = ""
    model: str = ""
    provider: str = ""
    usage: Usage | None = None
    cost_usd: float = 0.0
    latency_ms: Annotated[float, Meta(le=MAX_WAIT_MS)] = 0.0
    finish_reason: str | UnsetType | None = UNSET
    tool_calls: list[RecordedToolCall] | None = None
    reasoning: str | None = None
    chunks: list[TimedPiece] | None = None
    fault: AnyFault | None = None
    recorded_at: str | None = None
    request_hash: str | None = None
    request: Raw = ABSENT
    wire: WireRecord | None = None

    def response(self, *, model: str, provider: str) -> Response:
        """Return the recorded response. `model` and `provider` are used if the entry has none."""
        return Response(
            content=self.content,
            model=self.model or model,
            provider=self.provider or provider,
            usage=self.usage or _NO_USAGE,
            cost_usd=self.cost_usd,
            latency_ms=self.latency_ms,
            finish_reason=self.ending,
            tool_calls=tuple([_tool_call_from_record(call) for call in self.tool_calls]) if self.tool_calls else (),
            reasoning=self.reasoning,
        )

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the request that this answers, or None for any request of its key.

        A conditional exchange's fingerprint equals that of no request.
        """
        return self.request_hash or None if self.when is None else CONDITIONAL + self.when

    @property
    def ending(self) -> str | None:
        """The finish reason; by default `tool_calls` or `stop`."""
        if isinstance(self.finish_reason, UnsetType):
            return "tool_calls" if self.tool_calls else "stop"
        return self.finish_reason

    def timed_deltas(self) -> list[tuple[float, StreamDelta]]:
        """Return the recorded chunks as deltas with their times in ms, or the response word by word without chunks."""
        if self.chunks is not None:
            return [(at_ms, delta_from_piece(piece)) for at_ms, piece in self.chunks]
        deltas: list[tuple[float, StreamDelta]] = []
        for delta in deltas_of(self.response(model="", provider="")):
            if isinstance(delta, TextDelta):
                deltas += [(0.0, TextDelta(word)) for word in re.findall(r"\s*\S+|\s+$", delta.text)]
            else:
                deltas.append((0.0, delta))
        return deltas

    def is_same(self, other: Exchange) -> bool:
        """Return whether the other is a copy of this exchange."""
        return msgspec.json.encode(self) == msgspec.json.encode(other)

    def request_fields(self) -> JsonObject | None:
        """Return the recorded request, or None if the entry has none with messages."""
        fields = self._decode_request()
        messages = fields.get("messages")
        is_request = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
        return fields if is_request else None

    def http_fields(self) -> JsonObject | None:
        """Return the method, path and body of a request that is not a model call, or None for a model call."""
        fields = self._decode_request()
        is_http = all(isinstance(fields.get(name), str) for name in ("method", "path"))
        return fields if is_http and "messages" not in fields else None

    def http_place(self) -> str:
        """Return the method and path, like `GET /v1/models`; empty for a model call."""
        fields = self.http_fields()
        return "" if fields is None else printable(f"{fields['method']} {fields['path']}").replace("\n", " ")

    def _decode_request(self) -> JsonObject:
        try:
            fields = msgspec.json.decode(self.request) if bytes(self.request) else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RecordingFormatError(
                f"a recorded request cannot be read: {error}", place="request", hint="record the call again"
            ) from None
        return fields if isinstance(fields, dict) else {}


def is_conditional(fingerprint: str | None) -> bool:
    """Return whether this is the fingerprint of an exchange with a `when`."""
    return fingerprint is not None and fingerprint.startswith(CONDITIONAL)


def _tool_call_from_record(call: RecordedToolCall) -> ToolCall:
    if isinstance(call.arguments, dict):
        try:
            args = orjson.loads(json_text(call.arguments))  # the caller may change them
        except orjson.JSONDecodeError:  # an integer is larger than any float
            args = deepcopy(call.arguments)
        return ToolCall(call.name, args, call.id, call.reasoning)
    return replace(ToolCall.parse(call.name, call.arguments, id=call.id), reasoning=call.reasoning)


def recorded_calls(calls: tuple[ToolCall, ...]) -> list[RecordedToolCall] | None:
    """Return tool calls in the format of the file."""
    return [
        RecordedToolCall(
            id=call.id,
            name=call.tool,
            arguments=call.args if call.raw_arguments is None else call.raw_arguments,
            reasoning=call.reasoning,
        )
        for call in calls
    ] or None


def piece_from_delta(delta: StreamDelta) -> str | StreamPiece:
    """Return a stream delta in the format of the file."""
    match delta:
        case TextDelta(text):
            return text
        case ReasoningDelta(text):
            return StreamPiece(reasoning=text)
        case ToolCallDelta(index, arguments, call_id, tool):
            return StreamPiece(tool_call=ToolCallPiece(index, call_id, tool, arguments))


def delta_from_piece(piece: str | StreamPiece) -> StreamDelta:
    """Return the stream delta of a piece."""
    if isinstance(piece, str):
        return TextDelta(piece)
    if piece.tool_call is not None:
        call = piece.tool_call
        return ToolCallDelta(call.index, call.arguments, call.id, call.name)
    return ReasoningDelta(piece.reasoning or "")


def chunks_by_text(chunks: list[TimedPiece]) -> list[list[int]]:
    """Return the positions of the chunks of each text: the content, the reasoning, the arguments of each call."""
    kinds: dict[tuple[str, int], list[int]] = {}
    for place, (_, piece) in enumerate(chunks):
        kinds.setdefault(_kind_of(piece), []).append(place)
    return list(kinds.values())


def piece_text(piece: str | StreamPiece) -> str:
    """Return the text of a piece: content, reasoning, or arguments of a call."""
    if isinstance(piece, str):
        return piece
    return piece.tool_call.arguments if piece.tool_call is not None else piece.reasoning or ""


def _kind_of(piece: str | StreamPiece) -> tuple[str, int]:
    if isinstance(piece, str):
        return "text", 0
    return ("call", piece.tool_call.index) if piece.tool_call is not None else ("reasoning", 0)


class RecordedToolError(OffbookError):
    """The recorded error of a tool, if replay does not know its class.

    `type` is the name of that class and, if it is an identifier, of this error's own class, so that the error reads as
    recorded.
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

    A hand-written one with `when` answers in explorations, when the effect of that tool was not seen.

    `result` is a JSON value, or the text of another value, whose type is `result_type`. `arguments_hash` identifies the
    original arguments if a secret was removed from them. `wire` has the messages of an MCP server, the answer last.
    """

    when: AfterTool | None = None
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
        """The hash of the arguments that this answers, or None for any.

        A conditional exchange's hash equals that of no arguments.
        """
        if self.when is not None:
            return CONDITIONAL + self.when
        if self.arguments_hash or isinstance(self.arguments, UnsetType):
            return self.arguments_hash or None
        return hash_arguments(self.arguments)

    @property
    def is_opaque(self) -> bool:
        """Whether the result cannot be rebuilt: a program's tool then runs in a replay."""
        return self.result_type is not None and ":" not in self.result_type

    @property
    def answer(self) -> Any:
        """A copy of the result that the caller may change, or None."""
        return None if self.result is UNSET else msgspec.json.decode(msgspec.json.encode(self.result))


ToolEntry: TypeAlias = ToolExchange | list[ToolExchange]


def hash_arguments(arguments: JsonObject) -> str:
    """Return the SHA-256 of JSON arguments in hex, independent of the order of their names."""
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
"""The errors that are raised again with their own class. No other name in a file is looked up."""


def recorded_error(error: Exception) -> RecordedError:
    """Return an error in the format of the file."""
    return RecordedError(type(error).__name__, plain_str(error).encode(errors="replace").decode())


def error_from_record(recorded: RecordedError, *, tool: ToolDef) -> Exception:
    """Return the recorded error: of its own class if that is known, else a RecordedToolError.

    It has the recorded message and class name.
    """
    if recorded.type == "ToolTimeoutError":
        timeout = ToolTimeoutError(tool=tool.name, timeout_s=tool.timeout_s or 0.0)
        timeout.args = (recorded.message,)
        return timeout
    kind = _KNOWN_ERRORS.get(recorded.type)
    return RecordedToolError.of(recorded.type, recorded.message) if kind is None else kind(recorded.message)


class JsonForm(NamedTuple):
    """A JSON value. `type_name` is set if it is only the text of a value of that type."""

    value: Any
    type_name: str | None = None


def json_form(value: object) -> JsonForm:
    """Return the recorded form of a value: a JSON value with the same text for a model. Never raises.

    Dataclasses, Structs, pydantic models and similar values become objects and lists. A value without a JSON form (a
    date, bytes, any other object) becomes the text that a model sees.
    """
    text = result_text(value)
    if not isinstance(value, str) and (isinstance(value, int | float | None) or text.startswith(("{", "["))):
        try:
            parsed = orjson.loads(text)
            if orjson.dumps(parsed) == text.encode():
                return JsonForm(parsed)
        except (TypeError, ValueError):
            pass  # not JSON, or nested too deep: the text below is what is recorded, with the type that it stands for
    readable = text.encode(errors="replace").decode()
    return JsonForm(readable, None if isinstance(value, str) and readable == text else type(value).__name__)


def json_arguments(arguments: Mapping[str, object]) -> JsonObject:
    """Return the recorded form of arguments."""
    return {name: json_form(value).value for name, value in arguments.items()}
