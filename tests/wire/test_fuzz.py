"""Whatever comes over a connection, the server answers or refuses it, and goes on."""

import json
import logging
import re
import socket
import ssl
from base64 import b64encode
from contextlib import suppress

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offbook import serving
from offbook.wire.intercept.interception import InterceptedHosts, Interception
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest
from offbook.wire.server.wire_server import WireServer
from tests.wire.http_requests import (
    EVERY_PROTOCOL,
    PROMPT_PROTOCOLS,
    TOOL,
    answer_to,
    call_of,
    entry_of,
    http_call,
    request_of,
    session_of,
)
from tests.wire.raw_client import RawClient, ask, bytes_of

LOGGERS = ("offbook.wire", "offbook.wire.http", "asyncio")
PATHS = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent",
    "/api/chat",
    "/api/generate",
    "/v1/completions",
    "/v1/embeddings",
    "/v1beta/models/m:batchEmbedContents",
    "/v1beta/models/m:embedContent",
    "/v1beta/models/m:countTokens",
    "/api/embed",
    "/api/embeddings",
    "/api/show",
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
    "/v1/models",
    "/_offbook/sessions/x",
    "/s/x/v1/chat/completions",
    "/",
]
words = re.compile(r"\w+").findall
NAMES = words(
    "role content parts text type tool_calls function name arguments id input output functionCall args call_id "
    "tool_use_id functionResponse response source inlineData data"
)
FIELDS = words(
    "messages model input contents tools stream temperature max_tokens tool_choice system instructions "
    "generationConfig requests content prompt options faults stream_options"
)
LINES = [
    "call=1: http_error 500",
    "call=2: stream_truncate 1 raise=clean",
    "call=3: empty_response",
    "call=4: slow_drip 0",
]


def call_with_tools(protocol):
    """A call with tools, where the protocol has some."""
    return call_of(protocol) if protocol in PROMPT_PROTOCOLS else call_of(protocol, tools=(TOOL,))


texts = st.text(max_size=8) | st.sampled_from(["user", "tool", "assistant", "m", "text", "image", "\ud800", "\0"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=4), max_size=3)
fields = st.dictionaries(st.sampled_from(FIELDS), values | objects, max_size=5)
bodies = st.sampled_from(EVERY_PROTOCOL).flatmap(
    lambda protocol: fields.map(lambda changed: as_json(orjson.loads(call_with_tools(protocol).body) | changed))
)
heads = st.sampled_from(
    [
        b"POST /v1/chat/completions HTTP/1.1\r\n",
        b"GET /v1/models HTTP/1.1\r\n",
        b"PUT /_offbook/sessions/x HTTP/1.1\r\n",
        b"BREW /pot HTTP/1.1\r\n",
        b"POST /%00%ff/\\ HTTP/1.0\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"POST http://[::1 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
)
header_lines = st.sampled_from(
    [
        b"host: localhost\r\n",
        b"transfer-encoding: chunked\r\n",
        b"content-length: 5\r\n",
        b"content-length: 99999999999999999999\r\n",
        b"expect: 100-continue\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\n",
        b"connection: close\r\n",
        b"x: " + b"y" * 70_000 + b"\r\n",
        b": nameless\r\n",
        b" folded\r\n",
        b"x-stainless-retry-count: -1\r\n",
        b"x-offbook-session: \xff\r\n",
        b"x-offbook-step: a\r\n",
        b"content-type: multipart/form-data; boundary=\r\n",
    ]
)
chunks = st.sampled_from(
    [b"5\r\nhello\r\n", b"0\r\n\r\n", b"zz\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"5;a=b\r\nhel", b"\r\n"]
)
nonsense = st.builds(
    lambda head, lines, body: head + b"".join(lines) + b"\r\n" + b"".join(body),
    heads,
    st.lists(header_lines, max_size=4),
    st.lists(chunks | st.binary(max_size=9), max_size=4),
)


def as_json(value):
    """JSON as clients without scruples write it: with lone surrogates, and numbers that are none."""
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def errors():
    """What the server logs as errors."""
    records = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = records.append
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    yield records
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)


@pytest.fixture(scope="module")
def server(errors):
    with serving(responses={"a": {"content": "one two"}, "b": [entry_of(call_of(), content="x")]}) as server:
        yield server
        assert ask(server.url, call_of()).status == 200
        assert not errors, [record.getMessage() for record in errors]


def response_to(server, data):
    """All that comes back when these bytes are all that is sent."""
    with RawClient(server.url) as client:
        try:
            client.send(data)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return b""
        return client.rest()[1]


def check(server, errors, data):
    response = response_to(server, data)
    assert b"Traceback" not in response
    assert b"Internal Server Error" not in response
    assert not errors, [record.getMessage() for record in errors]


over_a_socket = settings(max_examples=30)


@over_a_socket
@given(st.binary(max_size=200))
def test_random_bytes_do_no_harm(server, errors, data):
    check(server, errors, data)


@over_a_socket
@given(nonsense, st.sampled_from([b"", bytes_of(call_of())]))
@example(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 0\r\n\r\n" * 500, b"")
@example(bytes_of(call_of(stream=True)) * 50, b"garbage")
def test_nonsense_in_the_shape_of_http_does_no_harm(server, errors, data, ahead):
    check(server, errors, ahead + data)


@over_a_socket
@given(st.sampled_from(EVERY_PROTOCOL), st.data())
def test_a_call_that_is_cut_or_garbled_does_no_harm(server, errors, protocol, data):
    whole = bytes_of(http_call(protocol, request_of(stream=data.draw(st.booleans()))))
    start = data.draw(st.integers(0, len(whole) - 1))
    check(
        server, errors, whole[:start] + data.draw(st.binary(max_size=5)) + whole[start + data.draw(st.integers(0, 9)) :]
    )


@over_a_socket
@given(
    st.sampled_from(["POST", "GET", "PUT", "HEAD", "DELETE", "OPTIONS"]),
    st.sampled_from(PATHS),
    bodies | st.binary(max_size=20),
)
def test_bodies_of_any_shape_are_answered_or_refused(server, errors, method, path, body):
    with RawClient(server.url) as client:
        client.send(bytes_of(HttpRequest(method, path, "", {}, body)))
        response = client.hear(is_head=method == "HEAD")
        assert response.status in (200, 201, 204, 400, 404, 405)
        assert response.end == "complete"
        client.send(bytes_of(call_of()))
        assert client.hear().status == 200
    assert not errors, [record.getMessage() for record in errors]


@given(st.sampled_from(PATHS), bodies, st.booleans(), st.booleans())
def test_no_body_fails_a_session(path, body, strict, has_fault):
    recording = {
        "_version": 2,
        "a": {"content": "x", "tool_calls": [{"name": "t"}]},
        "b": entry_of(call_of(), content="y"),
    }
    rules = {"_meta": {"normalise": {"mask": ["x+"], "ignore": ["messages[*].content.id"], "whitespace": True}}}
    session = session_of(recording | rules, strict=strict, faults=LINES if has_fault else ())
    for headers in ({}, {"x-offbook-step": "b"}, {"x-offbook-step": "nowhere"}):
        answer = answer_to(session, HttpRequest("POST", path, "", headers, body))
        assert answer.status in (200, 400, 404, 422, 500 if has_fault else 200)


@pytest.mark.parametrize("path", PATHS)
def test_deep_nesting_does_no_harm(server, errors, path):
    start = b'{"model": "m", "messages": [{"role": "user", "content": 1}], '
    for depth in (200, 300, 990, 1_100, 100_000):
        nested = b"[" * depth + b"]" * depth
        for name in (b"messages", b"input", b"contents", b"content"):
            call = HttpRequest("POST", path, "", {}, start + b'"%b": %b}' % (name, nested))
            assert ask(server.url, call).status in (200, 400, 404, 405)
    assert not errors, [record.getMessage() for record in errors]


targets = st.sampled_from(
    [
        b"api.openai.com:443",
        b"127.0.0.1:1",
        b"[::1]:1",
        b"a",
        b"a:0",
        b"a:65536",
        b"[::",
        b"*",
        b"\xff:1",
        b"." * 300 + b":1",
    ]
) | st.binary(max_size=20)
proxied_lines = st.sampled_from(
    [b"proxy-authorization: Basic %b\r\n", b"proxy-authorization: Basic =\r\n", b"host: a\r\n", b"x\r\n", b": y\r\n"]
)
proxied = st.builds(
    lambda start, target, end, lines, rest: start + target + end + b"".join(lines) + b"\r\n" + rest,
    st.sampled_from([b"CONNECT ", b"GET http://", b"POST http://", b"GET https://", b"connect ", b"CONNECT  "]),
    targets,
    st.sampled_from([b" HTTP/1.1\r\n", b"/x HTTP/1.1\r\n", b" HTTP/2.0\r\n", b"\r\n", b" HTTP/1.1\n"]),
    st.lists(proxied_lines, max_size=3),
    st.binary(max_size=20) | st.just(bytes_of(call_of())),
)


@pytest.fixture(scope="module")
def intercepting(errors):
    interception = Interception(InterceptedHosts(["llm.test"]), blocks_network=True)
    with WireServer(WireOptions(responses={"a": {"content": "x"}}), interception=interception) as server:
        yield server, b64encode(f"offbook:{interception.token}".encode()), interception.authority
        assert ask(server.url, call_of()).status == 200


@over_a_socket
@given(proxied)
def test_nonsense_to_a_proxy_does_no_harm(intercepting, errors, data):
    server, credentials, _ = intercepting
    check(server, errors, data.replace(b"%b", credentials))


@over_a_socket
@given(nonsense, st.integers(0, 300), st.binary(max_size=5))
def test_nonsense_in_and_instead_of_tls_does_no_harm(intercepting, errors, data, cut, garbage):
    server, credentials, authority = intercepting
    head = b"CONNECT llm.test:443 HTTP/1.1\r\nhost: a\r\nproxy-authorization: Basic %b\r\n\r\n" % credentials
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=authority.pem.decode())
    client_side = context.wrap_bio(incoming, outgoing, server_hostname="llm.test")
    with suppress(ssl.SSLWantReadError):
        client_side.do_handshake()
    hello = outgoing.read()
    for sent in (hello[:cut] + garbage + hello[cut:], data, b""):
        with RawClient(server.url) as client:
            client.send(head)
            assert client.hear().status == 200
            with suppress(OSError):  # what is no TLS is cut off, maybe before it has arrived
                client.send(sent)
                client.socket.shutdown(socket.SHUT_WR)
                client.rest()
    with RawClient(server.url) as client, suppress(OSError):
        client.send(head)
        assert client.hear().status == 200
        client.socket = context.wrap_socket(client.socket, server_hostname="llm.test")
        client.send(data)
        client.socket.unwrap()
    assert not errors, [record.getMessage() for record in errors]
