"""The proxy of a run: it is the hosts that it intercepts, passes others on untouched, and serves nobody else."""

import socket
import ssl
import time

import pytest

from tests.servers.loopback import PATIENCE_S, LoopbackServer
from tests.servers.models import chat_answer
from tests.wire.http_requests import call_of
from tests.wire.intercept.conftest import RESPONSES, EchoServer, TlsClient, connect_head, credentials, intercepting
from tests.wire.raw_client import RawClient, ask, bytes_of

OPENAI = "api.openai.com"


def until(holds):
    """Wait until something holds that another thread brings about."""
    late = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < late, "it does not come"
        time.sleep(0.002)


@pytest.mark.parametrize("host", [OPENAI, "api.anthropic.com", "my.openai.azure.com", "llm.test"])
def test_a_known_host_is_answered_in_tls(proxy, host):
    with TlsClient(*proxy, host) as client:
        assert client.socket.selected_alpn_protocol() == "http/1.1"
        for _ in range(2):
            assert b"one two" in client.ask(call_of(headers={"host": host})).body


def test_streams_arrive_in_tls_and_the_connection_stays(proxy):
    with TlsClient(*proxy, OPENAI) as client:
        heard = client.ask(call_of(headers={"host": OPENAI}, stream=True))
        assert heard.end == "complete"
        assert heard.body.endswith(b"data: [DONE]\n\n")
        assert client.ask(call_of(headers={"host": OPENAI})).status == 200


@pytest.mark.parametrize(
    "given", ["", "Basic", "Basic !!!", "Basic b2ZmYm9vazp3cm9uZw==", "Bearer x", "Basic \xff\xfe", "Digest a=b"]
)
def test_nothing_is_signed_for_who_did_not_come_through_the_run(given):
    with intercepting() as (server, interception), RawClient(server.url) as client:
        interception.authority.context_for = lambda host: pytest.fail(f"signed for {host}")
        head = f"CONNECT {OPENAI}:443 HTTP/1.1\r\nhost: {OPENAI}\r\n"
        head += f"proxy-authorization: {given}\r\n" if given else ""
        client.send(f"{head}\r\n".encode("latin-1"))
        heard = client.hear()
        assert heard.status == 407
        assert heard.headers["proxy-authenticate"] == 'Basic realm="offbook"'
        assert client.rest() == ("closed", b"")
        assert not interception.passed


def test_a_stranger_passes_to_no_other_host_either(proxy):
    server, _ = proxy
    with LoopbackServer() as other, RawClient(server.url) as client:
        client.send(f"GET {other.url}/ HTTP/1.1\r\nhost: {other.host}\r\n\r\n".encode())
        assert client.hear().status == 407
        assert not other.calls


def test_another_host_is_a_tunnel_that_changes_no_byte(proxy):
    server, interception = proxy
    data = bytes(range(256)) * 4_000
    with EchoServer() as other, RawClient(server.url) as client:
        client.send(connect_head(f"127.0.0.1:{other.port}", credentials(interception)))
        assert client.hear().status == 200
        client.send(data)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest() == ("closed", data + b"bye")
    assert interception.passed[f"127.0.0.1:{other.port}"] == 1


def test_a_plain_request_to_another_host_passes(proxy):
    server, interception = proxy
    with LoopbackServer(b'{"a": 1}') as other, RawClient(server.url) as client:
        head = f"POST {other.url}/x?y=1 HTTP/1.1\r\nhost: {other.host}\r\ncontent-length: 2\r\nx-own: 1\r\n"
        client.send(f"{head}proxy-authorization: {credentials(interception)}\r\n\r\nhi".encode())
        assert client.hear().body == b'{"a": 1}'
        (received,) = other.calls
        assert received.path == "/x?y=1"
        assert received.body == b"hi"
        assert received.headers["x-own"] == "1"
        assert "proxy-authorization" not in received.headers


def test_a_plain_request_to_a_known_host_is_answered(proxy):
    server, interception = proxy
    call = call_of(headers={"host": "llm.test", "proxy-authorization": credentials(interception)})
    with RawClient(server.url) as client:
        client.send(bytes_of(call, prefix="http://llm.test"))
        assert b"one two" in client.hear().body
        assert client.rest() == ("closed", b"")


def test_a_head_may_come_in_pieces(proxy):
    server, interception = proxy
    with EchoServer() as other, RawClient(server.url) as client:
        for byte in connect_head(f"127.0.0.1:{other.port}", credentials(interception)):
            client.send(bytes([byte]))
        assert client.hear().status == 200
    assert ask(server.url, call_of()).status == 200


@pytest.mark.parametrize("target", ["nohost", "a:0", "a:99999", "a b:1", ":443", "[::1", "ä:1", "a:1/x", "a@b:1"])
def test_a_target_that_is_no_host_is_refused(proxy, target):
    server, interception = proxy
    with RawClient(server.url) as client:
        client.send(connect_head(target, credentials(interception)))
        assert client.hear().status == 400


def test_who_does_not_wait_for_the_answer_to_connect_is_refused(proxy):
    server, interception = proxy
    with RawClient(server.url) as client:
        client.send(connect_head(f"{OPENAI}:443", credentials(interception)) + b"\x16\x03\x01")
        assert client.hear().status == 400


def test_blocked_hosts_are_refused_and_counted_and_this_machine_is_not():
    with intercepting(blocks=True) as (server, interception):
        with RawClient(server.url) as client:
            client.send(connect_head("example.org:443", credentials(interception)))
            heard = client.hear()
            assert heard.status == 403
            assert b"block_network" in heard.body
        with LoopbackServer() as other, RawClient(server.url) as client:
            client.send(connect_head(other.host, credentials(interception)))
            assert client.hear().status == 200
        assert interception.tally.refused == {"example.org:443": 1}
        with TlsClient(server, interception, OPENAI) as client:
            assert client.ask(call_of(headers={"host": OPENAI})).status == 200


def test_a_host_that_cannot_be_reached_is_a_502(proxy):
    server, interception = proxy
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with RawClient(server.url) as client:
        client.send(connect_head(f"127.0.0.1:{port}", credentials(interception)))
        assert client.hear().status == 502


def test_a_client_that_does_not_trust_the_authority_is_counted():
    with intercepting() as (server, interception), RawClient(server.url) as client:
        client.send(connect_head(f"{OPENAI}:443", credentials(interception)))
        assert client.hear().status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(client.socket, server_hostname=OPENAI)
        until(lambda: interception.tally.distrusted == {f"{OPENAI}:443": 1})


def test_a_client_of_http2_alone_fails_clearly(proxy):
    with TlsClient(*proxy, OPENAI, alpn=["h2"]) as client:
        assert client.socket.selected_alpn_protocol() is None
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert client.hear().status in (400, 505)


def test_the_user_of_the_proxy_is_the_session(proxy):
    server, interception = proxy
    with TlsClient(server, interception, OPENAI, user="run%2F7") as client:
        client.ask(call_of(headers={"host": OPENAI}))
    assert [call.session for call in server.session("run/7").calls] == ["run/7"]


def test_calls_are_recorded_from_where_they_were_sent(tmp_path):
    with LoopbackServer(chat_answer("real")) as real:
        hosts = f"llm.test={real.url}"
        with intercepting(hosts, record=tmp_path / "run.json") as (server, interception):
            call = call_of(headers={"host": "llm.test", "authorization": "Bearer sk-own"})
            call = type(call)(call.method, f"/openai{call.path}", "", call.headers, call.body)
            with TlsClient(server, interception, "llm.test") as client:
                assert b"real" in client.ask(call).body
        (received,) = real.calls
    assert received.path == "/openai/chat/completions"
    assert received.headers["authorization"] == "Bearer sk-own"
    assert b"sk-own" not in (tmp_path / "run.json").read_bytes()
    with intercepting("llm.test", recording=tmp_path / "run.json") as opened, TlsClient(*opened, "llm.test") as client:
        assert b"real" in client.ask(call).body


def test_the_address_that_is_set_for_a_vendor_is_asked_in_the_place_of_its_host(tmp_path):
    with LoopbackServer(chat_answer("real")) as real:
        options = {"record": tmp_path / "run.json", "upstreams": {"openai": f"{real.url}/v1"}}
        with intercepting(**options) as (server, interception), TlsClient(server, interception, OPENAI) as client:
            assert b"real" in client.ask(call_of(headers={"host": OPENAI})).body
        assert [received.path for received in real.calls] == ["/v1/chat/completions"]


def test_other_hosts_are_reached_through_the_proxy_of_the_machine():
    with intercepting() as (outer, through), EchoServer() as other:
        inner = outer.url.removeprefix("http://")
        variable = {"https_proxy": f"http://offbook:{through.token}@{inner}"}
        with intercepting(environment=variable) as (server, interception), RawClient(server.url) as client:
            client.send(connect_head(f"127.0.0.1:{other.port}", credentials(interception)))
            assert client.hear().status == 200
            client.send(b"hello")
            client.socket.shutdown(socket.SHUT_WR)
            assert client.rest() == ("closed", b"hellobye")
        assert through.passed[f"127.0.0.1:{other.port}"] == 1


def test_a_reset_is_one_in_tls_too():
    faults = ["call=1: connection_reset"]
    with intercepting(responses=RESPONSES, faults=faults) as opened, TlsClient(*opened, OPENAI) as client:
        client.send(bytes_of(call_of(headers={"host": OPENAI})))
        with socket.socket(fileno=client.socket.detach()) as raw:
            raw.settimeout(PATIENCE_S)
            with pytest.raises(ConnectionResetError):
                list(iter(lambda: raw.recv(65536), b""))


def test_a_server_with_open_tunnels_and_handshakes_stops():
    with EchoServer() as other:
        with intercepting() as (server, interception):
            tunnel, handshake = RawClient(server.url), RawClient(server.url)
            for client, target in ((tunnel, f"127.0.0.1:{other.port}"), (handshake, f"{OPENAI}:443")):
                client.send(connect_head(target, credentials(interception)))
                assert client.hear().status == 200
        for client in (tunnel, handshake):
            assert client.rest()[0] in ("closed", "reset")
            client.socket.close()
