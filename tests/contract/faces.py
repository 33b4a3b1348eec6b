"""One driver for each face of offbook: whatever it speaks, a test asks it a text and gets an outcome.

A book says what is recorded: by key, an `Entry` (it answers for ever) or a list of them (in order). The key is a step
of models and the name of a tool; `None` is a model call without a step, which is found by its request.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple

import aiohttp
import httpx
import httpx2
import requests

import offbook
from offbook import (
    FaultInjector,
    FaultPlan,
    MockProvider,
    ProviderError,
    RecordingMismatchError,
    RecordingProvider,
    StandIn,
    StreamEnd,
    ToolCall,
    inject_tools,
    record_tools,
    replay_tools,
)
from offbook.faults import parse_fault
from offbook.subjects.program.guest.tools import ToolRefusedError
from offbook.subjects.program.guest.tools import Tools as GuestTools
from offbook.tools import run_tools
from offbook.wire.options import ProgramToolOptions, WireOptions
from offbook.wire.server.control import TOOLS_PATH
from offbook.wire.server.wire_server import WireServer
from tests.contract.explored_agent import (
    McpProcess,
    Socket,
    conversation,
    mcp_outcome,
    modern_tool_call,
    streamed_outcome,
)
from tests.contract.live import Live, LiveModel, LiveProcess, live_tools, mcp_server, model_server, socket_server

KEYS = ("greet", "gret", "part")
SERVER = "notes"
SECRET = "sk-proj-" + "a1B2" * 10
VENDOR_URL = "https://api.openai.com"


class Outcome(NamedTuple):
    """What a caller gets: an `answer` with its text, a `miss`, or another `error`."""

    kind: str
    text: str = ""


def said(text):
    return Outcome("answer", text)


class Missed(NamedTuple):
    """A miss as a face reports it."""

    kind: str
    key: str | None
    text: str


class Entry(NamedTuple):
    """A recorded answer to the text `asked`; written by hand for every request if that is None."""

    answer: str
    asked: str | None = None
    fields: Mapping = MappingProxyType({})


class Setup(NamedTuple):
    """What a face answers from: a document, or a recording at a path; or what it records, and where to."""

    document: dict | None = None
    path: Path | None = None
    record: Path | None = None
    mode: str = "append"
    strict: bool = True
    default: str | None = None
    faults: tuple = ()
    latency_ms: float = 0.0

    @property
    def plan(self):
        is_plan = isinstance(self.faults, FaultPlan)
        return self.faults if is_plan else FaultPlan([parse_fault(line) for line in self.faults])

    @property
    def wire_options(self):
        options = {"faults": self.plan, "latency_ms": self.latency_ms}
        if self.record is not None:
            return options | {"record": self.record, "record_mode": self.mode}
        options |= {"strict": self.strict}
        if self.default is not None:
            options["default_response"] = self.default
        return options | ({"recording": self.path} if self.document is None else {"responses": self.document})


class Face:
    """How one face is opened, asked, and inspected.

    `live` is what answers while it records, `took_s` is how long the last answer took on the clock of the caller, and
    `session` the name of the session that asks.
    """

    name: str
    family: str
    failing: str
    """A fault that needs no answer, after which the caller has none."""
    losing: str
    """A fault that loses an answer on its way."""
    changing: str
    """A fault that needs an answer, and changes it."""
    first_call = 1
    """The number of the first call that a test makes."""
    first_attempt: Mapping = MappingProxyType({"attempt": 1})
    numbers_with_a_retry = ((1, 1), (2, 1), (2, 2))
    """Of calls and their attempts, if the second call is tried again."""
    exchanges_of_one = 1
    """How many exchanges a run that asks one text records."""
    kept_asked = 0
    """How many texts of the run before `live` still knows."""

    def __init__(self, setup, folder):
        self.setup, self.folder, self.live, self.took_s, self.session = setup, folder, Live(), 0.0, ""
        self._open = ExitStack()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *raised):
        return self._open.__exit__(*raised)

    def enter(self, context):
        return self._open.enter_context(context)

    @classmethod
    def site(cls, key=None, **numbers):
        """The site of a call in a plan: `step=greet call=1`, or `tool=greet call=1`."""
        named = {} if key is None or not cls.key_word else {cls.key_word: cls.recorded_key(key)}
        counted = {name: n if name == "attempt" else n + cls.first_call - 1 for name, n in numbers.items()}
        return " ".join(f"{name}={value}" for name, value in (named | counted).items())

    @staticmethod
    def planned(line):
        """A line of a plan as it is reported when it has fired."""
        return str(parse_fault(line))

    @classmethod
    def family_faces(cls):
        return [face for face in FACES.values() if face.family == cls.family]

    @classmethod
    def first_site(cls, key):
        """The first attempt of the first call that a test makes."""
        return cls.site(key, call=1, **cls.first_attempt)

    @classmethod
    def recorded_key(cls, key):
        return key

    def ask(self, text, key=None):
        started_s, self.took_s = time.monotonic(), None
        outcome = self.answer_to(text, key)
        if self.took_s is None:
            self.took_s = time.monotonic() - started_s
        return outcome

    def retry(self, text, key=None, *, attempt):
        """Ask again what has failed."""
        return self.ask(text, key)

    def stream(self, text, key=None):
        """Ask for an answer in pieces, if there are any."""
        return self.ask(text, key)

    def hang_up(self):
        """End the connection, if the face has one that lasts."""

    def unused(self):
        return [(entry.key, entry.position) for entry in self.inspected.unused()]

    @property
    def misses(self):
        return [Missed(each.kind, each.key, str(each)) for each in self.inspected.misses]

    @property
    def unfired(self):
        return [str(line) for line in self.injected.unfired()]


class ModelFace(Face):
    """A face of model calls."""

    family, key_word = "model", "step"
    failing, losing, changing = "http_error 500", "stream_truncate 1", "partial_response half"

    @staticmethod
    def document(book):
        document = {"_version": 2}
        for key, entries in book.items():
            if isinstance(entries, list):
                document[key or recorded_request(entries[0].asked)["request_hash"]] = [model_entry(e) for e in entries]
            else:
                document[key or recorded_request(entries.asked)["request_hash"]] = model_entry(entries)
        return document


def model_entry(entry):
    recorded = {} if entry.asked is None else recorded_request(entry.asked)
    return recorded | {"content": entry.answer} | entry.fields


@cache
def recorded_request(text):
    """The fields of a recorded exchange that say what was asked, and when."""

    async def record(path):
        async with RecordingProvider(LiveModel(Live()), path) as recorder:
            await recorder.complete(conversation(text), model="m", step_id="any")

    with TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        offbook.run(record(path))
        recorded = json.loads(path.read_text())["any"]
    return {name: recorded[name] for name in ("request", "request_hash", "recorded_at")}


class ProviderFace(ModelFace):
    """MockProvider or RecordingProvider under a FaultInjector."""

    name = "provider"

    def start(self):
        setup = self.setup
        if setup.record is not None:
            self.inspected = RecordingProvider(LiveModel(self.live), setup.record, record=setup.mode)
        else:
            default = {} if setup.default is None else {"default_response": setup.default}
            self.inspected = MockProvider(
                setup.path, responses=setup.document, strict=setup.strict, latency_ms=setup.latency_ms, **default
            )
        self.injected = FaultInjector(self.inspected, setup.plan)

    def __exit__(self, *raised):
        offbook.run(self.inspected.__aexit__(*raised))

    def explore(self, harness):
        self.injected = harness.provider

    def answer_to(self, text, key):
        return self._complete({"messages": conversation(text)}, key)

    def retry(self, text, key=None, *, attempt):
        return self._complete({"messages": conversation(text)}, key, attempt)

    def stream(self, text, key=None):
        return self._complete({"messages": conversation(text), "stream": True}, key)

    def request(self, fields, key, read=None):
        return self._complete(fields, key)

    def _complete(self, fields, key, attempt=1):
        async def complete():
            started_s = asyncio.get_running_loop().time()
            try:
                asked = {"messages": fields["messages"], "model": "m", "step_id": key, "attempt": attempt}
                if not fields.get("stream"):
                    response = await self.injected.complete(**asked)
                else:
                    async for event in await self.injected.stream(**asked):
                        response = event.response if isinstance(event, StreamEnd) else None
            except RecordingMismatchError as error:
                return Outcome("miss", str(error))
            except ProviderError as error:
                return Outcome("error", str(error))
            finally:
                self.took_s = asyncio.get_running_loop().time() - started_s
            return said(response.content)

        return offbook.run(complete(), virtual_time=True)

    @property
    def fired(self):
        return [str(line) for line in self.injected.fired]

    def overused(self):
        return [(entry.key, entry.served) for entry in self.inspected.overused()]


CONNECTION_ERRORS = (httpx.HTTPError, httpx2.HTTPError, requests.RequestException, aiohttp.ClientError)


def read_chat(body):
    return said(json.loads(body)["choices"][0]["message"]["content"])


def read_chat_stream(body):
    """The text of a stream of chat chunks; an error if it has no end."""
    return Outcome(*streamed_outcome(body))


class WireFace(ModelFace):
    """A face of model calls over HTTP."""

    def start(self):
        if self.setup.record is None:
            self.base = self.serve(self.setup.wire_options)
        else:
            self.base = self.serve(self.setup.wire_options, self.enter(model_server(self.live)))
        self.injected = self.inspected

    def serve(self, options, live_url=None):
        """Start what answers, and return the URL to ask."""
        self.inspected = self.enter(StandIn(**options))
        self.enter(self.inspected.intercept(*([] if live_url is None else [live_url.removeprefix("http://")])))
        return live_url or VENDOR_URL

    def explore(self, harness):
        self.base = VENDOR_URL
        harness.intercept()

    def answer_to(self, text, key):
        return self.request({"messages": conversation(text)}, key, read_chat)

    def stream(self, text, key=None):
        return self.request({"messages": conversation(text), "stream": True}, key, read_chat_stream)

    def request(self, fields, key, read, path="/v1/chat/completions"):
        """Post a request of a protocol, and read its answer."""
        given = {"x-offbook-step": key, "x-offbook-session": self.session}
        headers = {name: value for name, value in given.items() if value}
        try:
            status, body = self.post(f"{self.base}{path}", {"model": "m"} | fields, headers)
        except CONNECTION_ERRORS as error:
            return Outcome("error", str(error))
        if status == 200:
            return read(body)
        return Outcome("miss" if status == 422 else "error", json.loads(body)["error"]["message"])

    def request_claude(self, text):
        """Ask in the protocol of Anthropic."""
        fields = {"messages": conversation(text), "max_tokens": 9}
        return self.request(fields, None, lambda body: said(json.loads(body)["content"][0]["text"]), "/v1/messages")

    @property
    def fired(self):
        return [str(line) for line in self.inspected.fired()]

    def overused(self):
        return [(entry.key, entry.served) for entry in self.inspected.overused_exchanges()]


class ServerFace(WireFace):
    """A server at a port."""

    name = "server"

    def serve(self, options, live_url=None):
        upstreams = {} if live_url is None else {"upstreams": {"openai": f"{live_url}/v1"}}
        self.inspected = self.enter(offbook.serving(**options, **upstreams))
        self._client = self.enter(httpx2.Client(trust_env=False, verify=False))
        return self.inspected.url

    def post(self, url, body, headers):
        answer = self._client.post(url, json=body, headers=headers)
        return answer.status_code, answer.content


class ClientFace(WireFace):
    """A client that a StandIn made; in virtual time, but for the time of what is real."""

    name = "httpx2"

    def serve(self, options, live_url=None):
        self.inspected = self.enter(StandIn(**options))
        if live_url is not None:
            self._recording_client = self.enter(self.inspected.sync_http_client())
        return live_url or VENDOR_URL

    def explore(self, harness):
        self.inspected, self.base = harness, VENDOR_URL

    def post(self, url, body, headers):
        async def post():
            async with self.inspected.http_client() as client:
                started_s = asyncio.get_running_loop().time()
                try:
                    answer = await client.post(url, json=body, headers=headers, timeout=60)
                finally:
                    self.took_s = asyncio.get_running_loop().time() - started_s
                return answer.status_code, answer.content

        if self.setup.record is None:
            return offbook.run(post(), virtual_time=True)
        answer = self._recording_client.post(url, json=body, headers=headers)
        return answer.status_code, answer.content


class HttpxFace(WireFace):
    """A client of httpx that is intercepted."""

    name = "httpx"

    def post(self, url, body, headers):
        with httpx.Client(trust_env=False, verify=False) as client:
            answer = client.post(url, json=body, headers=headers)
        return answer.status_code, answer.content


class RequestsFace(WireFace):
    """A session of requests that is intercepted."""

    name = "requests"

    def post(self, url, body, headers):
        answer = requests.post(url, json=body, headers=headers, timeout=60)
        return answer.status_code, answer.content


class AiohttpFace(WireFace):
    """A session of aiohttp that is intercepted."""

    name = "aiohttp"

    def post(self, url, body, headers):
        async def post():
            async with (
                aiohttp.ClientSession() as client,
                client.post(url, json=body, headers=headers) as answer,
            ):
                return answer.status, await answer.read()

        return asyncio.run(post())


class ToolFace(Face):
    """A face of tool calls."""

    family, key_word = "tool", "tool"
    failing, losing, changing = "tool_error", "tool_lost", "tool_garbled"
    first_attempt: Mapping = MappingProxyType({})
    numbers_with_a_retry = ((1, 1), (2, 1), (3, 1))

    @classmethod
    def document(cls, book):
        def entry(given):
            asked = {} if given.asked is None else {"arguments": {"text": given.asked}}
            return asked | {"result": given.answer} | given.fields

        tools = {}
        for key, entries in book.items():
            is_list = isinstance(entries, list)
            tools[cls.recorded_key(key)] = [entry(each) for each in entries] if is_list else entry(entries)
        return {"_version": 2, "_tools": tools}


class FunctionFace(ToolFace):
    """Tools that are functions. They have no server, so that what they record does not answer tools of one."""

    @classmethod
    def family_faces(cls):
        return [face for face in FACES.values() if issubclass(face, FunctionFace)]


class ToolsFace(FunctionFace):
    """Tools of this process, replayed or recorded."""

    name = "tools"

    def start(self):
        setup, tools = self.setup, live_tools(self.live, KEYS)
        if setup.record is not None:
            self.inspected = self.enter(record_tools(tools, setup.record, record=setup.mode))
        else:
            recording = setup.path if setup.document is None else setup.document
            self.inspected = self.enter(
                replay_tools(tools, recording, strict=setup.strict, default=setup.default, latency_ms=setup.latency_ms)
            )
        self.injected = inject_tools(self.inspected, setup.plan)

    def explore(self, harness):
        self.injected = harness.tools(*live_tools(self.live, KEYS))

    def answer_to(self, text, key):
        async def call():
            started_s = asyncio.get_running_loop().time()
            try:
                (outcome,) = await run_tools(self.injected, [ToolCall(key, {"text": text})])
            except RecordingMismatchError as error:
                return Outcome("miss", str(error))
            finally:
                self.took_s = asyncio.get_running_loop().time() - started_s
            return said(outcome.value) if outcome.error is None else Outcome("error", outcome.text)

        return offbook.run(call(), virtual_time=True)

    @property
    def fired(self):
        return [str(line) for line in self.injected.fired]

    def overused(self):
        return [(entry.key, entry.served) for entry in self.inspected.overused()]


class McpFace(ToolFace):
    """Tools of an MCP server."""

    @classmethod
    def recorded_key(cls, key):
        return f"{SERVER}.{key}"

    def unused(self):
        return [(key.removeprefix("_tools."), position) for key, position in super().unused()]

    def start(self):
        self.inspected = self.injected = self.enter(
            offbook.serving(mcp={SERVER: self.server_config()}, **self.setup.wire_options)
        )

    @property
    def fired(self):
        return [str(line) for line in self.inspected.fired()]

    def overused(self):
        return [(entry.key, entry.served) for entry in self.inspected.overused_exchanges()]


class McpStdioFace(McpFace):
    """An MCP server over stdio."""

    name, kept_asked = "mcp_stdio", 1

    def server_config(self):
        self.live = LiveProcess(self.folder / "asked.log")
        return self.live.config

    def start(self):
        super().start()
        self._process = McpProcess(lambda: self.inspected.mcp_of_session(self.session)[SERVER].config)
        self._open.callback(self.hang_up)

    def hang_up(self):
        """End the process of the server; the next call starts another."""
        self._process.close()

    def answer_to(self, text, key):
        return Outcome(*self._process.ask(text, key))


class McpHttpFace(McpFace):
    """An MCP server over HTTP."""

    name = "mcp_http"

    def server_config(self):
        return {"url": "http://127.0.0.1:1/mcp" if self.setup.record is None else self.enter(mcp_server(self.live))}

    def start(self):
        super().start()
        self._client = self.enter(httpx2.Client(trust_env=False, verify=False))

    def answer_to(self, text, key):
        message, headers = modern_tool_call(text, key)
        url = self.inspected.mcp_of_session(self.session)[SERVER].url
        try:
            return Outcome(*mcp_outcome(self._client.post(url, json=message, headers=headers).content))
        except httpx2.HTTPError as error:
            return Outcome("error", str(error))


class ProgramToolsFace(FunctionFace):
    """Functions of a program, each of which asks about its calls over HTTP."""

    name = "program_tools"

    def start(self):
        options = WireOptions(**self.setup.wire_options, has_tools=True, tools=ProgramToolOptions())
        self.inspected = self.injected = self.enter(WireServer(options))

    def answer_to(self, text, key):
        try:
            return said(self._tools[key](text=text))
        except ToolRefusedError as error:
            return Outcome("miss", str(error))
        except Exception as error:
            return Outcome("error", str(error))

    @property
    def _tools(self):
        """The functions of the session, taken over."""
        url = self.inspected.session_url(self.session) if self.session else self.inspected.url
        taken, functions = GuestTools(f"{url}{TOOLS_PATH}"), live_tools(self.live, KEYS)
        for function in functions:
            assert taken.take(function, function.__name__)
        return {function.__name__: function for function in functions}

    def unused(self):
        return [(each.key.removeprefix("_tools."), each.position) for each in self.inspected.unused_exchanges()]

    @property
    def fired(self):
        return [str(line) for line in self.inspected.fired()]

    def overused(self):
        return [(entry.key, entry.served) for entry in self.inspected.overused_exchanges()]


class WebSocketFace(Face):
    """A session over WebSocket: one connection, on which each text is a message. A book is its chain of messages."""

    name, family, key_word, first_call = "websocket", "socket", "", 2
    exchanges_of_one = 2
    failing, losing, changing = "ws_close 1011", "stream_truncate 0", "ws_repeat"

    @staticmethod
    def document(book):
        ((_, entries),) = book.items()
        return recorded_session(tuple((entry.asked, entry.answer) for entry in entries))

    def start(self):
        upstreams = {}
        if self.setup.record is not None:
            upstreams = {"upstreams": {"openai": f"{self.enter(socket_server(self.live.answer))}/v1"}}
        self.inspected = self.injected = self.enter(offbook.serving(**self.setup.wire_options, **upstreams))
        self._socket = Socket(self._url)
        self._open.callback(self.hang_up)

    def _url(self):
        return f"{self.inspected.session_url(self.session) if self.session else self.inspected.url}/v1"

    def hang_up(self):
        """End the session; the next text starts another."""
        self._socket.close()

    def answer_to(self, text, key):
        return Outcome(*self._socket.ask(text))

    @property
    def fired(self):
        return [str(line) for line in self.inspected.fired()]


@cache
def recorded_session(exchanges):
    """The document of a session in which each text got its answer."""
    answers = iter([answer for _, answer in exchanges])
    with TemporaryDirectory() as folder, socket_server(lambda _: next(answers)) as url:
        path = Path(folder, "run.json")
        with (
            offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server,
            closing(Socket(lambda: f"{server.url}/v1")) as socket,
        ):
            assert all(socket.ask(text)[0] == "answer" for text, _ in exchanges)
        return json.loads(path.read_text())


FACES = {
    face.name: face
    for face in (
        ProviderFace,
        ServerFace,
        ClientFace,
        HttpxFace,
        RequestsFace,
        AiohttpFace,
        ToolsFace,
        McpStdioFace,
        McpHttpFace,
        ProgramToolsFace,
        WebSocketFace,
    )
}
