"""Whatever clients send over a WebSocket: the server closes the connection with a reason, and answers the next."""

import json
import logging
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offbook
from offbook.wire.websocket.framing import CLOSE, TEXT, FrameParser, decode_close, encode_frame
from tests.wire.websocket.test_sessions import PATH, UPDATE, ask, client, read, record

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "run.json"
    record(path, [UPDATE], until="session.updated")
    return path


@pytest.fixture(scope="module")
def server(recording):
    with offbook.serving(recording) as serving:
        yield serving


def open_raw(server, *, method="GET", **changed):
    headers = {"host": "localhost", "upgrade": "websocket", "connection": "Upgrade"}
    headers |= {"sec-websocket-version": "13", "sec-websocket-key": KEY} | {
        name.replace("_", "-"): value for name, value in changed.items()
    }
    lines = [f"{method} {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    address = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((address[0], int(address[1])), timeout=20)
    connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    return connection


def head_of(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(4096)
        if not piece:
            break
        data += piece
    return data.partition(b"\r\n\r\n")


def rest_of(connection, data=b""):
    while True:
        try:
            piece = connection.recv(65_536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def is_well(server):
    with client(server) as connection:
        read(connection, "session.created")
        assert ask(connection, UPDATE, until="session.updated")


frames = st.builds(
    lambda opcode, payload, is_masked: encode_frame(opcode, payload, is_masked=is_masked),
    st.integers(0, 15),
    st.binary(max_size=130)
    | st.sampled_from([json.dumps(UPDATE).encode(), b"[" * 5000, b'{"item": {"id": 1}}', b"{}"]),
    st.booleans(),
)


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.texts = []

    def emit(self, record):
        self.texts.append(self.format(record))


@pytest.fixture(scope="module")
def errors():
    handler, logger = Errors(), logging.getLogger()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@given(st.lists(frames | st.binary(max_size=40), max_size=5))
def test_no_bytes_bring_the_server_down(server, errors, sent):
    with open_raw(server) as connection:
        _, _, data = head_of(connection)
        connection.sendall(b"".join(sent))
        connection.shutdown(socket.SHUT_WR)
        for message in FrameParser(expects_mask=False).feed(rest_of(connection, data)):
            if message.opcode == CLOSE:
                decode_close(message.data)
    assert errors.texts == []


def test_the_server_is_well_after_all_of_that(server):
    is_well(server)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (encode_frame(TEXT, b"{}"), 1002),
        (b"\x82\xff" + (2**40).to_bytes(8) + b"\0\0\0\0", 1009),
        (encode_frame(TEXT, b"\xff", is_masked=True), 1007),
        (encode_frame(TEXT, b'{"type": "unknown"}', is_masked=True), 4422),
    ],
    ids=["not masked", "too large", "not UTF-8", "not recorded"],
)
def test_what_is_wrong_closes_the_connection_with_a_code(server, sent, code):
    with open_raw(server) as connection:
        _, _, data = head_of(connection)
        connection.sendall(sent + encode_frame(CLOSE, code.to_bytes(2), is_masked=True))
        *_, last = FrameParser(expects_mask=False).feed(rest_of(connection, data))
    assert decode_close(last.data).code == code


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"sec_websocket_version": "8"}, 426),
        ({"sec_websocket_key": "short"}, 400),
        ({"sec_websocket_key": None}, 400),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
    ],
)
def test_a_handshake_that_is_wrong_is_refused(server, changed, status):
    with open_raw(server, **changed) as connection:
        assert head_of(connection)[0].startswith(f"HTTP/1.1 {status} ".encode())


def test_another_upgrade_is_still_ignored(server):
    with open_raw(server, upgrade="h2c") as connection:
        assert head_of(connection)[0].startswith(b"HTTP/1.1 422 ")


def test_a_key_of_the_server_may_be_a_subprotocol(tmp_path, server):
    with offbook.serving(responses={}, api_key="the-key-of-this-server") as serving:
        with open_raw(serving) as connection:
            assert head_of(connection)[0].startswith(b"HTTP/1.1 401 ")
        offered = "realtime, openai-insecure-api-key.the-key-of-this-server"
        with open_raw(serving, sec_websocket_protocol=offered) as connection:
            assert not head_of(connection)[0].startswith(b"HTTP/1.1 401 ")


def test_nothing_follows_the_close_frame_that_a_mistake_is_answered_with(recording, errors):
    """An answer that is due after it is not sent."""
    with offbook.serving(recording, faults=["everywhere: slow 100"]) as slow, open_raw(slow) as connection:
        _, _, data = head_of(connection)
        connection.sendall(encode_frame(TEXT, json.dumps(UPDATE).encode(), is_masked=True) + encode_frame(TEXT, b"{}"))
        is_well(slow)  # its answers are due later
        messages = list(FrameParser(expects_mask=False).feed(rest_of(connection, data)))
    assert [json.loads(each.data)["type"] for each in messages[:-1]] == ["session.created"]
    assert decode_close(messages[-1].data).code == 1002
    assert errors.texts == []
