"""Streams for clients of the `mcp` SDK in this process: a session without a socket, and a replay without a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from math import inf
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.mcp.session import McpSession
from offbook.mcp.stdio import LineBuffer, LineServer, ServerProcess


@asynccontextmanager
async def client_streams(
    session: McpSession, *, upstream: ServerProcess | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """Serve a client of this event loop as over stdio, and return the streams that `ClientSession` takes.

    With an `upstream`, the real server is started for the block.

    Raises:
        InputError: the SDK is not installed, or the real server cannot be started.
    """
    codec, streams = _sdk_codec(), import_module("anyio").create_memory_object_stream
    to_client, client_reads = streams(inf)
    client_writes, from_client = streams(inf)
    if upstream is not None:
        await upstream.start()
    server = LineServer(session, _StreamLines(to_client, codec), upstream=upstream)
    working = [asyncio.ensure_future(_read_client(from_client, server, codec))]
    if upstream is not None:
        working.append(asyncio.ensure_future(_read_server(upstream, server)))
    try:
        yield client_reads, client_writes
    finally:
        working[0].cancel()
        code = 0 if upstream is None else await upstream.stop()
        await asyncio.gather(*working, return_exceptions=True)
        server.end(code)
        for stream in (to_client, client_reads, client_writes, from_client):
            stream.close()


class _Codec(Struct, frozen=True):
    """Messages of the SDK from and to lines. What is not a message becomes the exception that says so."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], str]


def _sdk_codec() -> _Codec:
    """Return the codec for the SDK that is installed, of version 1 or 2."""
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


class _StreamLines:
    """The lines that a client in this process reads."""

    def __init__(self, stream: Any, codec: _Codec) -> None:
        self._stream, self._codec, self._lines = stream, codec, LineBuffer()

    def write(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._stream.send_nowait(self._codec.decode(line))

    def end(self, exit_code: int) -> None:
        self._stream.close()


async def _read_client(stream: Any, server: LineServer, codec: _Codec) -> None:
    async for sent in stream:
        server.receive(codec.encode(sent).encode() + b"\n")


async def _read_server(upstream: ServerProcess, server: LineServer) -> None:
    server.server_ended(await upstream.read(server.receive_from_server))
