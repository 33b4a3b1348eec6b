"""JSON-RPC messages: parsing, the era of a request, errors, and the equality of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from offbook.decoding import decode
from offbook.messages import JsonObject
from offbook.recording.format.exchange import hash_arguments

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions that start with `initialize`, oldest first."""

MODERN_VERSIONS = ("2026-07-28",)
"""The revisions without a handshake: every request carries its version in `_meta`."""

VERSION_META = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_META = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL_META = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_META = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
MISSED = -32010
"""A request that the recording has no answer for. Clients retry no code of this range but −32000 and −32001."""

KNOWN_METHODS = frozenset(
    (
        *("initialize", "server/discover", "ping", "logging/setLevel", "completion/complete", "subscriptions/listen"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe"),
        *("tasks/get", "tasks/list", "tasks/result", "tasks/update", "tasks/cancel"),
    )
)
"""The methods of clients, in all revisions."""

Era = Literal["handshake", "modern"]
MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class MessageError(ValueError):
    """Bytes that are not a single JSON-RPC message."""


class McpMessage(Struct, frozen=True):
    """One JSON-RPC message: its bytes as they arrived, without a line end, and the JSON object that they spell."""

    raw: bytes
    fields: JsonObject

    @property
    def id(self) -> Any:
        return self.fields.get("id")

    @property
    def method(self) -> str:
        """The method of a request or notification; empty for a response."""
        method = self.fields.get("method")
        return method if isinstance(method, str) else ""

    @property
    def is_request(self) -> bool:
        return bool(self.method) and "id" in self.fields

    @property
    def is_notification(self) -> bool:
        return bool(self.method) and "id" not in self.fields

    @property
    def is_response(self) -> bool:
        return not self.method and "id" in self.fields

    @property
    def params(self) -> JsonObject:
        """The parameters, or an empty dict."""
        params = self.fields.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the parameters, or an empty dict."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def era(self) -> Era:
        """The era of a request: modern if it carries its protocol version."""
        return "modern" if VERSION_META in self.meta else "handshake"

    @property
    def progress_token(self) -> Any:
        """The progress token that a request asks for, or that a notification reports; else None."""
        if self.method == "notifications/progress":
            return self.params.get("progressToken")
        return self.meta.get("progressToken")

    @property
    def tool(self) -> str:
        """The tool of a `tools/call`; "" for other messages."""
        name = self.params.get("name") if self.method == "tools/call" else None
        return name if isinstance(name, str) else ""


_UNCOUNTED_PREFIXES = ("notifications/", "logging/", "subscriptions/")
_UNCOUNTED = frozenset(("initialize", "server/discover", "ping", "resources/subscribe", "resources/unsubscribe"))


def is_counted(request: McpMessage) -> bool:
    """Return whether a request counts as a call. Discovery and lists do not: clients repeat them freely."""
    method = request.method
    return method not in _UNCOUNTED and not method.endswith("/list") and not method.startswith(_UNCOUNTED_PREFIXES)


def parse_message(raw: bytes) -> McpMessage:
    """Parse one message.

    Raises:
        MessageError: it is not JSON, or not a single JSON-RPC message.
    """
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or not ("method" in fields or "result" in fields or "error" in fields):
        raise MessageError("not a JSON-RPC message: it has neither a method, a result nor an error")
    return McpMessage(raw.strip(), fields)


def is_batch(raw: bytes) -> bool:
    """Return whether bytes are meant as a batch of messages, which revision 2025-03-26 has."""
    return raw.lstrip()[:1] == b"["


def parse_batch(raw: bytes) -> list[McpMessage]:
    """Parse a batch. Each message keeps its own bytes.

    Raises:
        MessageError: it is not JSON, is empty, or contains something that is not a JSON-RPC message.
    """
    try:
        messages = decode(raw, list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}") from None
    if not messages:
        raise MessageError("not a JSON-RPC message: the batch is empty")
    return [parse_message(bytes(each)) for each in messages]


def encode_batch(messages: Iterable[bytes]) -> bytes:
    """Encode messages as one batch, each with its own bytes."""
    return b"[" + b",".join(messages) + b"]"


def id_key(id: Any) -> bytes:
    """Return an id as the key of a dict: 1, 1.0 and "1" are different ids."""
    return msgspec.json.encode(id)


def encode(fields: JsonObject) -> bytes:
    """Encode a message on one line, without a line end."""
    return msgspec.json.encode({"jsonrpc": "2.0"} | fields)


def with_id(raw: bytes, id: Any) -> bytes:
    """Return a message with another id and otherwise equal bytes."""
    fields = decode(raw, dict[str, msgspec.Raw])
    return msgspec.json.encode(fields | {"id": id})


def result_message(id: Any, result: Any) -> bytes:
    return encode({"id": id, "result": result})


def error_message(id: Any, code: int, message: str, data: Any = None) -> bytes:
    error: JsonObject = {"code": code, "message": message}
    return encode({"id": id, "error": error if data is None else error | {"data": data}})


def text_result(text: str, *, is_error: bool = False) -> JsonObject:
    """Return the result of a `tools/call` with a single text."""
    result: JsonObject = {"content": [{"type": "text", "text": text}]}
    return result | {"isError": True} if is_error else result


VOLATILE_PARAMS = ("_meta", "requestState", "task")
"""Parameters that are not compared: ids, progress tokens and versions are in `_meta`, and state belongs to a run."""

_CALL_PARAMS = frozenset(("name", "arguments", *VOLATILE_PARAMS))
_SMALLEST_JSON = 2


def recorded_arguments(message: McpMessage) -> JsonObject:
    """Return the recorded part of a request: a tool call's arguments, or another request's parameters."""
    if message.tool:
        arguments = message.params.get("arguments")
        return arguments if isinstance(arguments, dict) else {}
    return {name: value for name, value in message.params.items() if name not in VOLATILE_PARAMS}


def further_params(message: McpMessage) -> JsonObject:
    """Return a tool call's relevant parameters besides its arguments, such as a user's `inputResponses`."""
    if not message.tool:
        return {}
    return {name: value for name, value in message.params.items() if name not in _CALL_PARAMS}


def arguments_hash(message: McpMessage) -> str:
    """Return the hash that finds a request's recorded answer."""
    further = further_params(message)
    arguments = recorded_arguments(message)
    return hash_arguments({"arguments": arguments} | further if further else arguments)


class CursorNames:
    """The names of the cursors of a method or a tool in a run: `cursor 1` is the first that appeared."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def see_in(self, result: object) -> None:
        """Note the cursor of the next page in a server's result, if any."""
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if isinstance(cursor, str):
            self._names.setdefault(cursor, f"cursor {len(self._names) + 1}")

    def name_in(self, arguments: JsonObject) -> JsonObject:
        """Return arguments with the name of their cursor. An unknown cursor is its own name."""
        cursor = arguments.get("cursor")
        return arguments | {"cursor": self._names.get(cursor, cursor)} if isinstance(cursor, str) else arguments


def json_in_texts(value: Any) -> Any:
    """Return a value with each text that is a JSON object or list parsed."""
    if isinstance(value, dict):
        return {name: json_in_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_in_texts(item) for item in value]
    if isinstance(value, str) and len(value) >= _SMALLEST_JSON and value.lstrip()[:1] in ("{", "["):
        try:
            return json_in_texts(msgspec.json.decode(value))
        except (msgspec.DecodeError, RecursionError):
            return value
    return value
