"""Records what an MCP server answers: tool calls under `_tools`, everything else under `_mcp`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.events import NULL_SINK, Sink
from offbook.mcp.answer import RecordedExchange, TimedMessage
from offbook.mcp.message import Message, arguments_hash, further_params, parse_message, recorded_arguments
from offbook.mcp.replay import DISCOVERIES, PROTOCOL, call_outcome
from offbook.messages import JsonObject
from offbook.recording.call_cache import OWN_TURN, CallCache, CallTurn
from offbook.recording.format.exchange import RecordedError, ToolExchange
from offbook.recording.format.keys import mcp_key
from offbook.recording.format.wire_record import WireRecord, wire_text
from offbook.recording.record_mode import RecordMode, open_recording, timestamp
from offbook.recording.redact.redactor import Redactor
from offbook.recording.redact.rules import redactor_in_force
from offbook.recording.stores.store import RecordingReader

UNRECORDED_METHODS: frozenset[str] = frozenset(("ping", "logging/setLevel", "subscriptions/listen"))


class McpRecorder:
    """Records the exchanges of MCP servers at `location`, in a record mode. Each is written when its response is there,
    before the client gets it.

    `replay` has the exchanges that answer before anything is asked for real (modes `once` and `new`); None if there
    are none. Without `is_live`, nothing is asked for real. The `cache` decides who makes a call, if other processes
    share the recording (mode `new`); the sink gets an event for each of its lookups.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        mode: RecordMode = "append",
        redactor: Redactor | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._recording = open_recording(location, mode=mode, kind="tools", sink=sink)
        self._redactor, self._clock = redactor or redactor_in_force(), clock
        self.is_live = self._recording.is_live
        self.replay: RecordingReader | None = None
        if self._recording.has_answers:
            self.replay = self._recording.answers()

    @property
    def cache(self) -> CallCache | None:
        return self._recording.cache

    def record(
        self,
        server: str,
        request: Message,
        messages: Sequence[TimedMessage],
        *,
        credentials: Iterable[str] = (),
        turn: CallTurn = OWN_TURN,
    ) -> RecordedExchange | None:
        """Record an exchange: the request, and the messages that came for it, of which the last is the response.

        `credentials` are those that the server was given: they are secret, whatever their shape. The `turn` to make the
        call ends with the exchange.

        Returns the exchange; None if those of its method are not recorded.
        """
        at_ms, raw = messages[-1]
        response = parse_message(raw)
        if request.method in UNRECORDED_METHODS:
            return None
        is_known = self.replay is not None and self.cache is None
        if request.method in DISCOVERIES and ("error" in response.fields or is_known):
            return None  # a server of the other era, or known already
        if request.tool:
            key = f"{server}.{request.tool}"
            outcome = replace(call_outcome(response.fields), wire=wire_record(messages))
        else:
            key = mcp_key(server, request.method)
            outcome = _outcome(response, messages)
        arguments = recorded_arguments(request)
        hashed = arguments_hash(request) if further_params(request) else None
        exchange = replace(outcome, arguments=arguments, arguments_hash=hashed, latency_ms=at_ms)
        return self._append(key, exchange, self._redactor.knowing(credentials), turn)

    def record_own_message(
        self, server: str, message: Message, answer: Message | None = None, *, turn: CallTurn = OWN_TURN
    ) -> RecordedExchange:
        """Record a notification that the server sent on its own, or a request with the client's answer."""
        outcome = ToolExchange() if answer is None else _outcome(answer, [(0.0, answer.raw)])
        exchange = replace(outcome, arguments=own_arguments(message))
        return self._append(mcp_key(server, message.method), exchange, self._redactor, turn)

    def _append(self, key: str, exchange: ToolExchange, redactor: Redactor, turn: CallTurn) -> RecordedExchange:
        stamped = replace(exchange, recorded_at=timestamp(self._clock))
        key = redactor.text(key)
        return RecordedExchange(key, self._recording.append_tool(key, redactor.redact_tool(stamped), turn=turn))

    def keep(self) -> None:
        """Let a recording that is to be replaced stay as it was, because the run has failed."""
        self._recording.keep()

    def close(self) -> None:
        """Close the recording. Safe to call twice."""
        self._recording.close()
        if self.replay is not None:
            self.replay.close()


def own_arguments(message: Message) -> JsonObject:
    """Return what a recording keeps of a message that a server sent on its own."""
    return {name: value for name, value in message.params.items() if name != "_meta"}


def _outcome(response: Message, messages: Sequence[TimedMessage]) -> ToolExchange:
    """Return the result or error of a request that is not a tool call. Bytes are kept where these do not say all."""
    wire = wire_record(messages)
    if "result" in response.fields:
        return ToolExchange(result=response.fields["result"], wire=wire if len(messages) > 1 else None)
    error = response.fields.get("error")
    message = error.get("message", "") if isinstance(error, dict) else error
    return ToolExchange(error=RecordedError("McpError", str(message)), wire=wire)


def wire_record(messages: Sequence[TimedMessage]) -> WireRecord:
    """Return the messages in the format of the file: a body if there is only the response, else frames."""
    if len(messages) == 1:
        return WireRecord(protocol=PROTOCOL, body=wire_text(messages[0][1]))
    return WireRecord(protocol=PROTOCOL, frames=[(at_ms, wire_text(raw + b"\n")) for at_ms, raw in messages])
