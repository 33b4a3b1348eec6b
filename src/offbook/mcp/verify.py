"""Repeats recorded requests at a live MCP server, over stdio or HTTP, and compares the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from offbook import __version__
from offbook.codecs.framing import SseDecoder
from offbook.comparison import difference_between
from offbook.errors import InputError
from offbook.mcp.http.endpoint import NAMED_PARAMS, SESSION_ID, SSE_TYPE, VERSION_HEADER, encode_header
from offbook.mcp.http.upstream import CONNECT_TIMEOUT_S, LOOPBACK_HOSTS, checked_url
from offbook.mcp.message import (
    CAPABILITIES_META,
    HANDSHAKE_VERSIONS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    VERSION_META,
    Era,
    McpMessage,
    MessageError,
    encode,
    error_message,
    json_in_texts,
    parse_message,
    result_message,
)
from offbook.mcp.replay import call_outcome
from offbook.mcp.stdio import ServerProcess
from offbook.mcp.surface import SECTIONS, Surface, SurfaceChange, compare_surfaces, items_by_name, surfaces_of
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, each_exchange, exchanges_of
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.format.keys import mcp_key, tool_key
from offbook.recording.match.fingerprint import NormaliseRules, apply_rules
from offbook.recording.redact.redactor import Redactor
from offbook.text import shorten

if TYPE_CHECKING:
    import httpx2

ANSWER_LIMIT_S = 30.0
_READ_METHODS = ("prompts/get", "resources/read", "completion/complete")
_VOLATILE_FIELDS = ("resultType", "ttlMs", "cacheScope", "_meta")
_MAX_PAGES = 1000


class AnswerDifference(Struct, frozen=True):
    """A live answer that differs from the recorded one: its place in the recording, and the difference."""

    place: str
    difference: str


class LeftOutCalls(Struct, frozen=True):
    """Recorded calls of a tool that were not made, and why."""

    tool: str
    calls: int
    reason: str


class McpVerification(Struct, kw_only=True):
    """The differences between a live server and its recording."""

    compared: int = 0
    changes: list[SurfaceChange] = field(default_factory=list)
    differences: list[AnswerDifference] = field(default_factory=list)
    left_out: list[LeftOutCalls] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        return not self.changes and not self.differences


class LiveServer(Protocol):
    """A connection to a live server."""

    source: str

    async def send(self, message: McpMessage, era: Era) -> JsonObject:
        """Send a request and return its response, or send a notification.

        Raises:
            InputError: there is no response.
        """
        ...


class LiveClient:
    """Calls a live server in its era."""

    def __init__(self, server: LiveServer, *, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._server, self._limit_s = server, limit_s
        self._era: Era = "modern"
        self._last_id = 0

    async def open(self, era: Era) -> JsonObject:
        """Start in an era, or in the other one if the server lacks it. Return the server's self-description."""
        for self._era in (era, "handshake" if era == "modern" else "modern"):
            response = await self.ask("server/discover" if self._era == "modern" else "initialize", self._hello())
            if isinstance(result := response.get("result"), dict):
                if self._era == "handshake":
                    await self._send({"method": "notifications/initialized"})
                return result
        raise InputError(f"the server refuses to start: {_error_text(response)}", source=self._server.source)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Return the response to a request.

        Raises:
            InputError: there is no response in time.
        """
        self._last_id += 1
        meta = {VERSION_META: MODERN_VERSIONS[-1], CAPABILITIES_META: {}}
        sent = params | {"_meta": meta} if self._era == "modern" else params
        return await self._send({"id": self._last_id, "method": method, "params": sent})

    async def items(self, section: str) -> dict[str, JsonObject]:
        """Return the items of a part of the surface from all pages, or none if the server refuses it."""
        method, key = SECTIONS[section]
        items: dict[str, JsonObject] = {}
        params: JsonObject = {}
        for _ in range(_MAX_PAGES):
            result = (await self.ask(method, params)).get("result")
            page = result if isinstance(result, dict) else {}
            items |= items_by_name(page.get(section), key)
            if not isinstance(page.get("nextCursor"), str):
                break
            params = {"cursor": page["nextCursor"]}
        return items

    def _hello(self) -> JsonObject:
        if self._era == "modern":
            return {}
        info = {"name": "offbook", "version": __version__}
        return {"protocolVersion": HANDSHAKE_VERSIONS[-1], "capabilities": {}, "clientInfo": info}

    async def _send(self, fields: JsonObject) -> JsonObject:
        message = parse_message(encode(fields))
        try:
            return await asyncio.wait_for(self._server.send(message, self._era), self._limit_s)
        except TimeoutError:
            reason = f"no answer to {message.method} within {self._limit_s:g} s"
            raise InputError(reason, source=self._server.source, hint="--time-limit allows more") from None


class LiveProcess:
    """A live server over stdio."""

    def __init__(self, process: ServerProcess, *, source: str) -> None:
        self.source, self._process = source, process
        self._waiting: dict[Any, asyncio.Future[JsonObject]] = {}
        self._exit_code: int | None = None

    async def send(self, message: McpMessage, era: Era) -> JsonObject:
        if self._exit_code is not None:
            raise self._ended()
        self._process.write(message.raw + b"\n")
        if not message.is_request:
            return {}
        self._waiting[message.id] = asyncio.get_running_loop().create_future()
        return await self._waiting[message.id]

    async def run(self) -> None:
        """Read the server's messages until it ends. Its requests are refused."""
        self._exit_code = await self._process.read(self._receive)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._ended())

    def _receive(self, line: bytes) -> None:
        try:
            message = parse_message(line)
        except MessageError:
            return
        waiting = self._waiting.get(message.id) if message.is_response else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message.fields)
        elif message.method == "ping":
            self._process.write(result_message(message.id, {}) + b"\n")
        elif message.is_request:
            self._process.write(error_message(message.id, METHOD_NOT_FOUND, "Method not found") + b"\n")

    def _ended(self) -> InputError:
        return InputError(f"the server exited with {self._exit_code} before it answered", source=self.source)


@asynccontextmanager
async def live_process(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[LiveServer]:
    """Run a server over stdio while the block lasts."""
    process = ServerProcess(command, environment=environment)
    await process.start()
    live = LiveProcess(process, source=command[0])
    reading = asyncio.ensure_future(live.run())
    try:
        yield live
    finally:
        await process.stop()
        await asyncio.gather(reading, return_exceptions=True)


class LiveUrl:
    """A live server over HTTP."""

    def __init__(self, url: str, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> None:
        self.source, self._client, self._headers = url, client, dict(headers)
        self._session_id: str | None = None

    async def send(self, message: McpMessage, era: Era) -> JsonObject:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        try:
            async with self._client.stream(
                "POST", self.source, content=message.raw, headers=self._request_headers(message, era)
            ) as response:
                self._session_id = response.headers.get(SESSION_ID, self._session_id)
                found = await self._response(response, message)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = f"the server cannot be reached: {type(error).__name__} {error}".strip()
            raise InputError(reason, source=self.source) from None
        if found is None:
            raise InputError(
                f"the server answered {message.method} with HTTP {response.status_code}", source=self.source
            )
        return found

    async def _response(self, response: httpx2.Response, message: McpMessage) -> JsonObject | None:
        if not message.is_request:
            return {}
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() != SSE_TYPE:
            return _response_in(await response.aread(), message)
        decoder = SseDecoder()
        async for piece in response.aiter_bytes():
            for event in decoder.feed(piece):
                if (found := _response_in(event.data.encode(), message)) is not None:
                    return found
        return None

    def _request_headers(self, message: McpMessage, era: Era) -> dict[str, str]:
        sent = {"content-type": "application/json", "accept": f"application/json, {SSE_TYPE}"} | self._headers
        if era == "modern":
            named = message.params.get(NAMED_PARAMS.get(message.method, ""))
            sent |= {VERSION_HEADER: MODERN_VERSIONS[-1], "mcp-method": message.method}
            return sent | ({"mcp-name": encode_header(named)} if isinstance(named, str) else {})
        if message.method != "initialize":
            sent |= {VERSION_HEADER: HANDSHAKE_VERSIONS[-1]}
        return sent | ({SESSION_ID: self._session_id} if self._session_id else {})


def _response_in(data: bytes, request: McpMessage) -> JsonObject | None:
    try:
        message = parse_message(data)
    except MessageError:
        return None
    is_error = "error" in message.fields and message.id is None
    return message.fields if message.is_response and (message.id == request.id or is_error) else None


@asynccontextmanager
async def live_url(url: str, headers: Mapping[str, str]) -> AsyncIterator[LiveServer]:
    """Connect to a server over HTTP while the block lasts."""
    import httpx2  # noqa: PLC0415

    checked_url(url, source="--url")
    timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
    is_elsewhere = urlsplit(url).hostname not in LOOPBACK_HOSTS
    async with httpx2.AsyncClient(timeout=timeout, trust_env=is_elsewhere) as client:
        yield LiveUrl(url, client, headers)


async def verify(
    document: Document,
    server: str,
    client: LiveClient,
    *,
    rules: NormaliseRules,
    runs_tools: bool = False,
    read_only: Collection[str] = (),
) -> McpVerification:
    """Repeat the recorded requests of `server` at a live server, and compare.

    Lists are compared by their changes. Tool calls are made only if the live server declares the tool read-only, if it
    is one of `read_only`, or with `runs_tools`; skipped calls are reported. Answers are compared as matching does: JSON
    inside text as JSON, without secrets, and without what the `rules` ignore.

    Raises:
        InputError: the server does not answer.
    """
    recorded = surfaces_of(each_exchange(document.tools)).get(server, Surface())
    is_modern = mcp_key(server, "server/discover") in document.tools
    about = await client.open("modern" if is_modern else "handshake")
    needed = dict.fromkeys([*recorded.sections, "tools"])
    live = Surface(about=about, sections={section: await client.items(section) for section in needed})
    verification = McpVerification(changes=compare_surfaces(recorded, live, server))
    asking = _Asking(client, verification, rules)
    for method in _READ_METHODS:
        key = mcp_key(server, method)
        await asking.compare(key, method, [(call, _params(call)) for call in exchanges_of(document.tools, key)])
    for key in document.tools:
        if key.startswith(f"{server}."):
            tool = key.removeprefix(f"{server}.")
            await asking.compare_tool(key, tool, document, live, runs_tools=runs_tools or tool in read_only)
    return verification


def _params(call: ToolExchange) -> JsonObject:
    return call.arguments if isinstance(call.arguments, dict) else {}


class _Asking:
    """Repeats recorded requests, and notes the differences."""

    def __init__(self, client: LiveClient, verification: McpVerification, rules: NormaliseRules) -> None:
        self._client, self._verification, self._rules = client, verification, rules
        self._redactor = Redactor()

    async def compare_tool(self, key: str, tool: str, document: Document, live: Surface, *, runs_tools: bool) -> None:
        calls = exchanges_of(document.tools, key)
        reason = _reason_to_leave_out(live.tools.get(tool), runs_tools=runs_tools)
        if reason:
            self._verification.left_out.append(LeftOutCalls(tool, len(calls), reason))
            return
        askable = [each for each in calls if isinstance(each.arguments, dict) and each.arguments_hash is None]
        if len(askable) < len(calls):
            lost = "the arguments of the recording are not those of the call"
            self._verification.left_out.append(LeftOutCalls(tool, len(calls) - len(askable), lost))
        named = [(each, {"name": tool, "arguments": _params(each)}) for each in askable]
        await self.compare(key, "tools/call", named)

    async def compare(self, key: str, method: str, calls: Iterable[tuple[ToolExchange, JsonObject]]) -> None:
        for index, (call, params) in enumerate(calls):
            response = await self._client.ask(method, params)
            is_raw = method != "tools/call" and "error" not in response
            live = ToolExchange(result=response.get("result")) if is_raw else call_outcome(response)
            before, after = self._comparable(call), self._comparable(live)
            self._verification.compared += 1
            if before != after:
                place = f"{tool_key(self._redactor.text(key))}[{index}]"
                self._verification.differences.append(AnswerDifference(place, difference_between(before, after)))

    def _comparable(self, call: ToolExchange) -> JsonObject:
        if call.error is not None:
            return apply_rules({"error": self._redactor.text(call.error.message)}, self._rules)
        answer = call.answer
        if isinstance(answer, dict):
            answer = {name: value for name, value in answer.items() if name not in _VOLATILE_FIELDS}
        return apply_rules({"result": json_in_texts(self._redactor.value(answer))}, self._rules)


def _reason_to_leave_out(tool: JsonObject | None, *, runs_tools: bool) -> str:
    if tool is None:
        return "the server does not list it"
    annotations = tool.get("annotations")
    is_read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    return "" if runs_tools or is_read_only else "it is not read-only: --run-tools calls it"


def _error_text(response: JsonObject) -> str:
    error = response.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return shorten(text if isinstance(text, str) else msgspec.json.encode(response).decode())
