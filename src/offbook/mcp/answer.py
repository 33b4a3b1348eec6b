"""The client's answer to a request as a value: timed messages and an ending, fitted to its era; and `McpSource`, the
seam for sources of answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct, field

from offbook.errors import RecordingMismatchError
from offbook.mcp.message import (
    HANDSHAKE_VERSIONS,
    LOG_LEVEL_META,
    MODERN_VERSIONS,
    SERVER_INFO_META,
    McpMessage,
    encode,
    error_message,
    id_key,
    parse_message,
    result_message,
)
from offbook.messages import JsonObject
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.stores.store import StoredExchange
from offbook.session.recorder import RecordedAs

AnswerEnding = Literal["complete", "cut", "silence", "exit"]
TimedMessage: TypeAlias = tuple[float, bytes]
"""A message without its line end, and its due time, in ms since the request."""

CACHEABLE_METHODS = frozenset(
    (
        *("server/discover", "tools/list", "prompts/list", "resources/list"),
        *("resources/templates/list", "resources/read"),
    )
)
_MODERN_FIELDS = ("resultType", "ttlMs", "cacheScope")


class ClientQuestions(Protocol):
    """Judges the client's answers to a server's requests among the messages of an answer."""

    def check(self, asked: McpMessage, answer: McpMessage | None) -> McpAnswer | None:
        """Check the answer to one request, None if there was none in time. Return the replacement for the rest of the
        client's answer, or None to continue.
        """
        ...

    def abandon(self) -> None:
        """Note that the client is gone before it has answered all."""
        ...


class McpAnswer(Struct, frozen=True, kw_only=True):
    """The answer to one request.

    Messages are due in order; the last one is the response, unless the answer ends differently from `complete`: by a
    `cut` of the stream, in `silence`, or by the `exit` of the server with `exit_code`. `status` and `headers` apply
    over HTTP. `forgets_session` ends the client's MCP session. `noise` is written before the messages: over stdio as a
    line that is not JSON. With `work`, the answer is not ready: awaiting its result makes it.

    A server request among the messages waits for the client's answer, which `questions` judges. `on_sent` is called
    when everything was sent.
    """

    messages: tuple[TimedMessage, ...] = ()
    ending: AnswerEnding = "complete"
    end_ms: float = 0.0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    exit_code: int = 1
    forgets_session: bool = False
    noise: bytes = b""
    work: Callable[[], Awaitable[McpAnswer]] | None = None
    questions: ClientQuestions | None = None
    on_sent: Callable[[], None] | None = None

    @property
    def asks_client(self) -> bool:
        """Whether a request of the server that the call waits for is among the messages."""
        is_possible = len(self.messages) > 1 or self.ending == "cut"
        return is_possible and any(parse_message(raw).is_request for _, raw in self.messages)

    @property
    def response(self) -> JsonObject:
        """The response among the messages, or an empty dict."""
        for _, raw in reversed(self.messages):
            message = parse_message(raw)
            if message.is_response:
                return message.fields
        return {}


def whole_answer(raw: bytes, *, status: int = 200) -> McpAnswer:
    """Return an answer of one message."""
    return McpAnswer(messages=((0.0, raw),), status=status)


def result_answer(request: McpMessage, result: Any) -> McpAnswer:
    return whole_answer(result_message(request.id, fit_result(result, request)))


def error_answer(request: McpMessage, code: int, message: str, data: Any = None, *, status: int = 200) -> McpAnswer:
    return whole_answer(error_message(request.id, code, message, data), status=status)


def fit_messages(messages: Iterable[TimedMessage], request: McpMessage) -> tuple[TimedMessage, ...]:
    """Fit recorded messages of a server to a client: its id, its progress token, and the shapes of its era.

    Modern clients take no server requests, and log messages only if they ask for them. Unrequested progress, and the
    client's recorded answers, are left out for all.
    """
    fitted = ((at_ms, _fit(parse_message(raw), request)) for at_ms, raw in server_messages(messages))
    return tuple((at_ms, raw) for at_ms, raw in fitted if raw is not None)


def server_messages(messages: Iterable[TimedMessage]) -> list[TimedMessage]:
    """Return a server's messages for a call. Only the last response is its own."""
    *earlier, last = messages
    return [*(each for each in earlier if not parse_message(each[1]).is_response), last]


def client_answers(messages: Iterable[TimedMessage]) -> dict[bytes, McpMessage]:
    """Return the client's answers to the server's requests during a call, by id."""
    *earlier, _ = messages
    answers = [parse_message(raw) for _, raw in earlier]
    return {id_key(each.id): each for each in answers if each.is_response}


def _fit(message: McpMessage, request: McpMessage) -> bytes | None:
    if message.method == "notifications/progress":
        return _with_progress_token(message, request.progress_token)
    if message.is_request and request.era == "modern":
        return None
    if message.method == "notifications/message" and request.era == "modern" and LOG_LEVEL_META not in request.meta:
        return None
    if not message.is_response:
        return message.raw
    if "result" in message.fields:
        return result_message(request.id, fit_result(message.fields["result"], request))
    return encode(message.fields | {"id": request.id})


def _with_progress_token(message: McpMessage, token: Any) -> bytes | None:
    if token is None:
        return None
    return encode(message.fields | {"params": message.params | {"progressToken": token}})


def fit_result(result: Any, request: McpMessage) -> Any:
    """Return a result in the request's era: modern results name their type and how long they may be cached, others do
    not.
    """
    if not isinstance(result, dict):
        return result
    if request.era == "modern":
        cached = {"ttlMs": 0, "cacheScope": "private"} if request.method in CACHEABLE_METHODS else {}
        return {"resultType": "complete"} | cached | result
    if result.get("resultType", "complete") != "complete":
        return result
    return {name: value for name, value in result.items() if name not in _MODERN_FIELDS}


def discover_result(known: JsonObject) -> JsonObject:
    """Return the result of `server/discover` from that, or from the result of an `initialize`."""
    info = server_info(known)
    return {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": known.get("capabilities", {}),
        **({"instructions": known["instructions"]} if known.get("instructions") else {}),
        "_meta": {SERVER_INFO_META: info},
    }


def initialize_result(known: JsonObject, request: McpMessage) -> JsonObject:
    """Return the result of `initialize` from that, or from the result of a `server/discover`."""
    wanted = request.params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": known.get("capabilities", {}),
        "serverInfo": server_info(known),
        **({"instructions": known["instructions"]} if known.get("instructions") else {}),
    }


def server_info(known: JsonObject) -> JsonObject:
    """Return the name and version of a server, from the result of its `initialize` or `server/discover`."""
    meta = known.get("_meta")
    info = known.get("serverInfo") or (meta.get(SERVER_INFO_META) if isinstance(meta, dict) else None)
    return info if isinstance(info, dict) else {"name": "offbook", "version": ""}


def model_text(result: JsonObject) -> Any:
    """Return a model's view of a tool result: its text, or JSON if the text is compact JSON. A result without text
    gives its content.
    """
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) != len(blocks) or not all(isinstance(text, str) for text in texts):
        return blocks
    text = "\n".join(str(text) for text in texts)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if msgspec.json.encode(value).decode() == text else text


class FoundAnswer(Struct, frozen=True):
    """An answer and its `match`, or None for a synthetic one.

    `client_answers` are the client's recorded answers to server requests, by id.
    """

    answer: McpAnswer
    match: ExchangeMatch[ToolExchange] | None = None
    client_answers: dict[bytes, McpMessage] = field(default_factory=dict)

    @property
    def stored(self) -> StoredExchange[ToolExchange] | None:
        """The exchange that this answer serves, or None for a synthetic answer."""
        return None if self.match is None or self.match.matched_by == "default" else self.match.stored

    @property
    def outcome(self) -> Literal["served", "synthetic", "default", "continued"]:
        """The outcome of a call that gets this answer."""
        if self.match is None or self.stored is not None:
            return "synthetic" if self.match is None else "served"
        return "default" if self.match.stored is None else "continued"

    @property
    def key(self) -> str | None:
        return None if self.stored is None else self.stored.key


class DueMessages(Struct, frozen=True):
    """A server's own messages around an exchange: the entries before its answer, and after it."""

    before: tuple[StoredExchange[ToolExchange], ...] = ()
    after: tuple[StoredExchange[ToolExchange], ...] = ()


NOTHING_DUE = DueMessages()


class McpSource(ABC):
    """Answers the requests to one server, instead of the real one.

    If other processes share the recording, one of them makes a call for all, and the source decides the turn. By
    default, every call is ours.
    """

    @abstractmethod
    def find(self, request: McpMessage) -> FoundAnswer:
        """Return the answer to a request. It counts as served after `use`.

        Raises:
            RecordingMismatchError: no recorded answer matches.
            RecordingUnavailableError: the recording cannot be reached.
        """

    def use(self, found: FoundAnswer) -> DueMessages:
        """Count an answer as served, and return the server's own messages around it."""
        return NOTHING_DUE

    def first_messages(self) -> Sequence[StoredExchange[ToolExchange]]:
        """Return the server's own messages before its first answer, each once."""
        return ()

    def tool_headers(self, tool: str) -> Mapping[str, str]:
        """Return the arguments of a tool that clients repeat in headers, `Mcp-Param-NAME`, by the names of these."""
        return {}

    def shares(self, request: McpMessage) -> bool:
        """Return whether one process makes such a request for all, so it must wait for its `turn`."""
        return False

    async def turn(self, request: McpMessage) -> CallTurn:
        """Wait until a call is ours to make, or `find` has its answer. `note_recorded` or `give_up` ends a turn.

        Raises:
            RecordingUnavailableError: the recording cannot be reached.
        """
        return OWN_TURN

    def claim(self, request: McpMessage) -> CallTurn | None:
        """Return the turn to record a call that was made without one, or None if another process records it.

        Raises:
            RecordingUnavailableError: the recording cannot be reached.
        """
        return OWN_TURN

    def claim_own(self, message: McpMessage) -> CallTurn | None:
        """Return the turn to record a message that the server has sent on its own, like `claim`."""
        return OWN_TURN

    def note_recorded(self, turn: CallTurn, recorded: RecordedAs | None) -> None:
        """End a turn with the recorded exchange, if any."""

    def give_up(self, turn: CallTurn) -> None:
        """End a turn without an answer. Safe to call twice."""


class NothingRecorded(McpSource):
    """Answers nothing, because nothing is recorded yet."""

    def find(self, request: McpMessage) -> FoundAnswer:
        raise RecordingMismatchError("nothing is recorded yet", kind="missing")
