"""Whatever clients send to the proxy of a run, before and inside of TLS: it refuses or closes, and serves the next."""

import logging
import socket
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.http_requests import call_of
from tests.wire.intercept.conftest import TlsClient, connect_head, credentials
from tests.wire.raw_client import RawClient, bytes_of

OPENAI = "api.openai.com"
targets = st.sampled_from(
    [f"{OPENAI}:443", OPENAI, ":443", "", "*", "[::1]:1", "127.0.0.1:0", "a:b:c", "x" * 300 + ":443", "http://a/b"]
) | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30)
GARBAGE = [b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\xff\xff" + b"\0" * 50, b"GET / HTTP/1.1\r\n\r\n", b"\0" * 300]
garbage = st.binary(max_size=120) | st.sampled_from(GARBAGE)


@pytest.fixture(scope="module")
def errors():
    """What is logged as an error meanwhile."""
    records, handler, logger = [], logging.Handler(logging.ERROR), logging.getLogger()
    handler.emit = records.append
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.fixture(scope="module", autouse=True)
def is_well_afterwards(proxy, errors):
    yield
    with TlsClient(*proxy, OPENAI) as client:
        assert b"one two" in client.ask(call_of(headers={"host": OPENAI})).body
    assert [record.getMessage() for record in errors] == []


def heard_after(client, data):
    """All that comes after the data, until the other side ends."""
    client.send(data)
    client.socket.shutdown(socket.SHUT_WR)
    return client.rest()[1]


@settings(max_examples=30)
@given(target=targets, is_known=st.booleans(), more=garbage)
def test_no_request_to_connect_does_harm(proxy, errors, target, is_known, more):
    server, interception = proxy
    head = connect_head(target, credentials(interception) if is_known else "Basic b2ZmYm9vazp3cm9uZw==")
    with RawClient(server.url) as client:
        heard = heard_after(client, head + more)
    assert b"Traceback" not in heard
    assert is_known or heard.startswith((b"HTTP/1.1 407", b"HTTP/1.1 400"))
    assert errors == []


@settings(max_examples=30)
@given(cut=st.integers(0, 400), more=garbage)
def test_a_tunnel_that_breaks_off_inside_of_tls_does_no_harm(proxy, errors, cut, more):
    call = bytes_of(call_of(headers={"host": OPENAI}))
    with TlsClient(*proxy, OPENAI) as client:
        client.send(call[:cut] + more)
        if cut % 2:
            with suppress(OSError):  # the answer may be on its way
                client.socket.unwrap()
    assert errors == []
