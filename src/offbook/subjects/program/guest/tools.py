"""Takes over the tools of a program: every call asks offbook, which answers it, lets the tool run, or refuses it.

A call asks with `{"tool", "arguments"}`: in a line at the Unix socket that OFFBOOK_TOOLS_SOCKET names, or by a POST to
OFFBOOK_TOOLS_URL. The answer has a `result`, an `error` to raise, or in `run` the number of a real call. Its outcome is
reported as `{"call", "result" or "error"}`; the answer to that, if any, replaces it for the program. After `run_first`,
further calls run first, and ask with their outcome.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import inspect
import json
import math
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .bodies import replace_body

Name: TypeAlias = str | Callable[[tuple[Any, ...]], str]
"""The name of a tool, or a function that finds it from the arguments of a call, such as its `self`.

A call without a name is no tool's, and runs.
"""

Selection: TypeAlias = Callable[[dict[str, Any]], object]
"""Finds the model's arguments among all arguments of a call, by name: a mapping, or an object with fields. `self` is
one of them, and is omitted from a mapping.
"""

MAX_DEPTH = 50
READ_BYTES = 64 * 1024
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A result that makes a larger message is not sent: its tool runs for real in a replay."""

_is_inside = ContextVar("offbook_is_inside_a_tool", default=False)


class ToolRefusedError(RuntimeError):
    """Raised where a tool is called that was not recorded, and may not run."""


class Tools:
    """The taken-over tools of this process. `notes` are sent with the next call."""

    def __init__(self, url: str, path: str = "") -> None:
        self._server = _Server(url, path)
        self._taken: dict[FunctionType, dict[int, Name]] = {}
        self._runs_first = False
        self._steering = set[str]()
        self.notes: list[dict[str, Any]] = []

    def take(self, function: object, name: Name, *, select: Selection = dict) -> bool:
        """Take over a function, and return whether that is possible.

        The arguments of a call are those that `select` returns, if they have a JSON form. A method may be a tool of
        several objects, with a name for each.
        """
        function = inspect.unwrap(function) if callable(function) else function
        owner = id(getattr(function, "__self__", None))
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType):
            return False
        if function in self._taken:
            self._taken[function].setdefault(owner, name)
            return True
        names, parameters = {owner: name}, _Parameters(function)
        is_async = inspect.iscoroutinefunction(function)

        def body(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if _is_inside.get():
                return original(*args, **kwargs)
            own = names.get(id(args[0]), name) if args else name
            tool = own if isinstance(own, str) else own(args)
            given = parameters.given(args, kwargs)
            if not tool or given is None:
                return original(*args, **kwargs)
            asked = {"tool": tool, **parameters.described(given, select)}
            call = _Call(original, args, kwargs)
            return self._answer_async(asked, call) if is_async else self._answer(asked, call)

        is_taken = replace_body(function, body) is not None
        if is_taken:
            self._taken[function] = names
        return is_taken

    def _answer(self, asked: dict[str, Any], call: _Call) -> Any:
        answer = {} if self._runs_first else self._server.ask(self._noted(asked))
        about = self._about(asked, answer)
        if about is None:
            if answer.get("wait_s"):  # a sleep of no time takes some
                time.sleep(answer["wait_s"])
            return call.outcome(answer)
        with call.running() as ended:
            ended.value = call.run()
        if inspect.isawaitable(ended.value):  # a plain function that returns what its caller awaits
            return self._finish(about, call, ended.value)
        told = self._server.ask(about | ended.described())
        return call.outcome(told) if told else ended.get()

    async def _answer_async(self, asked: dict[str, Any], call: _Call) -> Any:
        answer = {} if self._runs_first else await self._server.ask_async(self._noted(asked))
        about = self._about(asked, answer)
        if about is not None:
            return await self._finish(about, call, call.run())
        if answer.get("wait_s"):
            await asyncio.sleep(answer["wait_s"])
        return call.outcome(answer)

    def _about(self, asked: dict[str, Any], answer: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the report on a call that ran, or None if it did not run."""
        if self._runs_first:
            return self._noted(asked)
        self._runs_first = "run_first" in answer
        return {"call": answer["run"]} if "run" in answer else None

    async def _finish(self, about: dict[str, Any], call: _Call, value: Awaitable[Any]) -> Any:
        with call.running() as ended:
            ended.value = await value
        told = await self._server.ask_async(about | ended.described())
        return call.outcome(told) if told else ended.get()

    def note_steering(self, tool: str) -> None:
        """Note a tool that is not taken over because it steers the agent, or passes its calls on."""
        if tool not in self._steering:
            self._steering.add(tool)
            self.notes.append({"tool": tool, "is_steering": True})

    def _noted(self, asked: dict[str, Any]) -> dict[str, Any]:
        notes, self.notes = self.notes, []
        return asked | {"notes": notes} if notes else asked

    def send_notes(self) -> None:
        """Send the remaining notes at the end of the process."""
        if self.notes:
            with suppress(Exception):
                self._server.ask(self._noted({}))


class _Ended:
    """The result or error of a tool that ran for real."""

    value: Any = None
    error: BaseException | None = None

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def described(self) -> dict[str, Any]:
        ended = {"took_s": time.monotonic() - self._started_s}
        if self.error is None:
            return ended | _described(self.value)
        if not isinstance(self.error, Exception):
            return ended | {"cancelled": type(self.error).__name__}
        return ended | {"error": {"type": type(self.error).__name__, "message": _text_of(self.error)}}


class _Call:
    """A call of a tool, by the function as it was."""

    def __init__(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs

    def run(self) -> Any:
        return self._function(*self._args, **self._kwargs)

    @contextmanager
    def running(self) -> Iterator[_Ended]:
        """Keep the error of the block. Tools called inside run as a part of this one."""
        ended, token = _Ended(), _is_inside.set(True)
        try:
            yield ended
        except BaseException as error:
            ended.error = error
        finally:
            _is_inside.reset(token)

    def outcome(self, answer: Mapping[str, Any]) -> Any:
        """Return the result that offbook has for the call, or raise the error."""
        error = answer.get("error")
        if error is None:
            return _rebuilt(answer.get("result"), answer.get("type"))
        if "refused" in answer:
            raise ToolRefusedError(error["message"])
        raise _error(error, self._function.__globals__)


class _Parameters:
    """The parameters of a function: the values that a call gives, and the defaults."""

    def __init__(self, function: FunctionType) -> None:
        self._signature = signature = inspect.signature(function)
        self._is_own = "__signature__" not in vars(function)
        given = {name: each.default for name, each in signature.parameters.items() if each.default is not each.empty}
        self._names = tuple(signature.parameters)
        self._needed, self._known = signature.parameters.keys() - given.keys(), frozenset(self._names)
        self._is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in signature.parameters.values())
        self._defaults = {name: (value, form[0]) for name, value in given.items() if (form := json_form(value))}

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments by name, or None if they do not fit, so that the call raises TypeError and runs nothing.

        An explicitly set signature, which is not the function's own, does not count.
        """
        if self._is_plain and len(args) <= len(self._names):  # `bind` takes as long as all the rest
            given = dict(zip(self._names, args, strict=False))
            if given.keys().isdisjoint(kwargs):
                given |= kwargs
                if self._needed <= given.keys() <= self._known:
                    return given
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            if self._is_own:
                return None
            bound = self._signature.bind_partial()
        given = {}
        for name, value in bound.arguments.items():
            is_rest = self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            given |= value if is_rest else {name: value}
        return given

    def described(self, given: dict[str, Any], select: Selection) -> dict[str, Any]:
        """Return the `arguments` that have a JSON form, and the `defaults` of those that need not be given.

        Contexts, states and `self` have no JSON form, and are not the model's.
        """
        values = {name: value for name, (value, _) in self._defaults.items()} | given if self._defaults else given
        selected = select(values)
        if not isinstance(selected, Mapping):
            form = json_form(selected)
            return {"arguments": form[0] if form is not None and isinstance(form[0], dict) else {}}
        forms: dict[str, Any] = {}
        for name, value in selected.items():
            if (name in given or name not in self._defaults) and name not in ("self", "cls"):
                form = json_form(value)
                if form is not None:
                    forms[str(name)] = form[0]
        defaults = {name: form for name, (_, form) in self._defaults.items() if name in selected}
        return {"arguments": forms, "defaults": defaults} if defaults else {"arguments": forms}


_SURROGATES = re.compile("[\ud800-\udfff]")


def _is_encodable(value: object) -> bool:
    """Return whether JSON can have a number or a text: neither an infinite one, nor half a character."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or value.isascii() or not _SURROGATES.search(value)


def json_form(value: object, depth: int = 0) -> tuple[Any] | None:
    """Return a value's JSON form in a tuple, or None if it is not JSON data, or contains itself."""
    if type(value) is str and value.isascii():
        return (value,)
    if value is None or isinstance(value, bool | int | float | str):
        return (value,) if _is_encodable(value) else None
    if depth > MAX_DEPTH:
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif hasattr(type(value), "model_validate"):  # a pydantic model
        value = value.model_dump(mode="json", by_alias=True)  # type: ignore[attr-defined]
    if isinstance(value, list | tuple):
        items = _json_forms(value, depth)
        return None if items is None else (items,)
    if isinstance(value, dict) and all(isinstance(key, str) and _is_encodable(key) for key in value):
        items = _json_forms(value.values(), depth)
        return None if items is None else (dict(zip(value, items, strict=True)),)
    return None


def _json_forms(values: Iterable[object], depth: int) -> list[Any] | None:
    """Return the values' JSON forms, or None if one has none."""
    forms: list[Any] = []
    for each in values:
        form = json_form(each, depth + 1)
        if form is None:
            return None
        forms.append(form[0])
    return forms


def _described(value: object) -> dict[str, Any]:
    """Return a result as JSON, with its type if it can be rebuilt; otherwise as text with its type."""
    form, kind = json_form(value), type(value)
    if form is None:
        return {"result": _text_of(value), "type": kind.__name__}
    if kind in (type(None), bool, int, float, str) or (kind in (list, dict) and form[0] == value):
        return {"result": form[0]}
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        is_faithful = _rebuilt(form[0], name) == value
    except Exception:
        is_faithful = False
    return {"result": form[0], "type": name} if is_faithful else {"result": _text_of(value), "type": kind.__name__}


def _text_of(value: object) -> str:
    try:
        return str(value).encode(errors="replace").decode()
    except Exception:
        return f"<{type(value).__name__}>"


PLAIN_DATA = (str, int, float, list, tuple, dict)


def _rebuilt(value: Any, name: str | None) -> Any:
    """Return a value of a type named `module:Class`, from its JSON form.

    A recording may come from anybody: nothing is loaded because it names it, and only data classes are called.

    Raises:
        ToolRefusedError: it is no such class, or not loaded.
    """
    if not name or ":" not in name:
        return value
    module, _, path = name.partition(":")
    kind: Any = sys.modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, part, None)
    if isinstance(kind, type):
        if dataclasses.is_dataclass(kind):
            return kind(**value)
        if hasattr(kind, "__pydantic_validator__"):
            return kind.model_validate(value)  # type: ignore[attr-defined]
        if issubclass(kind, PLAIN_DATA):
            return kind(*value) if hasattr(kind, "_fields") else kind(value)
    raise ToolRefusedError(f"the recorded result is a {name}, and no class of that name with plain data is loaded")


def _error(recorded: Mapping[str, str], names: Mapping[str, Any]) -> Exception:
    """Return a recorded error: of its class, if one of that name is loaded and takes a message."""
    name, message = recorded["type"], recorded.get("message", "")
    modules = [vars(module) for key, module in sorted(sys.modules.items()) if isinstance(module, ModuleType)]
    for known in (each.get(name) for each in (vars(builtins), names, *modules)):
        if isinstance(known, type) and issubclass(known, Exception):
            with suppress(Exception):
                error: Exception = known(message)
                break
    else:
        error = type(name, (RuntimeError,), {})(message)
    return error


class _Connection(socket.socket):
    """A connection that is closed without references: with its thread, or with its event loop.

    One to the Unix socket has a `poll`.
    """

    poll: select.poll | None = None

    def send_now(self, data: bytes) -> int:
        """Send as much as possible without waiting, and return its size."""
        try:
            return self.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def __del__(self) -> None:
        self.close()


POLL_MS = 1
"""The longest blocking of an event loop for an answer: usually less than adding a socket to the loop takes."""


class _Server:
    """The address for questions about calls. Each thread has a connection, and so has each concurrently awaited call.

    At a Unix socket at `path`, a message is a line. If that cannot be reached, it is a POST to `url`.
    """

    def __init__(self, url: str, path: str) -> None:
        parts = urlsplit(url)
        self._path, self._address = path, (parts.hostname or "127.0.0.1", parts.port or 80)
        self._head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
        self._own = threading.local()
        self._pid, self._free = os.getpid(), WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Connection]]()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message, and return the answer."""
        connection = getattr(self._own, "connection", None)
        if connection is None or self._own.pid != os.getpid():
            connection = self._local_connection()
            if connection is None:
                connection = self._connection()
                connection.connect(self._address)
            self._own.connection, self._own.pid = connection, os.getpid()
        reply = _Line() if connection.poll else _Response()
        try:
            connection.sendall(self._request(connection, message))
            while not reply.is_complete:
                reply.add(connection.recv(READ_BYTES))
        except BaseException:
            self._own.connection = None
            connection.close()
            raise
        return reply.body

    async def ask_async(self, message: dict[str, Any]) -> dict[str, Any]:
        """Ask like `ask`, while other tasks of the loop continue. Event loops other than asyncio's are blocked."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self.ask(message)
        if self._pid != os.getpid():
            self._pid, self._free = os.getpid(), WeakKeyDictionary()
        free = self._free.setdefault(loop, [])
        connection = free.pop() if free else await self._connected(loop)
        reply = _Line() if connection.poll else _Response()
        try:
            await self._send(loop, connection, self._request(connection, message))
            if connection.poll is not None:
                await asyncio.sleep(0)  # a tool that is awaited lets others run, also if it is replayed
                if connection.poll.poll(POLL_MS):
                    reply.add(connection.recv(READ_BYTES))
            while not reply.is_complete:
                reply.add(await loop.sock_recv(connection, READ_BYTES))
        except BaseException:
            connection.close()
            raise
        free.append(connection)
        return reply.body

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        connection = self._local_connection(is_blocking=False)
        if connection is None:
            connection = self._connection()
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, self._address)
            except BaseException:
                connection.close()
                raise
        return connection

    @staticmethod
    async def _send(loop: asyncio.AbstractEventLoop, connection: _Connection, request: bytes) -> None:
        sent = 0 if connection.poll is None else connection.send_now(request)
        if sent < len(request):
            await loop.sock_sendall(connection, request[sent:])

    def _local_connection(self, *, is_blocking: bool = True) -> _Connection | None:
        """Return a connection to the Unix socket, or None if it cannot be reached, as in a container."""
        if not self._path:
            return None
        connection = _Connection(socket.AF_UNIX)
        try:
            connection.connect(self._path)
        except OSError:
            self._path = ""
            connection.close()
            return None
        connection.setblocking(is_blocking)
        connection.poll = select.poll()
        connection.poll.register(connection, select.POLLIN)
        return connection

    def _connection(self) -> _Connection:
        return _Connection(socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET)

    def _request(self, connection: _Connection, message: dict[str, Any]) -> bytes:
        body = json.dumps(message).encode()
        if len(body) > MAX_MESSAGE_BYTES and "result" in message:
            large = {"result": f"a result of {len(body):,} bytes", "type": "large result"}
            body = json.dumps(message | large).encode()
        if connection.poll is not None:
            return body + b"\n"
        return f"{self._head}content-length: {len(body)}\r\n\r\n".encode() + body


_DECODER = json.JSONDecoder()


class _Line:
    """A line of JSON, in pieces."""

    def __init__(self) -> None:
        self._data, self.is_complete = b"", False

    def add(self, piece: bytes) -> None:
        if not piece:
            raise ConnectionError("offbook has ended")
        self._data += piece
        self.is_complete = piece.endswith(b"\n")

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = _DECODER.raw_decode(self._data.decode())[0]
        return found


class _Response:
    """An HTTP response with a length, in pieces."""

    def __init__(self) -> None:
        self._data, self._length, self._is_fine = bytearray(), -1, True

    @property
    def is_complete(self) -> bool:
        return 0 <= self._length <= len(self._data)

    def add(self, piece: bytes) -> None:
        if not piece:
            raise ConnectionError("offbook has ended")
        self._data += piece
        if self._length < 0 and b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            self._is_fine = b" 200 " in head[:16]
            lines = dict(line.lower().split(b":", 1) for line in bytes(head).split(b"\r\n")[1:])
            self._length = int(lines.get(b"content-length", b"0"))

    @property
    def body(self) -> dict[str, Any]:
        if not self._is_fine:
            raise ToolRefusedError(
                f"offbook could not read a message about a tool: {_text_of(bytes(self._data[:200]))}"
            )
        found: dict[str, Any] = json.loads(self._data) if self._data else {}
        return found
