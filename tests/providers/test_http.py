"""The HTTP provider: what it sends, what it makes of every kind of answer, and that it lets go of connections."""

import asyncio
import gc
import gzip
import weakref
from datetime import UTC, datetime

import httpx2
import orjson
import pytest
from msgspec.structs import replace

from offbook.codecs.base import WireRequest
from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RequestError,
)
from offbook.messages import Response, StreamEnd, TextDelta, Usage
from offbook.providers.http import MAX_RESPONSE_BYTES, HttpOptions, HttpProvider
from offbook.providers.pricing import Price, PriceTable
from offbook.vendors import codec_of

CODEC = codec_of("openai_chat")
HI = [{"role": "user", "content": "Hi"}]
HELLO = Response(content="Hello there.", model="gpt-4o-2024-08-06", usage=Usage.of(1000, 100))
DELTAS = [TextDelta("Hello "), TextDelta("there.")]
MEGABYTE = b" " * 1024 * 1024


def whole(response=HELLO):
    return httpx2.Response(200, content=orjson.dumps(CODEC.encode_response(response)))


def frames(response=HELLO):
    return list(CODEC.encode_stream(response, DELTAS))


class Body(httpx2.AsyncByteStream):
    """An answer's body in pieces, which then ends or fails; tells whether it was let go of."""

    def __init__(self, pieces, error=None):
        self.pieces, self.error = pieces, error
        self.sent = 0
        self.closed = False

    async def __aiter__(self):
        for piece in self.pieces:
            self.sent += 1
            yield piece
        if self.error is not None:
            raise self.error

    async def aclose(self):
        self.closed = True


class SteppingClock:
    """A clock that is a quarter of a second later each time it is asked."""

    def __init__(self, now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)):
        self.now, self.seconds = now, 0.0

    def monotonic_s(self):
        self.seconds += 0.25
        return self.seconds

    def utc_now(self):
        return self.now

    async def sleep_s(self, delay_s):
        raise NotImplementedError


class Server:
    """Stands in for the network: keeps the requests and gives `answer` to each, or raises it."""

    def __init__(self, answer=None):
        self.answer = answer
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return whole() if self.answer is None else self.answer

    def provider(self, *, base_url="http://host/v1", headers=None, query=None, **options):
        http = HttpOptions(transport=httpx2.MockTransport(self), headers=headers or {}, query=query or {})
        return HttpProvider(options.pop("codec", CODEC), base_url=base_url, http=http, **options)


async def sent(server, *, extra=None, **options):
    """The one request that a provider with these options sends."""
    async with server.provider(**options) as provider:
        await provider.complete(HI, "gpt-4o", extra=extra or {})
    (request,) = server.requests
    return request


async def refusal(answer, **options):
    """The error that `answer` becomes."""
    async with Server(answer).provider(**options) as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.complete(HI, "gpt-4o")
    return caught.value


async def test_a_request_is_a_json_post():
    request = await sent(Server())
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert orjson.loads(request.content) == {"model": "gpt-4o", "messages": HI}


async def test_extra_parameters_go_into_the_body_as_they_are():
    request = await sent(Server(), extra={"seed": 7, "metadata": {"a": [1]}})
    assert orjson.loads(request.content) == {"model": "gpt-4o", "messages": HI, "seed": 7, "metadata": {"a": [1]}}


async def test_the_key_is_sent_the_way_of_the_protocol():
    assert (await sent(Server(), api_key="sk-1")).headers["authorization"] == "Bearer sk-1"


async def test_no_key_means_no_authorization():
    assert "authorization" not in (await sent(Server())).headers


async def test_own_headers_are_added_and_win():
    request = await sent(Server(), api_key="sk-1", headers={"Authorization": "Basic x", "x-team": "blue"})
    assert request.headers["authorization"] == "Basic x"
    assert request.headers["x-team"] == "blue"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("http://host/v1", "http://host/v1/chat/completions"),
        ("http://host/v1/", "http://host/v1/chat/completions"),
        ("http://host", "http://host/chat/completions"),
        ("https://host:8443/a/b", "https://host:8443/a/b/chat/completions"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1/chat/completions"),
    ],
)
async def test_the_path_is_put_behind_the_base_url(base_url, expected):
    assert str((await sent(Server(), base_url=base_url)).url) == expected


async def test_azure_is_a_base_url_with_a_query_and_a_header():
    request = await sent(
        Server(),
        base_url="https://my.openai.azure.com/openai/deployments/gpt-4o",
        query={"api-version": "2024-10-21"},
        headers={"api-key": "k"},
    )
    assert str(request.url) == (
        "https://my.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
    )
    assert request.headers["api-key"] == "k"


CODEC_WITH_QUERY = replace(
    CODEC, encode_request=lambda request: WireRequest("/generate?alt=sse", {"model": request.model})
)
"""A protocol whose path has a query of its own."""


async def test_the_query_of_the_protocol_and_that_of_the_user_are_both_sent():
    request = await sent(Server(), codec=CODEC_WITH_QUERY, query={"api-version": "1", "tag": "a b"})
    assert dict(request.url.params) == {"alt": "sse", "api-version": "1", "tag": "a b"}
    assert request.url.path == "/v1/generate"


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "host/v1",
        "ftp://host",
        "http://",
        "https:///v1",
        "http://host:port",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "http://ho st",
        " http://host",
        "http://host\n",
        "http://host/v1?api-version=1",
        "http://host/v1?",
        "http://host/#top",
    ],
)
def test_a_base_url_that_names_no_server_is_refused_at_once(base_url):
    with pytest.raises(InputError, match="base_url") as caught:
        HttpProvider(CODEC, base_url=base_url)
    assert repr(base_url) in str(caught.value)


async def test_a_base_url_that_only_the_http_client_refuses_is_bad_input_too():
    async with HttpProvider(CODEC, base_url="http://\udc80") as provider:
        with pytest.raises(InputError, match="base_url"):
            await provider.complete(HI, "gpt-4o")


@pytest.mark.parametrize("key", ["sk-1\n", "sk-1 ", "ключ", "a\tb", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_reported(key):
    with pytest.raises(InputError, match="header Authorization") as caught:
        HttpProvider(CODEC, base_url="http://host", api_key=key)
    assert key.strip() not in str(caught.value)


@pytest.mark.parametrize("value", [object(), {1, 2}, "\ud800", 2**70], ids=["object", "set", "surrogate", "big int"])
async def test_a_request_that_is_no_json_is_never_sent(value):
    server = Server()
    async with server.provider() as provider:
        with pytest.raises(RequestError, match="cannot be written as JSON"):
            await provider.complete(HI, "gpt-4o", extra={"x": value})
    assert server.requests == []


async def test_the_response_is_completed_with_what_only_the_provider_knows():
    prices = PriceTable({"gpt-4o": Price(prompt=2.5, completion=10.0)})
    async with Server().provider(name="mine", prices=prices, clock=SteppingClock()) as provider:
        response = await provider.complete(HI, "gpt-4o")
    assert response.provider == "mine"
    assert response.model == "gpt-4o-2024-08-06"
    assert response.cost_usd == pytest.approx(0.0035)
    assert response.latency_ms == 250.0
    assert response.content == "Hello there."


async def test_a_provider_without_a_name_has_that_of_its_protocol():
    async with Server().provider() as provider:
        assert (await provider.complete(HI, "gpt-4o")).provider == "openai_chat"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_names_no_model_comes_from_the_one_that_was_asked(stream):
    nameless = Response(content="Hello there.", usage=Usage.of(1000, 100))
    answer = httpx2.Response(200, content=b"".join(frames(nameless))) if stream else whole(nameless)
    async with Server(answer).provider() as provider:
        reply = await (provider.stream(HI, "gpt-4o") if stream else provider.complete(HI, "gpt-4o"))
        response = await reply.collect() if stream else reply
    assert response.model == "gpt-4o"
    assert response.cost_usd > 0


async def test_a_stream_gives_its_deltas_and_then_the_completed_response():
    prices = PriceTable({"gpt-4o": Price(prompt=2.5, completion=10.0)})
    server = Server(httpx2.Response(200, stream=Body(frames())))
    async with server.provider(name="mine", prices=prices, clock=SteppingClock()) as provider:
        *deltas, end = [event async for event in await provider.stream(HI, "gpt-4o")]
    assert deltas == DELTAS
    assert isinstance(end, StreamEnd)
    assert end.response.content == "Hello there."
    assert end.response.usage == HELLO.usage
    assert end.response.provider == "mine"
    assert end.response.latency_ms == 250.0
    assert end.response.cost_usd == pytest.approx(0.0035)
    assert orjson.loads(server.requests[0].content)["stream"] is True


async def test_a_last_event_without_its_blank_line_counts():
    body = b'data: {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}'
    async with Server(httpx2.Response(200, content=body)).provider() as provider:
        delta, end = [event async for event in await provider.stream(HI, "gpt-4o")]
    assert delta == TextDelta("Hello.")
    assert end.response.content == "Hello."


async def test_a_stream_is_read_no_faster_than_it_is_asked_for():
    body = Body(frames())
    async with Server(httpx2.Response(200, stream=body)).provider() as provider:
        reply = await provider.stream(HI, "gpt-4o")
        assert body.sent == 0
        async for event in reply:
            assert event == TextDelta("Hello ")
            break
        assert body.sent == 2
        await reply.aclose()


async def test_a_compressed_answer_is_read():
    content = gzip.compress(orjson.dumps(CODEC.encode_response(HELLO)))
    answer = httpx2.Response(200, content=content, headers={"content-encoding": "gzip"})
    async with Server(answer).provider() as provider:
        assert (await provider.complete(HI, "gpt-4o")).content == "Hello there."


@pytest.mark.parametrize("status_code", [201, 204, 302, 400, 401, 404, 408, 500, 502, 503, 529])
async def test_any_status_but_200_and_429_is_a_provider_error(status_code):
    body = b'{"error": {"message": "it broke"}}'
    error = await refusal(httpx2.Response(status_code, content=body, headers={"x-request-id": "r1"}), name="mine")
    assert type(error) is ProviderError
    assert error.status_code == status_code
    assert error.provider == "mine"
    assert error.body == body.decode()
    assert error.headers["x-request-id"] == "r1"
    assert str(error) == f"mine: HTTP {status_code}: it broke"


async def test_a_status_with_a_body_of_another_shape_reports_the_body():
    error = await refusal(httpx2.Response(502, content=b"<h1>Bad \xff gateway</h1>"))
    assert error.body == "<h1>Bad � gateway</h1>"
    assert "Bad" in str(error)


async def test_a_streamed_request_is_refused_before_its_first_event():
    async with Server(httpx2.Response(503, content=b"busy")).provider() as provider:
        with pytest.raises(ProviderError, match="HTTP 503"):
            await provider.stream(HI, "gpt-4o")


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({}, None),
        ({"retry-after": "30"}, 30.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "30"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "30"}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:35 GMT"}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 04:04:35 +0100"}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:00:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 01 Jul 2020 10:00:10 GMT", "date": "Wed, 01 Jul 2020 10:00:00 GMT"}, 10.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:35 GMT", "date": "today"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "32 Jan 2026"}, None),
        ({"retry-after": "1 Jan 99999999999999999999 00:00:00 GMT"}, None),
    ],
)
async def test_a_429_reports_how_long_to_wait_in_every_form(headers, expected_s):
    error = await refusal(httpx2.Response(429, headers=headers, content=b"slow"), clock=SteppingClock())
    assert isinstance(error, RateLimitError)
    assert error.status_code == 429
    assert error.retry_after_s == expected_s


async def test_an_answer_that_is_no_json_is_malformed():
    error = await refusal(httpx2.Response(200, content=b"<html>"), name="mine")
    assert isinstance(error, MalformedResponseError)
    assert error.raw == "<html>"
    assert error.provider == "mine"


async def test_an_answer_with_a_broken_encoding_is_malformed():
    error = await refusal(httpx2.Response(200, stream=Body([b"no gzip"]), headers={"content-encoding": "gzip"}))
    assert isinstance(error, MalformedResponseError)


@pytest.mark.parametrize("status_code", [200, 500])
async def test_an_answer_without_end_is_cut_off(status_code):
    count = MAX_RESPONSE_BYTES // len(MEGABYTE) + 1
    body = Body([MEGABYTE] * (count + 5))
    error = await refusal(httpx2.Response(status_code, stream=body))
    assert isinstance(error, MalformedResponseError)
    assert str(MAX_RESPONSE_BYTES) in str(error)
    assert body.sent == count
    assert body.closed


async def test_a_stream_without_end_is_cut_off():
    count = MAX_RESPONSE_BYTES // len(MEGABYTE) + 1
    body = Body([b":" + MEGABYTE[2:] + b"\n"] * (count + 5))
    async with Server(httpx2.Response(200, stream=body)).provider() as provider:
        with pytest.raises(MalformedResponseError, match=str(MAX_RESPONSE_BYTES)):
            await (await provider.stream(HI, "gpt-4o")).collect()
    assert body.sent == count
    assert body.closed


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (httpx2.ConnectError("refused"), ProviderConnectionError),
        (httpx2.ConnectTimeout("late"), ProviderTimeoutError),
        (httpx2.ReadError("reset"), ProviderConnectionError),
    ],
)
async def test_a_network_that_fails_before_the_answer_is_reported_as_our_error(failure, expected):
    error = await refusal(failure, name="mine")
    assert type(error) is expected
    assert error.provider == "mine"
    assert error.__cause__ is failure


async def test_a_body_that_breaks_off_is_a_broken_connection():
    body = Body([b'{"choices"'], httpx2.RemoteProtocolError("cut"))
    error = await refusal(httpx2.Response(200, stream=body))
    assert isinstance(error, ProviderConnectionError)
    assert body.closed


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (httpx2.RemoteProtocolError("cut"), ProviderConnectionError),
        (httpx2.ReadTimeout("silent"), ProviderTimeoutError),
        (None, ProviderConnectionError),
    ],
    ids=["cut", "silent", "ended early"],
)
async def test_a_stream_that_breaks_gives_its_events_and_then_our_error(failure, expected):
    body = Body(frames()[:2], failure)
    async with Server(httpx2.Response(200, stream=body)).provider(name="mine") as provider:
        events = aiter(await provider.stream(HI, "gpt-4o"))
        assert await anext(events) == TextDelta("Hello ")
        with pytest.raises(expected, match="mine") as caught:
            await anext(events)
    assert type(caught.value) is expected
    assert body.closed


async def test_an_error_inside_a_stream_bears_the_name_of_the_provider():
    body = Body([b'data: {"error": {"message": "overloaded"}}\n\n'])
    async with Server(httpx2.Response(200, stream=body)).provider(name="mine") as provider:
        with pytest.raises(ProviderError, match="mine: error inside the stream: overloaded"):
            await (await provider.stream(HI, "gpt-4o")).collect()
    assert body.closed


@pytest.mark.parametrize("read", [0, 1, 2])
async def test_a_reply_closed_early_lets_go_of_its_connection(read):
    body = Body(frames())
    async with Server(httpx2.Response(200, stream=body)).provider() as provider:
        reply = await provider.stream(HI, "gpt-4o")
        events = aiter(reply)
        for _ in range(read):
            await anext(events)
        assert not body.closed
        await reply.aclose()
        assert body.closed
        await reply.aclose()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_read_to_its_end_lets_go_of_its_connection(stream):
    body = Body(frames() if stream else [whole().content])
    async with Server(httpx2.Response(200, stream=body)).provider() as provider:
        reply = await (provider.stream(HI, "gpt-4o") if stream else provider.complete(HI, "gpt-4o"))
        if stream:
            await reply.collect()
        assert body.closed


async def test_a_reader_that_is_cancelled_lets_go_of_its_connection():
    class Silent(Body):
        async def __aiter__(self):
            yield frames()[0]
            await asyncio.get_running_loop().create_future()

    body = Silent([])
    async with Server(httpx2.Response(200, stream=body)).provider() as provider:
        reader = asyncio.create_task((await provider.stream(HI, "gpt-4o")).collect())
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    assert body.closed


class CountingTransport(httpx2.MockTransport):
    """Counts how often it is closed."""

    closed = 0

    async def aclose(self):
        self.closed += 1


async def test_closing_closes_the_client_once():
    transport = CountingTransport(lambda _: whole())
    provider = HttpProvider(CODEC, base_url="http://host", http=HttpOptions(transport=transport))
    await provider.close()
    assert transport.closed == 0
    await provider.complete(HI, "gpt-4o")
    await provider.close()
    await provider.close()
    assert transport.closed == 1


def test_a_provider_keeps_no_loop_that_has_ended():
    provider = Server().provider()

    async def ask():
        await provider.complete(HI, "gpt-4o")
        return weakref.ref(asyncio.get_running_loop())

    first, _ = asyncio.run(ask()), asyncio.run(ask())
    gc.collect()
    assert first() is None


async def test_a_closed_provider_can_be_used_again():
    async with Server().provider() as provider:
        await provider.close()
        assert (await provider.complete(HI, "gpt-4o")).content == "Hello there."
