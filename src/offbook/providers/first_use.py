"""Repeats the requests of a run with their SDK before processes are forked, which inherit what the SDK has built.

SDKs build the models of requests and responses on first use, which takes longer than the rest of a run. Only their
documented clients are used, and no code of an agent runs: a replaced method is not called.

Only the standard library is imported, because a program's interpreter may not have offbook.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import isfunction
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Options: TypeAlias = Mapping[str, Any]


class Sdk(NamedTuple):
    """An SDK: its package, a part of the paths that it requests, and what sends a request by it.

    `root` is where a path begins that the SDK adds to its base URL. `client_option` and `url_option` are the options of
    its client for an HTTP client of ours, and for a base URL.
    """

    package: str
    path: str
    root: str
    send: Callable[[Any, Options, str, dict[str, Any]], None]
    client_option: str = "http_client"
    url_option: str = "base_url"


def send_again(path: str, body: bytes | str, options_of: Callable[[Sdk], Options]) -> None:
    """Send a request by its SDK, if that is loaded. `options_of` returns the option that leads to its answer."""
    for sdk in _SDKS:
        package = sys.modules.get(sdk.package)
        if package is not None and sdk.path in path and sdk.root in path:
            with suppress(Exception):  # only time is lost: those who are forked build it themselves
                sdk.send(package, options_of(sdk), path, json.loads(body))


def _call(package: Any, client: Any, method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call an SDK's method, unless a mock or instrumentation has replaced it."""
    function = getattr(method, "__func__", method)
    folder = Path(package.__file__).parent
    try:
        if isfunction(function) and Path(function.__code__.co_filename).is_relative_to(folder):
            answer = method(**arguments)
            if isinstance(answer, Iterator) or type(answer).__name__ == "Stream":
                for _ in answer:
                    pass
    finally:
        getattr(client, "close", lambda: None)()


def _send_openai_chat(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.OpenAI(api_key="none", max_retries=0, **options)
    _call(package, client, client.chat.completions.create, body)


def _send_openai_responses(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.OpenAI(api_key="none", max_retries=0, **options)
    _call(package, client, client.responses.create, body)


def _send_anthropic(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Anthropic(api_key="none", max_retries=0, **options)
    _call(package, client, client.messages.create, body)


def _send_google(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Client(api_key="none", vertexai=False, http_options=package.types.HttpOptions(**options))
    models = client.models
    send = models.generate_content_stream if ":stream" in path else models.generate_content
    config = {name: body[name] for name in ("tools", "systemInstruction") if name in body}
    model = path.rpartition("/")[2].partition(":")[0]
    _call(package, client, send, {"model": model, "contents": body["contents"], "config": config})


def _send_ollama(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Client(**options)
    _call(package, client, client.chat, body)


_SDKS = (
    Sdk("openai", "/chat/completions", "/chat/completions", _send_openai_chat),
    Sdk("openai", "/responses", "/responses", _send_openai_responses),
    Sdk("anthropic", "/messages", "/v1/messages", _send_anthropic),
    Sdk("google.genai", "enerateContent", "/v1/models/", _send_google, client_option="httpx_client"),
    Sdk("google.genai", "enerateContent", "/v1beta/models/", _send_google, client_option="httpx_client"),
    Sdk("ollama", "/api/chat", "/api/", _send_ollama, client_option="transport", url_option="host"),
)
