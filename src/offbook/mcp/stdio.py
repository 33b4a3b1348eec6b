"""MCP over stdio: serves a client line by line, also in this process, and runs a real server as a child behind it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from math import inf
from typing import Any, Protocol

from msgspec import Struct

from offbook.decoding import decode
from offbook.errors import InputError
from offbook.mcp.answer import McpAnswer
from offbook.mcp.dialogue import AnswerSender, AnswerSink, subscriber
from offbook.mcp.message import (
    INTERNAL_ERROR,
    MAX_MESSAGE_BYTES,
    PARSE_ERROR,
    SUBSCRIPTION_META,
    McpMessage,
    MessageError,
    encode_batch,
    error_message,
    id_key,
    is_batch,
    parse_batch,
    parse_message,
)
from offbook.mcp.session import McpCall, McpSession, PendingCall

logger = logging.getLogger("offbook.wire")

MAX_LINE_BYTES = MAX_MESSAGE_BYTES
"""The size of the longest kept line. The recipient of a longer one gets an error."""
_HEAD_BYTES, _END_BYTES = 4096, 256
_LAST_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\\\]|\\\\.){0,200}"|-?[0-9]{1,20})\s*[,}]')

READ_BYTES = 256 * 1024
_SECRET_VARIABLE = re.compile(
    r"token|secret|password|passwd|credential|api_?key|access_?key|private_?key", re.IGNORECASE
)
END_GRACE_S = 1.5
"""The seconds for a server to end after the end of its input, and again after SIGTERM."""


class TooLongLine(bytes):
    """The beginning and the end of a line above the size limit."""

    @property
    def error(self) -> bytes:
        """The error for the message's recipient, if its beginning or its end contains the id."""
        found = _LAST_ID.search(self) if self.startswith(b"{") else None
        reason = f"a message of more than {MAX_LINE_BYTES:,} bytes was dropped: it is too long for a line of MCP"
        logger.error("%s", reason)
        return error_message(None if found is None else decode(found[1], int | str), INTERNAL_ERROR, reason)


class LineBuffer:
    """Splits data into lines without their ends. Blank lines are dropped.

    Only the beginning and the end of a line above the size limit are kept.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        *complete, rest = data.split(b"\n")
        lines = []
        for line in complete:
            self._add(line)
            whole = self.close()
            if whole.strip():
                lines.append(whole if isinstance(whole, TooLongLine) else whole.rstrip(b"\r"))
        self._add(rest)
        return lines

    def close(self) -> bytes:
        """Return the rest without a line end."""
        whole, is_too_long = b"".join(self._pieces), self._size > MAX_LINE_BYTES
        self._pieces, self._size = [], 0
        return TooLongLine(whole) if is_too_long else whole

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_LINE_BYTES:
            kept = b"".join(self._pieces)
            self._pieces = [kept[:_HEAD_BYTES], kept[_HEAD_BYTES:][-_END_BYTES:]]


class ClientLines(Protocol):
    """Receives the stdout of a server, and its end."""

    def write(self, data: bytes) -> None:
        """Write bytes, in order."""
        ...

    def end(self, exit_code: int) -> None:
        """End the server: its output is closed, and it exits with this code."""
        ...


class LineServer:
    """Serves one client over stdio: `receive` handles its data, and answers go to `client`.

    With an `upstream`, requests that the session cannot answer go there, and all its replies go to the client, in
    order. Lines that are not messages pass untouched in both directions.
    """

    def __init__(self, session: McpSession, client: ClientLines, *, upstream: LineUpstream | None = None) -> None:
        self._session, self._client, self._upstream = session, client, upstream
        self._credentials = () if upstream is None else upstream.credentials
        self._lines = LineBuffer()
        self._pending: dict[bytes, PendingCall] = {}
        self._sender = AnswerSender()
        self._listening: dict[bytes, Callable[[], None]] = {}
        self._has_ended = False

    def receive(self, data: bytes) -> None:
        """Handle data of the client."""
        for line in self._lines.feed(data):
            if not self._has_ended:
                self._receive_line(line)

    def _receive_line(self, line: bytes) -> None:
        if isinstance(line, TooLongLine):
            self._write(line.error)
            return
        try:
            messages = parse_batch(line) if is_batch(line) else [parse_message(line)]
        except MessageError as error:
            if self._upstream is None:
                self._write(error_message(None, PARSE_ERROR, f"Parse error: {error}"))
            else:
                self._upstream.write(line + b"\n")
            return
        batch = _BatchSink(self, messages) if is_batch(line) else None
        forwarded = [message for message in messages if self._takes(message, batch or self)]
        if batch is not None:
            batch.leave_out(forwarded)
        if forwarded and self._upstream is not None:
            is_whole = len(forwarded) == len(messages)
            self._upstream.write((line if is_whole else encode_batch(each.raw for each in forwarded)) + b"\n")

    def _takes(self, message: McpMessage, sink: AnswerSink) -> bool:
        """Handle a message of the client, and return whether it is for the real server."""
        return self._receive_request(message, sink) if message.is_request else self._receive_other(message)

    def _receive_request(self, request: McpMessage, sink: AnswerSink) -> bool:
        call = self._session.start(request)
        if sink is self and self._session.needs_turn(call):  # a batch cannot wait for one of its calls
            self._sender.start(request, self._take_turn(call))
            return False
        answer = self._session.answer(call)
        if answer is None:
            self._pending[id_key(request.id)] = PendingCall(call)
            return True
        self._sender.send(request, answer, sink)
        if request.method == "subscriptions/listen" and answer.ending == "silence":
            key = id_key(request.id)
            self._listening[key] = self._session.listen(subscriber(request, self.write))
        return False

    async def _take_turn(self, call: McpCall) -> None:
        """Make a call that other processes may also be making, or answer it when one of them has made it."""
        taken = await self._session.take_turn(call)
        if isinstance(taken, McpAnswer):
            self._sender.send(call.request, taken, self)
        elif self._upstream is not None:
            self._pending[id_key(call.request.id)] = PendingCall(taken)
            self._upstream.write(call.request.raw + b"\n")

    def _receive_other(self, message: McpMessage) -> bool:
        if message.is_response and self._sender.receive(message):
            return False
        if message.is_response:
            self._session.note_client_answer(id_key(message.id), message)
        elif message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            self._sender.cancel(request_id)
            if (pending := self._pending.get(id_key(request_id))) is not None:
                self._session.give_up(pending.call)
            self._listening.pop(id_key(request_id), lambda: None)()
        elif message.method == "notifications/initialized" and b"" not in self._listening:
            self._listening[b""] = self._session.listen(partial(self._sender.notify, write=self.write))
        return True

    async def finish_work(self) -> None:
        """Wait for answers that take time, for as long as a server may take to end."""
        await self._sender.finish_work(limit_s=END_GRACE_S)

    def write(self, raw: bytes) -> None:
        """Write a message to the client."""
        self._write(raw)

    def _write(self, raw: bytes) -> None:
        if not self._has_ended:
            self._client.write(raw + b"\n")

    def receive_from_server(self, line: bytes) -> None:
        """Handle a line of the real server."""
        line = line.error if isinstance(line, TooLongLine) else line
        try:
            messages = parse_batch(line) if is_batch(line) else [parse_message(line)]
        except MessageError:
            self._write(line)  # the client is to see what the server prints
            return
        passed = [message for message in messages if self._passes(message)]
        if len(passed) == len(messages):
            self._write(line)
        elif passed:
            self._write(encode_batch(message.raw for message in passed))

    def _passes(self, message: McpMessage) -> bool:
        """Handle a message of the real server, and return whether it goes to the client unchanged."""
        pending = self._pending_for(message)
        if message.is_request:
            self._session.note_question(id_key(message.id), message, pending)
        if pending is None:
            if message.is_notification:
                self._session.note_own_message(message)
            return True
        pending.messages.append((self._session.elapsed_ms(pending.call), message.raw))
        if not message.is_response:
            return message.is_request or not self._session.is_held(pending.call)
        del self._pending[id_key(message.id)]
        answer = self._session.finish(pending.call, pending.messages, credentials=self._credentials)
        if answer is None:
            return True
        self._sender.send(pending.call.request, answer, self, elapsed_ms=self._session.elapsed_ms(pending.call))
        return False

    def _pending_for(self, message: McpMessage) -> PendingCall | None:
        """Return the call of a message: its response, its progress, or a message during it."""
        if message.is_response:
            return self._pending.get(id_key(message.id))
        if message.method == "notifications/progress":
            token = message.progress_token
            return next((each for each in self._pending.values() if each.call.request.progress_token == token), None)
        if SUBSCRIPTION_META in message.meta:
            return None
        calls = self._pending.values()
        return next((each for each in calls if each.call.request.method != "subscriptions/listen"), None)

    def server_ended(self, exit_code: int) -> None:
        """Note that the real server has ended. Calls that it did not answer are lost, and the client gets an end."""
        for pending in self._pending.values():
            self._session.lose(pending.call, f"the server exited with {exit_code} before it answered", is_noted=True)
        self._pending.clear()
        self.close(exit_code)

    def end(self, answer: McpAnswer) -> None:
        """End the server if an answer ends like that."""
        if answer.ending in ("cut", "exit"):
            self.close(answer.exit_code)

    def close(self, exit_code: int) -> None:
        """End the server for this client. Safe to call twice."""
        if not self._has_ended:
            self._has_ended = True
            self._sender.close()
            for stop_listening in self._listening.values():
                stop_listening()
            self._client.end(exit_code)


class _BatchSink:
    """Receives the answers to a batch: sends responses together, and everything else at once."""

    def __init__(self, server: LineServer, messages: Sequence[McpMessage]) -> None:
        self._server = server
        self._open = {id_key(message.id) for message in messages if message.is_request}
        self._responses: list[bytes] = []

    def write(self, raw: bytes) -> None:
        message = parse_message(raw)
        if not message.is_response:
            self._server.write(raw)
            return
        self._responses.append(raw)
        self.leave_out([message])

    def leave_out(self, messages: Sequence[McpMessage]) -> None:
        """Wait for no response to these."""
        self._open -= {id_key(message.id) for message in messages}
        if not self._open and self._responses:
            self._server.write(encode_batch(self._responses))
            self._responses = []

    def end(self, answer: McpAnswer) -> None:
        self._server.end(answer)


class LineUpstream(Protocol):
    """A real server behind a `LineServer`. `credentials` are secrets that it was given."""

    credentials: tuple[str, ...]

    def write(self, data: bytes) -> None:
        """Write a line to it."""
        ...


class ServerProcess:
    """A real server: a child process with our stderr. `start` runs it.

    `credentials` are the values of its variables with secret names, such as GITHUB_TOKEN.

    Args:
        command: the program and its arguments.
        environment: all of its environment variables.
        folder: its working directory; by default ours.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], folder: str | None = None) -> None:
        self._command, self._environment, self._folder = list(command), dict(environment), folder
        self.credentials = tuple(value for name, value in self._environment.items() if _SECRET_VARIABLE.search(name))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process.

        Raises:
            InputError: it cannot be started.
        """
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=self._folder,
            )
        except (OSError, ValueError) as error:
            reason = f"the server cannot be started: {getattr(error, 'strerror', None) or error}"
            hint = "check its command, or the `command` in the config"
            raise InputError(reason, source=self._command[0], hint=hint) from None

    def write(self, data: bytes) -> None:
        """Write to its stdin. Data for a process that has ended is dropped."""
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(data)

    async def read(self, on_line: Callable[[bytes], None]) -> int:
        """Call `on_line` with each line of its stdout, until it ends; return its exit code, 128 + N for signal N."""
        assert self._process is not None
        assert self._process.stdout is not None
        lines = LineBuffer()
        while data := await self._process.stdout.read(READ_BYTES):
            for line in lines.feed(data):
                on_line(line)
        if rest := lines.close():
            on_line(rest)
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def stop(self) -> int:
        """Close its input, and terminate it if it does not exit.

        Return its exit code: 0 if it ended by the signal that it was sent, for being slow is no failure.
        """
        process = self._process
        if process is None:
            return 0
        if process.stdin is not None:
            process.stdin.close()
        for send in (None, process.terminate, process.kill):
            with suppress(ProcessLookupError):
                if send is not None:
                    send()
            try:
                code = await asyncio.wait_for(process.wait(), END_GRACE_S)
            except TimeoutError:
                continue
            if send is not None and code in (-9, -15):
                return 0
            return 128 - code if code < 0 else code
        return 0


class StdoutLines:
    """Writes to our own stdout, or to another file descriptor, and sets `ended` with the exit code."""

    def __init__(self, output: int | None = None) -> None:
        self._output = sys.stdout.fileno() if output is None else output
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._output, view) :]
        except BrokenPipeError:
            self.end(0)

    def end(self, exit_code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(exit_code)


@asynccontextmanager
async def open_lines(
    session: McpSession, client: ClientLines, upstream: ServerProcess | None = None
) -> AsyncIterator[LineServer]:
    """Serve a client for a block. With an `upstream`, the real server runs meanwhile.

    Raises:
        InputError: the real server cannot be started.
    """
    if upstream is not None:
        await upstream.start()
    server = LineServer(session, client, upstream=upstream)
    running = None if upstream is None else asyncio.ensure_future(_pass_on(upstream, server))
    try:
        yield server
    finally:
        code = 0 if upstream is None else await upstream.stop()
        if running is not None:
            await running
        server.close(code)


async def _pass_on(upstream: ServerProcess, server: LineServer) -> None:
    """Pass a real server's output to its client until it has ended."""
    server.server_ended(await upstream.read(server.receive_from_server))


async def serve_stdio(session: McpSession, *, upstream: ServerProcess | None = None, output: int | None = None) -> int:
    """Serve the client at our stdin and stdout until its input ends, and return the exit code. `output` replaces
    stdout's file descriptor.

    Raises:
        InputError: the real server cannot be started.
    """
    client = StdoutLines(output)
    async with open_lines(session, client, upstream) as server:
        reading = asyncio.ensure_future(_read_stdin(server))
        waited: list[asyncio.Future[Any]] = [reading, client.ended]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        await server.finish_work()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return client.ended.result()


async def _read_stdin(server: LineServer) -> None:
    reader = asyncio.StreamReader(limit=READ_BYTES)
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    else:  # the loop cannot wait for a file
        threading.Thread(target=_read_file, args=(reader, asyncio.get_running_loop()), daemon=True).start()
    while data := await reader.read(READ_BYTES):
        server.receive(data)
    server.receive(b"\n")  # the last line may have no end


def _read_file(reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop is closed
        while data := os.read(sys.stdin.fileno(), READ_BYTES):
            loop.call_soon_threadsafe(reader.feed_data, data)
        loop.call_soon_threadsafe(reader.feed_eof)


@asynccontextmanager
async def client_streams(
    session: McpSession, *, upstream: ServerProcess | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """Serve a client of this event loop as over stdio, and return the streams for `ClientSession`.

    With an `upstream`, the real server is started for the block.

    Raises:
        InputError: the SDK is not installed, or the real server cannot be started.
    """
    codec, streams = _sdk_codec(), import_module("anyio").create_memory_object_stream
    to_client, client_reads = streams(inf)
    client_writes, from_client = streams(inf)

    async def read_client(server: LineServer) -> None:
        async for sent in from_client:
            server.receive(codec.encode(sent).encode() + b"\n")

    try:
        async with open_lines(session, _ClientLines(to_client, codec), upstream) as server:
            reading = asyncio.ensure_future(read_client(server))
            try:
                yield client_reads, client_writes
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
    finally:
        for stream in (to_client, client_reads, client_writes, from_client):
            stream.close()


class _Codec(Struct, frozen=True):
    """Converts the SDK's messages from and to lines. A line that is not a message becomes the
    corresponding exception.
    """

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], str]


def _sdk_codec() -> _Codec:
    """Return the codec for the installed SDK, version 1 or 2."""
    try:
        wrap = import_module("mcp.shared.message").SessionMessage
        types = import_module("mcp.types")
    except ImportError:
        hint = "pip install mcp, or start a client with the config or the url of the server"
        raise InputError("streams need the SDK of MCP, which is not installed", source="streams", hint=hint) from None
    adapter = getattr(types, "jsonrpc_message_adapter", None)
    parse = types.JSONRPCMessage.model_validate_json if adapter is None else adapter.validate_json
    omitted = {"exclude_none": True} if adapter is None else {"exclude_unset": True}

    def decode(line: bytes) -> Any:
        try:
            return wrap(parse(line))
        except ValueError as error:
            return error

    return _Codec(decode, lambda sent: sent.message.model_dump_json(by_alias=True, **omitted))


class _ClientLines:
    """The lines that a client in this process reads."""

    def __init__(self, stream: Any, codec: _Codec) -> None:
        self._stream, self._codec, self._lines = stream, codec, LineBuffer()

    def write(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._stream.send_nowait(self._codec.decode(line))

    def end(self, exit_code: int) -> None:
        self._stream.close()
