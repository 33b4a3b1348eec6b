"""Who may ask."""

import pytest

from offbook.codecs.catalog import CODECS
from offbook.wire.access import Access
from offbook.wire.http_call import HttpCall
from offbook.wire.serving import serving
from tests.wire.calls import PROTOCOLS, call_of
from tests.wire.raw_client import ask

KEY = "the-right-key"


@pytest.fixture(scope="module")
def server():
    with serving(responses={"a": {"content": "x"}}, api_key=KEY) as server:
        yield server


def call(query="", **headers):
    return HttpCall("GET", "/v1/models", query, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


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
    assert Access(KEY).allows(carrying)


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
    assert not Access(KEY).allows(carrying)


def test_a_server_without_a_key_lets_everybody_ask():
    assert Access().allows(call())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("prefix", ["", "/s/mine"])
def test_a_wrong_key_is_refused_in_the_shape_of_the_vendor_and_never_told(server, protocol, prefix):
    headers = {"authorization": "Bearer hush-hush", "x-api-key": "hush-hush"}
    heard = ask(server.url + prefix, call_of(protocol, headers=headers))
    assert (heard.status, heard.headers["x-should-retry"]) == (401, "false")
    assert CODECS[protocol].decode_error(heard.body) == "the key is not the one of this server"
    assert b"hush" not in heard.body
    assert KEY.encode() not in heard.body
    assert not server.calls


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_keys_that_codecs_send_are_taken(server, protocol):
    headers = {name.lower(): value for name, value in CODECS[protocol].auth_headers(KEY).items()}
    allowed = ask(server.session_url("allowed"), call_of(protocol, headers=headers))
    assert allowed.status == 200
    server.start_session("allowed")


@pytest.mark.parametrize("path", ["/_offbook/health", "/_offbook/sessions", "/_offbook/sessions/x"])
def test_the_servers_own_endpoints_need_the_key_too(server, path):
    assert ask(server.url, HttpCall("GET", path, "", {}, b"")).status == 401
    assert ask(server.url, HttpCall("GET", path, "", {"x-api-key": KEY}, b"")).status != 401


def test_the_variables_for_clients_hold_the_key(server):
    assert server.env["OPENAI_API_KEY"] == server.env["ANTHROPIC_API_KEY"] == KEY
