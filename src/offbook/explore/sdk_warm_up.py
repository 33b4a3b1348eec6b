"""Lets the SDKs of a run build what they build on their first calls, before the processes of its cases are forked.

SDKs create the models of requests and responses when these are first used, which takes them longer than the rest of a
run. Processes inherit what is there when they are forked. So each request of the clean run is sent once more from here,
by the SDK itself to its recorded answer. No code of the agent runs: a method that something has replaced is not called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from inspect import isfunction
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import accept_in
from offbook.wire.replay import WireReplay
from offbook.wire.replay_source import ReplaySource
from offbook.wire.request import HttpRequest
from offbook.wire.session import WireSession

MAX_REQUESTS, MAX_BYTES = 16, 1 << 20
"""How many requests of a run are sent once more, and of which size in all: more build nothing new."""


SentRequest: TypeAlias = tuple[str, bytes]
"""A request that the clean run has sent to a model: its path and its JSON body."""


class SentRequests:
    """The first requests of a run."""

    def __init__(self) -> None:
        self.requests: list[SentRequest] = []
        self._left_bytes = MAX_BYTES

    def add(self, request: HttpRequest) -> None:
        self._left_bytes -= len(request.body)
        if request.body and self._left_bytes >= 0 and len(self.requests) < MAX_REQUESTS:
            self.requests.append((request.path, request.body))


def warm_up(requests: Iterable[SentRequest], source: ReplaySource) -> None:
    """Send each request once more, by its SDK if the clean run has used that."""
    answers = _RecordedAnswers(source)
    for path, body in requests:
        for sdk in _SDKS:
            if sdk.path in path and (package := sys.modules.get(sdk.package)) is not None:
                with suppress(Exception):  # only time is lost: the processes of the cases build it themselves
                    _read(sdk.send(package, answers, path, body))


class _RecordedAnswers(InProcessClients):
    def __init__(self, source: ReplaySource) -> None:
        replay = WireReplay(source, default_response="")
        self._session = WireSession("", parser=source.parser, replay=replay, on_call=lambda _: None)

    def accept(self, request: HttpRequest) -> InProcessCall:
        answer = accept_in(self._session, request).answer
        assert answer is not None
        return InProcessCall(answer)

    def close(self) -> None:
        """Do nothing."""


def _read(answer: Any) -> None:
    """Read a streamed answer to its end."""
    if isinstance(answer, Iterator) or type(answer).__name__ == "Stream":
        for _ in answer:
            pass


def _call(package: Any, method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a method of an SDK, unless something else is in its place: a mock, or instrumentation."""
    function = getattr(method, "__func__", method)
    folder = Path(package.__file__).parent
    if not isfunction(function) or not Path(function.__code__.co_filename).is_relative_to(folder):
        return None
    return method(**arguments)


def _send_openai_chat(package: Any, answers: InProcessClients, path: str, body: bytes) -> Any:
    client = package.OpenAI(api_key="none", max_retries=0, http_client=answers.sync_http_client())
    return _call(package, client.chat.completions.create, orjson.loads(body))


def _send_openai_responses(package: Any, answers: InProcessClients, path: str, body: bytes) -> Any:
    client = package.OpenAI(api_key="none", max_retries=0, http_client=answers.sync_http_client())
    return _call(package, client.responses.create, orjson.loads(body))


def _send_anthropic(package: Any, answers: InProcessClients, path: str, body: bytes) -> Any:
    client = package.Anthropic(api_key="none", max_retries=0, http_client=answers.sync_http_client())
    return _call(package, client.messages.create, orjson.loads(body))


def _send_google(package: Any, answers: InProcessClients, path: str, body: bytes) -> Any:
    options = package.types.HttpOptions(httpx_client=answers.sync_http_client())
    models = package.Client(api_key="none", vertexai=False, http_options=options).models
    send = models.generate_content_stream if ":stream" in path else models.generate_content
    fields = orjson.loads(body)
    config = {name: fields[name] for name in ("tools", "systemInstruction") if name in fields}
    model = path.rpartition("/")[2].partition(":")[0]
    return _call(package, send, {"model": model, "contents": fields["contents"], "config": config})


def _send_ollama(package: Any, answers: InProcessClients, path: str, body: bytes) -> Any:
    client = package.Client(transport=answers.httpx_transport())
    return _call(package, client.chat, orjson.loads(body))


class _Sdk(Struct, frozen=True):
    """An SDK: its package, a part of the paths that it requests, and what sends a request by it."""

    package: str
    path: str
    send: Callable[[Any, InProcessClients, str, bytes], Any]


_SDKS = (
    _Sdk("openai", "/chat/completions", _send_openai_chat),
    _Sdk("openai", "/responses", _send_openai_responses),
    _Sdk("anthropic", "/messages", _send_anthropic),
    _Sdk("google.genai", "enerateContent", _send_google),
    _Sdk("ollama", "/api/chat", _send_ollama),
)
