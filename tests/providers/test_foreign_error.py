"""Errors of other libraries, translated to those of a failed model call."""

import asyncio
import errno
import http.client
import socket
import ssl
import urllib.error
from email.message import Message

import httpcore
import httpx
import httpx2
import pytest

from offbook.errors import (
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RecordingMismatchError,
    ToolFailureError,
    ToolTimeoutError,
)
from offbook.messages import Response, StreamedReply, StreamEnd, TextDelta, WholeReply
from offbook.providers.foreign_error import provider_error_of, translate_reply
from tests.fakes import events_of, read_until_broken

REQUEST = httpx.Request("POST", "http://model")


def status_error(status_code, **headers):
    response = httpx.Response(status_code, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("refused", request=REQUEST, response=response)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), ProviderTimeoutError),
        (httpx.ReadTimeout("slow"), ProviderTimeoutError),
        (httpx.PoolTimeout("slow"), ProviderTimeoutError),
        (httpx2.ConnectTimeout("slow"), ProviderTimeoutError),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ProviderConnectionError),
        (BrokenPipeError(), ProviderConnectionError),
        (OSError(errno.ENETUNREACH, "unreachable"), ProviderConnectionError),
        (OSError(errno.EHOSTUNREACH, "unreachable"), ProviderConnectionError),
        (socket.gaierror(socket.EAI_NONAME, "unknown name"), ProviderConnectionError),
        (ssl.SSLError("handshake"), ProviderConnectionError),
        (http.client.IncompleteRead(b""), ProviderConnectionError),
        (asyncio.IncompleteReadError(b"", 3), ProviderConnectionError),
        (urllib.error.URLError("refused"), ProviderConnectionError),
        (urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), ProviderConnectionError),
        (urllib.error.URLError(TimeoutError("slow")), ProviderTimeoutError),
        (httpcore.ReadTimeout("slow"), ProviderTimeoutError),
        (httpcore.ConnectError("refused"), ProviderConnectionError),
        (httpcore.RemoteProtocolError("closed"), ProviderConnectionError),
        (httpx.ConnectError("refused"), ProviderConnectionError),
        (httpx.RemoteProtocolError("closed"), ProviderConnectionError),
        (httpx2.ReadError("closed"), ProviderConnectionError),
        (httpx.DecodingError("not gzip"), MalformedResponseError),
        (httpx2.TooManyRedirects("again"), MalformedResponseError),
        (status_error(503), ProviderError),
        (status_error(429), RateLimitError),
        (urllib.error.HTTPError("http://model", 500, "down", Message(), None), ProviderError),
    ],
)
def test_a_failure_of_the_network_is_that_of_a_model_call(error, kind):
    failure = provider_error_of(error, provider="mine")
    assert type(failure) is kind
    assert str(failure).startswith("mine: ")
    assert type(error).__name__ in str(failure)


def test_every_transport_error_of_httpx_is_translated_but_a_wrong_request():
    for library in (httpx, httpx2):
        transport_errors = [
            kind
            for kind in vars(library).values()
            if isinstance(kind, type) and issubclass(kind, library.TransportError)
        ]
        refused = {kind for kind in transport_errors if provider_error_of(kind("x"), provider="mine") is None}
        assert refused == {library.UnsupportedProtocol, library.LocalProtocolError}


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_errors_of_the_vendors_sdks_are_translated(library):
    sdk = pytest.importorskip(library)
    timeout, broken = sdk.APITimeoutError(request=REQUEST), sdk.APIConnectionError(request=REQUEST)
    assert type(provider_error_of(timeout, provider="mine")) is ProviderTimeoutError
    assert type(provider_error_of(broken, provider="mine")) is ProviderConnectionError
    response = httpx.Response(429, headers={"retry-after": "3"}, request=REQUEST)
    limited = provider_error_of(sdk.RateLimitError("slow down", response=response, body=None), provider="mine")
    assert limited.status_code == 429
    assert limited.retry_after_s == 3.0


@pytest.mark.parametrize("library", ["requests", "aiohttp"])
def test_errors_of_other_http_libraries_are_translated(library):
    other = pytest.importorskip(library)
    broken = {"requests": "ConnectionError", "aiohttp": "ServerDisconnectedError"}[library]
    slow = {"requests": "ReadTimeout", "aiohttp": "ServerTimeoutError"}[library]
    assert type(provider_error_of(getattr(other, broken)(), provider="mine")) is ProviderConnectionError
    assert type(provider_error_of(getattr(other, slow)(), provider="mine")) is ProviderTimeoutError


def test_the_status_and_the_headers_are_kept():
    failure = provider_error_of(status_error(503, **{"retry-after": "7"}), provider="mine")
    assert failure.status_code == 503
    assert failure.headers["retry-after"] == "7"


def test_an_error_of_a_model_call_stays_itself():
    error = ProviderError("x", status_code=500)
    assert provider_error_of(error, provider="mine") is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a mistake"),
        FileNotFoundError(errno.ENOENT, "no prompt file"),
        OSError(errno.ENOSPC, "disk full"),
        httpx.UnsupportedProtocol("no scheme"),
        httpx.InvalidURL("no host"),
        ToolTimeoutError(tool="search", timeout_s=1.0),
        ToolFailureError("down", tool="http_get", status_code=500),
        RecordingMismatchError("missing", kind="missing"),
        asyncio.CancelledError(),
        GeneratorExit(),
    ],
)
def test_what_a_retry_cannot_mend_is_not_translated(error):
    assert provider_error_of(error, provider="mine") is None


async def broken_stream(error):
    yield TextDelta("Hel")
    raise error


async def test_a_stream_breaks_with_the_translated_error():
    seen, error = await read_until_broken(
        translate_reply(StreamedReply(broken_stream(httpx.ReadError("reset"))), provider="mine")
    )
    assert seen == [TextDelta("Hel")]
    assert type(error) is ProviderConnectionError
    assert isinstance(error.__cause__, httpx.ReadError)


async def test_a_mistake_inside_a_stream_passes_through():
    _, error = await read_until_broken(translate_reply(StreamedReply(broken_stream(KeyError("x"))), provider="mine"))
    assert isinstance(error, KeyError)


async def test_a_reply_that_has_arrived_stays_itself():
    reply = WholeReply(Response("Hi"))
    assert translate_reply(reply, provider="mine") is reply
    assert await events_of(reply) == [TextDelta("Hi"), StreamEnd(Response("Hi"))]


class CodedError(Exception):
    """An error of a library with codes of its own."""

    code = 404


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("unknown url type: htp"),
        urllib.error.URLError("no host given"),
        urllib.error.URLError(FileNotFoundError(errno.ENOENT, "no such file")),
        http.client.InvalidURL("nonnumeric port"),
        httpx.ResponseNotRead(),
        httpx.StreamConsumed(),
        httpx2.ResponseNotRead(),
        httpcore.LocalProtocolError("bad header"),
        httpcore.UnsupportedProtocol("htp"),
        CodedError("own"),
    ],
)
def test_a_mistake_of_the_caller_is_not_a_failure_of_the_network(error):
    assert provider_error_of(error, provider="mine") is None
