"""Records an MCP server's answers: tool calls under `_tools`, everything else under `_mcp`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.events import NULL_SINK, Sink
from offbook.mcp.answer import TimedMessage
from offbook.mcp.message import McpMessage, arguments_hash, further_params, parse_message, recorded_arguments
from offbook.mcp.replay import DISCOVERIES, PROTOCOL, UNRECORDED_METHODS, call_outcome, own_arguments
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import RecordedError, ToolExchange
from offbook.recording.format.keys import mcp_key
from offbook.recording.format.wire_record import WireRecord, wire_text
from offbook.recording.redact.redactor import Redactor
from offbook.session.recorder import RecordedAs, Recorder, RecordMode


class McpRecorder(Recorder):
    """Records the exchanges of MCP servers. Each is written before the client gets its response.

    `replay` has the exchanges that answer before the real server (modes `once` and `new`), or is None.
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
        super().__init__(location, mode=mode, kind="tools", redactor=redactor, sink=sink, clock=clock)
        self.replay = self.answers() if self.has_answers else None

    def record_exchange(
        self,
        server: str,
        request: McpMessage,
        messages: Sequence[TimedMessage],
        *,
        credentials: Iterable[str] = (),
        turn: CallTurn = OWN_TURN,
    ) -> RecordedAs | None:
        """Record an exchange: the request and its messages, ending with the response.

        `credentials` of the server are secret in any form. The `turn` to make the call ends with the exchange.

        Returns the exchange, or None if its method is not recorded.
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
        return self.record_tool(key, exchange, credentials=credentials, turn=turn)

    def record_own_message(
        self, server: str, message: McpMessage, answer: McpMessage | None = None, *, turn: CallTurn = OWN_TURN
    ) -> RecordedAs:
        """Record a notification that the server sent on its own, or a request with the client's answer."""
        outcome = ToolExchange() if answer is None else _outcome(answer, [(0.0, answer.raw)])
        exchange = replace(outcome, arguments=own_arguments(message))
        return self.record_tool(mcp_key(server, message.method), exchange, turn=turn)

    def close(self) -> None:
        super().close()
        if self.replay is not None:
            self.replay.close()


def _outcome(response: McpMessage, messages: Sequence[TimedMessage]) -> ToolExchange:
    """Return the result or error of a request that is not a tool call, with the bytes if these are incomplete."""
    wire = wire_record(messages)
    if "result" in response.fields:
        return ToolExchange(result=response.fields["result"], wire=wire if len(messages) > 1 else None)
    error = response.fields.get("error")
    message = error.get("message", "") if isinstance(error, dict) else error
    return ToolExchange(error=RecordedError("McpError", str(message)), wire=wire)


def wire_record(messages: Sequence[TimedMessage]) -> WireRecord:
    """Return the messages in the file format: a body for a single response, else frames."""
    if len(messages) == 1:
        return WireRecord(protocol=PROTOCOL, body=wire_text(messages[0][1]))
    return WireRecord(protocol=PROTOCOL, frames=[(at_ms, wire_text(raw + b"\n")) for at_ms, raw in messages])
