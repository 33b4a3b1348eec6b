"""What a connection takes, and what it refuses."""

import contextlib

import pytest

from offbook import serving
from offbook.wire.request import HttpRequest
from offbook.wire.server.connection import MAX_HELD_BYTES, REQUEST_LIMITS
from tests.wire.http_requests import call_of, decode
from tests.wire.raw_client import RawClient, ask, bytes_of, frames_in

CONTENT = "one two three four"
MODELS = HttpRequest("GET", "/v1/models", "", {}, b"")
H2C = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABk"}


@pytest.fixture(scope="module")
def server():
    with serving(responses={"a": {"content": CONTENT}}) as server:
        yield server


@pytest.fixture
def client(server):
    with RawClient(server.url) as client:
        yield client
    assert ask(server.url, call_of()).status == 200


def head(*lines):
    return "\r\n".join(["POST /v1/chat/completions HTTP/1.1", "host: localhost", *lines, "", ""]).encode("latin-1")


def with_headers(size):
    return HttpRequest("POST", "/v1/chat/completions", "", {"x-long": "x" * size}, call_of().body)


def test_long_headers_are_taken(client):
    assert client.ask(with_headers(REQUEST_LIMITS.header_bytes - 500)).status == 200


def test_headers_that_are_too_long_are_refused(client):
    response = client.ask(with_headers(REQUEST_LIMITS.header_bytes))
    assert response.status == 431
    assert response.headers["connection"] == "close"
    assert client.rest() == ("closed", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * REQUEST_LIMITS.url_bytes + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        head(*(f"x-{number}: y" for number in range(12_000))),
        head(*("x: y" for _ in range(REQUEST_LIMITS.header_count))),
    ],
    ids=["path", "size", "number"],
)
def test_all_of_a_head_counts(client, data):
    client.send(data)
    assert client.hear().status == (414 if data.startswith(b"GET") else 431)


def test_a_head_that_never_ends_is_refused(client):
    client.send(b"POST /v1/chat/completions HTTP/1.1\r\nx-long: ")
    end, data = "complete", b""
    try:
        for _ in range(200):
            client.send(b"x" * 8_192)
    except OSError:
        end = "reset"
    if end == "complete":
        end, data = client.rest()
    assert end in ("closed", "reset")
    assert not data or data.startswith(b"HTTP/1.1 431")


def test_each_call_of_a_connection_has_its_own_limit(client):
    for _ in range(3):
        assert client.ask(with_headers(REQUEST_LIMITS.header_bytes // 2)).status == 200


def test_a_head_may_come_byte_by_byte(client):
    for byte in bytes_of(call_of()):
        client.send(bytes([byte]))
    assert client.hear().status == 200


@pytest.mark.parametrize("call", [call_of(), call_of(stream=True), MODELS])
def test_a_request_to_upgrade_is_ignored(client, call):
    for _ in range(2):
        response = client.ask(HttpRequest(call.method, call.path, "", dict(H2C), call.body))
        assert response.status == 200
        assert response.end == "complete"


def test_a_body_may_speak_of_upgrades(client):
    client.send(bytes_of(call_of(text="\r\nupgrade: h2c\r\n")))
    assert client.hear().status == 200


def test_a_body_may_come_in_chunks(client):
    body = call_of().body
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:7], body[7:]))
    client.send(head("transfer-encoding: chunked") + pieces + b"0\r\n\r\n")
    assert client.hear().status == 200


def test_a_client_may_ask_whether_to_go_on(client):
    body = call_of().body
    client.send(head("expect: 100-continue", f"content-length: {len(body)}"))
    assert client.hear().status == 100
    client.send(body)
    assert decode(client.hear().body, is_streamed=False).content == CONTENT


def test_calls_that_are_sent_ahead_are_answered_in_order(client):
    calls = [call_of(model="a"), MODELS, call_of(model="b", stream=True), call_of(model="c")]
    client.send(b"".join(map(bytes_of, calls)))
    response = [client.hear() for _ in calls]
    assert [each.end for each in response] == ["complete"] * 4
    assert [
        b'"model":"%b"' % name in each.body for name, each in zip((b"a", b"data", b"b", b"c"), response, strict=True)
    ] == [True, False, True, True]


@pytest.mark.parametrize("stream", [False, True])
def test_an_old_client_is_told_the_length_and_sent_no_chunks(client, stream):
    client.send(bytes_of(call_of(stream=stream), version="1.0"))
    response = client.hear()
    assert "transfer-encoding" not in response.headers
    assert decode(response.body, is_streamed=stream).content == CONTENT
    assert client.rest() == ("closed", b"")


@pytest.mark.parametrize(("how", "end"), [("ConnectionError", "reset"), ("cut", "closed"), ("clean", "complete")])
def test_an_old_client_knows_a_cut_by_the_length(server, how, end):
    server.start_session("old", faults=[f"everywhere: stream_truncate 2 raise={how}"])
    with RawClient(server.session_url("old")) as client:
        client.send(bytes_of(call_of(stream=True), prefix=client.prefix, version="1.0"))
        response = client.hear()
    assert response.end == end
    assert len(frames_in(response.body)) == 2


def test_a_client_may_close_when_it_has_its_answer(client):
    call = call_of()
    response = client.ask(HttpRequest("POST", call.path, "", {"connection": "close"}, call.body))
    assert response.status == 200
    assert response.headers["connection"] == "close"
    assert client.rest() == ("closed", b"")


def test_a_head_is_answered_without_a_body(client):
    client.send(bytes_of(HttpRequest("HEAD", "/v1/models", "", {}, b"")))
    assert client.hear(is_head=True).body == b""
    assert client.ask(MODELS).status == 200


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
def test_other_methods_find_nothing(client, method):
    assert client.ask(HttpRequest(method, "/v1/chat/completions", "", {}, b"")).status == 404


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"BREW /v1/models HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/9.9\r\n\r\n",
        b"GET /v1/\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://api.openai.com HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT api.openai.com:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        head("content-length: -1"),
        head("content-length: 5", "transfer-encoding: chunked") + b"0\r\n\r\n",
        head("transfer-encoding: chunked") + b"zz\r\n",
        head("bad header"),
        b"POST http://[ HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(client, data):
    client.send(data)
    response = client.hear()
    assert response.status == 400
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../../etc/passwd",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/v1%2Fmodels%00",
        "/%00",
        "/%ff",
        "/\\..\\x",
        "//",
        "/s/../x",
    ],
)
def test_odd_paths_find_nothing(client, path):
    response = client.ask(HttpRequest("GET", path, "", {}, b""))
    assert response.status == 404
    assert b"root:" not in response.body


def test_a_path_may_be_a_whole_address(client):
    address = "http://localhost:80/v1/chat/completions"
    assert client.ask(HttpRequest("POST", address, "", {}, call_of().body)).status == 200


BODY = call_of().body


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        (["content-length: 5", "content-length: 5"], b"{}...", 400),
        (["content-length: 5, 5"], b"{}...", 400),
        (["content-length: +5"], b"{}...", 400),
        (["content-length : 5"], b"{}...", 400),
        (["content-length: 5", "transfer-encoding: chunked"], b"0\r\n\r\n", 400),
        (["transfer-encoding: chunked", "content-length: 5"], b"0\r\n\r\n", 400),
        (["transfer-encoding: chunked", "transfer-encoding: chunked"], b"0\r\n\r\n", 400),
        (["transfer-encoding: chunked, identity"], b"0\r\n\r\n", 400),
        (["transfer-encoding: gzip, chunked"], b"0\r\n\r\n", 501),
        (["transfer-encoding: xchunked"], b"0\r\n\r\n", 501),
        (["transfer-encoding:\x0bchunked"], b"0\r\n\r\n", 400),
        (["x: folded", " content-length: 5"], b"{}...", 400),
        (["x: bare\ncontent-length: 5"], b"{}...", 400),
        (["x: bare\rcontent-length: 5"], b"{}...", 400),
        (["x: nul\0"], b"", 400),
        (["transfer-encoding: chunked"], b"5 \r\n{}...\r\n0\r\n\r\n", 400),
        (["transfer-encoding: chunked"], b"5\n{}...\n0\n\n", 400),
        (["transfer-encoding: chunked"], b"0x5\r\n{}...\r\n0\r\n\r\n", 400),
        (["transfer-encoding: chunked"], b"-5\r\n", 400),
        (["transfer-encoding: chunked"], b"fffffffffffffffff5\r\n", 400),
        (["transfer-encoding: chunked"], b"5\r\n{}......\r\n0\r\n\r\n", 400),
    ],
)
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_what_follows_it_is_not_read(
    server, client, lines, body, status
):
    before = len(server.calls)
    client.send(head(*lines) + body + bytes_of(MODELS))
    assert client.hear().status == status
    assert client.rest() in [("closed", b""), ("reset", b"")]
    assert len(server.calls) == before


def test_chunks_may_have_extensions_and_trailers_which_change_nothing(server, client):
    server.start_session("smuggled")
    chunk = b'%x;a=b;c="d"\r\n%b\r\n' % (len(BODY), BODY)
    trailers = b"x-offbook-session: smuggled\r\nhost: evil.test\r\norigin: https://evil.test\r\n"
    client.send(head("transfer-encoding: chunked") + chunk + b"0\r\n" + trailers + b"\r\n")
    assert client.hear().status == 200
    assert not server.session("smuggled").calls


@pytest.mark.parametrize("endless", [b"5;a=" + b"x" * 8_192, b"0\r\nx: " + b"x" * 8_192], ids=["extension", "trailer"])
def test_what_surrounds_a_body_has_a_limit(client, endless):
    client.send(head("transfer-encoding: chunked") + endless)
    with contextlib.suppress(OSError):
        for _ in range(100):
            client.send(b"x" * 8_192)
    end, data = client.rest()
    assert end in ("closed", "reset")
    assert not data or data.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
def test_other_versions_are_refused(client, version):
    client.send(bytes_of(MODELS, version=version))
    assert client.hear().status in (400, 505)


@pytest.mark.parametrize("at", [10, 60, 100, 150, 200])
def test_a_request_to_upgrade_keeps_its_body_wherever_it_is_cut(client, at):
    call = call_of(text="whole")
    data = bytes_of(HttpRequest("POST", call.path, "", dict(H2C), call.body))
    client.send(bytes_of(call_of()) + data[:at])
    assert client.hear().status == 200
    client.send(data[at:] + data + bytes_of(MODELS))
    answers = [client.hear() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert b'"object":"list"' in answers[2].body.replace(b" ", b"")


def test_of_headers_that_come_twice_the_last_counts(server, client):
    server.start_session("twice")
    body = call_of().body
    client.send(head("x-offbook-session: once", "X-Offbook-Session: twice", f"content-length: {len(body)}") + body)
    assert client.hear().status == 200
    assert len(server.session("twice").calls) == 1


CONTENT_direct_connection = "word " * 20_000


@pytest.fixture(scope="module")
def server_direct_connection():
    with serving(responses={"a": {"content": CONTENT_direct_connection}, "b": {"content": "short"}}) as server:
        server.start_session("late", faults=["everywhere: stream_stall 1 for_ms=1"])
        yield server


@pytest.fixture
def client_direct_connection(server_direct_connection):
    with RawClient(server_direct_connection.url) as client:
        yield client


def short(text="Hi", **fields):
    return call_of(text=text, headers={"x-offbook-step": "b"}, **fields)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_due_at_once_comes_in_one_piece(client_direct_connection, stream):
    client_direct_connection.send(bytes_of(short(stream=stream)))
    data = client_direct_connection.socket.recv(65_536)
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"0\r\n\r\n" if stream else b"}")


@pytest.mark.parametrize("size", [MAX_HELD_BYTES - 1_000, MAX_HELD_BYTES + 1, 4 * MAX_HELD_BYTES])
def test_a_call_of_any_size_is_read_whole(server_direct_connection, client_direct_connection, size):
    text = "x" * size
    assert decode(client_direct_connection.ask(short(text)).body, is_streamed=False).content == "short"
    assert server_direct_connection.calls[-1].request.messages[0]["content"] == text


def test_a_client_that_sends_ahead_and_reads_late_gets_every_answer(client_direct_connection):
    calls = 200
    client_direct_connection.send(bytes_of(call_of(headers={"x-offbook-step": "a"})) * calls + bytes_of(short()))
    answers = [decode(client_direct_connection.hear().body, is_streamed=False).content for _ in range(calls + 1)]
    assert answers == [CONTENT_direct_connection] * calls + ["short"]


def test_answers_that_are_due_later_and_at_once_may_follow_each_other(server_direct_connection):
    with RawClient(server_direct_connection.session_url("late")) as client:
        for stream in (True, False, True):
            response = client.ask(short(stream=stream))
            assert decode(response.body, is_streamed=stream).content == "short"


def test_a_call_that_waits_for_its_body_is_not_answered_before(client_direct_connection):
    data = bytes_of(short())
    client_direct_connection.send(data[:-1])
    client_direct_connection.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client_direct_connection.socket.recv(1)
    client_direct_connection.socket.settimeout(5.0)
    client_direct_connection.send(data[-1:])
    assert client_direct_connection.hear().status == 200


def test_a_length_that_is_too_large_is_refused_before_anything_of_the_body_has_come(client):
    client.send(head(f"content-length: {REQUEST_LIMITS.body_bytes + 1}"))
    assert client.hear().status == 413
