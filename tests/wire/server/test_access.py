"""Who may use a server: by Host and by Origin."""

import pytest

from offbook import serving
from offbook.errors import InputError
from offbook.wire.backend import MAX_SESSION_NAME_CHARS
from offbook.wire.request import HttpRequest
from offbook.wire.server.access import Access
from tests.wire.http_requests import call_of
from tests.wire.raw_client import RawClient, ask

HOSTS = [
    "localhost",
    "LOCALHOST:80",
    "a.localhost",
    "127.0.0.1:4010",
    "127.9.9.9",
    "[::1]:1",
    "localhost.",
    "[::ffff:127.0.0.1]",
]
FOREIGN_HOSTS = [
    *("evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "notlocalhost", "192.168.0.1", "[::2]", "0.0.0.0"),
    *(
        "localhost@evil.test",
        "evil.test:80@localhost",
        "localhost:80:80",
        "local host",
        "127.1",
        "2130706433",
        "[::1",
        "/",
    ),
]
FOREIGN_ORIGINS = ["https://evil.test", "http://localhost.evil.test", "null", "file://localhost", "http://[", "evil"]
CONTROL = HttpRequest("GET", "/_offbook/sessions", "", {}, b"")


def status(access, **headers):
    refusal = access.refusal({name.replace("_", "-"): value for name, value in headers.items()}, "")
    return 200 if refusal is None else refusal.status


@pytest.fixture(scope="module")
def server():
    with serving(responses={"a": {"content": "x"}}) as server:
        yield server


@pytest.mark.parametrize("host", HOSTS)
def test_names_of_this_machine_are_accepted(host):
    access = Access()
    assert [status(access, host=host) for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_name_that_may_have_been_rebound_is_refused(host):
    assert status(Access(), host=host) == 403


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("agent.test", "Agent.Test:80", 200),
        ("agent.test", "x.agent.test", 403),
        ("*.agent.test", "x.y.agent.test", 200),
        ("*.agent.test", "agent.test", 403),
        ("*.agent.test", "evilagent.test", 403),
        ("192.168.0.1", "192.168.0.1:4010", 200),
        ("[fe80::1]", "[fe80::1]:80", 200),
        ("*", "anything.test", 200),
    ],
)
def test_a_host_can_be_allowed(allowed, host, expected):
    assert status(Access(hosts=[allowed]), host=host) == expected


def test_the_host_that_a_server_listens_at_is_accepted():
    assert status(Access(bound_to="192.168.0.1"), host="192.168.0.1:80") == 200
    assert status(Access(bound_to="192.168.0.1"), host="192.168.0.2:80") == 403


@pytest.mark.parametrize("bound_to", ["0.0.0.0", "::"])
def test_on_all_interfaces_addresses_are_accepted_and_names_are_not(bound_to):
    hosts = ["192.168.0.1:80", "[fe80::1]", "localhost", "0.0.0.0:80", "build.test"]
    assert [status(Access(bound_to=bound_to), host=host) for host in hosts] == [200, 200, 200, 200, 403]
    assert "-o allow_hosts=build.test" in Access(bound_to=bound_to).refusal({"host": "build.test"}, "").message


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80", "http://app.localhost"]
)
def test_pages_of_this_machine_may_use_the_server(origin):
    assert status(Access(), host="localhost", origin=origin) == 200
    assert status(Access(), host="localhost", origin=origin, sec_fetch_site="cross-site") == 200


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_pages_of_other_sites_may_not_use_the_server(origin):
    assert status(Access(), host="localhost", origin=origin) == 403
    assert status(Access(bound_to="0.0.0.0"), host="10.0.0.1", origin=origin) == 403


@pytest.mark.parametrize(
    ("site", "expected"), [("cross-site", 403), ("same-site", 200), ("same-origin", 200), ("none", 200)]
)
def test_a_browser_says_whether_another_site_asks(site, expected):
    assert status(Access(), host="localhost", sec_fetch_site=site) == expected


@pytest.mark.parametrize("allowed", ["https://App.test", "*"])
def test_an_origin_can_be_allowed(allowed):
    access = Access(origins=[allowed])
    assert status(access, host="localhost", origin="https://app.test", sec_fetch_site="cross-site") == 200
    assert status(access, host="localhost", origin="https://other.test") == (200 if allowed == "*" else 403)


@pytest.mark.parametrize("hosts", ["http://a.test", "a.test:80", "", "a b", "a*.test"])
def test_what_is_not_a_host_is_refused(hosts):
    with pytest.raises(InputError, match="expected a host"):
        Access(hosts=[hosts])


@pytest.mark.parametrize("origins", ["a.test", "https://a.test/path", ""])
def test_what_is_not_an_origin_is_refused(origins):
    with pytest.raises(InputError, match="expected an origin"):
        Access(origins=[origins])


@pytest.mark.parametrize(
    "call", [CONTROL, call_of(), call_of(stream=True), HttpRequest("GET", "/v1/models", "", {}, b"")]
)
@pytest.mark.parametrize("headers", [{"host": "evil.test"}, {"origin": "https://evil.test"}])
def test_a_foreign_page_reads_nothing_and_uses_nothing_up(server, call, headers):
    before = len(server.calls)
    response = ask(server.url, HttpRequest(call.method, call.path, "", {**call.headers, **headers}, call.body))
    assert response.status == 403
    assert b"evil.test" in response.body
    assert len(server.calls) == before


@pytest.mark.parametrize("target", ["http://evil.test/_offbook/sessions", "https://evil.test:80/v1/models"])
def test_the_host_of_a_whole_address_counts(server, target):
    assert ask(server.url, HttpRequest("GET", target, "", {}, b"")).status == 403
    local = target.replace("evil.test", "localhost")
    assert ask(server.url, HttpRequest("GET", local, "", {"host": "evil.test"}, b"")).status == 200


@pytest.mark.parametrize(
    "hosts", ["", "host: localhost\r\nhost: localhost\r\n", "host: localhost\r\nHost: evil.test\r\n"]
)
def test_a_request_names_one_host(server, hosts):
    with RawClient(server.url) as client:
        client.send(f"GET /v1/models HTTP/1.1\r\n{hosts}\r\n".encode())
        assert client.hear().status == 400


def test_the_name_of_a_session_has_a_limit(server):
    for size, expected in ((MAX_SESSION_NAME_CHARS, 200), (MAX_SESSION_NAME_CHARS + 1, 400)):
        assert ask(server.url, call_of(headers={"x-offbook-session": "s" * size})).status == expected
