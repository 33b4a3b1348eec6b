"""The application between the connections and the sessions."""

import orjson
import pytest

from offbook import serving
from offbook.vendors import CODECS
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest
from offbook.wire.server.access import Access
from offbook.wire.server.connection import RequestLimits
from offbook.wire.server.wire_server import WireApp
from tests.wire.http_requests import EVERY_PROTOCOL, call_of
from tests.wire.raw_client import ask

LIMIT = 200


def scope_of(call):
    headers = [(name.encode(), value.encode()) for name, value in call.headers.items()]
    place = {"method": call.method, "path": call.path, "query_string": call.query.encode(), "headers": headers}
    return {"type": "http", "http_version": "1.1", **place}


async def messages_sent(call, *pieces, responses=None, **options):
    """What the application sends to a client whose body comes in these pieces; None is where it leaves."""
    app = WireApp(
        WireBackend(WireOptions(responses=responses or {}, **options)).sessions,
        access=Access(),
        limits=RequestLimits(body_bytes=LIMIT),
    )
    waiting, sent = list(pieces), []

    async def receive():
        piece = waiting.pop(0) if waiting else None
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    await app(scope_of(call), receive, send)
    return sent


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
async def test_a_body_that_is_too_large_is_refused_in_the_shape_of_the_vendor(protocol):
    call = call_of(protocol)
    too_large = [[b"x" * (LIMIT + 1)], [b"x" * LIMIT, b"x"], [b"x" * LIMIT, b"x", None]]
    for prefix, pieces in zip(["", "/s/mine", ""], too_large, strict=True):
        head, body = await messages_sent(type(call)("POST", prefix + call.path, "", {}, b""), *pieces)
        assert head["status"] == 413
        assert (b"x-should-retry", b"false") in head["headers"]
        assert CODECS[protocol].decode_error(body["body"]) == f"the body is larger than {LIMIT} bytes"


@pytest.mark.parametrize("size", [1, 10, 1_000])
async def test_a_body_may_come_in_pieces(size):
    body = call_of().body
    head, *_ = await messages_sent(call_of(), *(body[start : start + size] for start in range(0, len(body), size)))
    assert head["status"] == 200


@pytest.mark.parametrize("pieces", [[], [b"half", None], [b"", None]])
async def test_a_client_that_leaves_before_its_call_is_complete_is_sent_nothing(pieces):
    assert await messages_sent(call_of(), *pieces) == []


async def test_the_servers_own_endpoints_get_the_body_that_was_read():
    call = type(call_of())("PUT", "/_offbook/sessions/a", "", {}, b"")
    head, body = await messages_sent(call, b'{"faults": ', b'["call=1: timeout"]}')
    assert head["status"] == 201
    assert orjson.loads(body["body"])["unfired"] == ["call=1: timeout"]


async def test_what_fails_within_is_a_500_that_is_not_tried_again_and_reports_nothing(caplog):
    def on_call(call):
        raise RuntimeError("secret")

    head, body = await messages_sent(call_of(), call_of().body, on_call=on_call)
    assert head["status"] == 500
    assert (b"x-should-retry", b"false") in head["headers"]
    assert b"secret" not in body["body"]
    assert "could not be answered" in caplog.text


KEY = "the-right-key"


@pytest.fixture(scope="module")
def server():
    with serving(responses={"a": {"content": "x"}}, api_key=KEY) as server:
        yield server


def call(query="", **headers):
    return HttpRequest(
        "GET", "/v1/models", query, {name.replace("_", "-"): value for name, value in headers.items()}, b""
    )


@pytest.mark.parametrize(
    "carrying",
    [
        call(authorization=f"Bearer {KEY}"),
        call(authorization=f"bearer {KEY}"),
        call(x_api_key=KEY),
        call(x_goog_api_key=KEY),
        call(api_key=KEY),
        call(query=f"key={KEY}"),
        call(query=f"a=1&key={KEY}", x_api_key="other"),
    ],
)
def test_a_key_is_found_where_clients_put_it(carrying):
    assert Access(KEY).refusal(carrying.headers, carrying.query) is None


@pytest.mark.parametrize(
    "carrying",
    [
        call(),
        call(authorization=KEY),
        call(authorization=f"Bearer {KEY}x"),
        call(x_api_key=""),
        call(query="key="),
        call(x_other=KEY),
        call(x_api_key="é"),
    ],
)
def test_without_the_key_nobody_may_ask(carrying):
    assert Access(KEY).refusal(carrying.headers, carrying.query).status == 401


def test_a_server_without_a_key_lets_everybody_ask():
    assert Access().refusal({}, "") is None


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_wrong_key_is_refused_in_the_shape_of_the_vendor_and_never_repeated(server, protocol):
    headers = {"authorization": "Bearer hush-hush", "x-api-key": "hush-hush"}
    prefix = "/s/mine" if protocol in ("anthropic", "ollama") else ""
    response = ask(server.url + prefix, call_of(protocol, headers=headers))
    assert response.status == 401
    assert response.headers["x-should-retry"] == "false"
    assert CODECS[protocol].decode_error(response.body) == "the API key does not fit this server"
    assert b"hush" not in response.body
    assert KEY.encode() not in response.body
    assert not server.calls


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_the_keys_that_codecs_send_are_taken(server, protocol):
    headers = {name.lower(): value for name, value in CODECS[protocol].auth_headers(KEY).items()}
    allowed = ask(server.session_url("allowed"), call_of(protocol, headers=headers))
    assert allowed.status == 200
    server.start_session("allowed")


@pytest.mark.parametrize("path", ["/_offbook/health", "/_offbook/sessions", "/_offbook/sessions/x"])
def test_the_servers_own_endpoints_need_the_key_too(server, path):
    assert ask(server.url, HttpRequest("GET", path, "", {}, b"")).status == 401
    assert ask(server.url, HttpRequest("GET", path, "", {"x-api-key": KEY}, b"")).status != 401


def test_the_variables_for_clients_hold_the_key(server):
    assert server.env["OPENAI_API_KEY"] == server.env["ANTHROPIC_API_KEY"] == KEY


async def test_bodies_that_are_received_at_the_same_time_have_a_limit_together():
    responses = {"a": {"content": "x"}}
    app = WireApp(
        WireBackend(WireOptions(responses=responses)).sessions,
        access=Access(),
        limits=RequestLimits(body_bytes=1_000, all_bodies_bytes=1_500),
    )

    async def status_of(size, while_waiting=()):
        pieces, sent, waited = [b"x" * size, b""], [], []

        async def receive():
            if len(pieces) == 1:
                waited.extend([await each for each in while_waiting])
            piece = pieces.pop(0) if pieces else None
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message):
            sent.append(message)

        await app(scope_of(call_of()), receive, send)
        return [sent[0]["status"], *waited]

    assert await status_of(900, while_waiting=[status_of(500), status_of(700)]) == [400, [400], [503]]
    assert await status_of(900) == [400]


async def test_a_length_that_is_too_large_is_refused_before_the_body():
    call = HttpRequest("POST", "/v1/chat/completions", "", {"content-length": str(LIMIT + 1)}, b"")
    head, _ = await messages_sent(call)
    assert head["status"] == 413
