"""What a connection makes of an application's messages, and what the application receives."""

import asyncio
import contextlib

import pytest

from offbook.wire.server.connection import MAX_UNREAD_BYTES, HttpConnection, OpenConnections

GET = b"GET /a%20b?x=1 HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n"
BYE = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def responding(*bodies, status=200, headers=()):
    """An application that answers with these bodies, each sent on its own."""

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for body in bodies[:-1]:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": bodies[-1]})

    return application


@contextlib.asynccontextmanager
async def connected(application):
    """A client of the application: its reader and its writer."""
    state, loop = OpenConnections(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(application, state), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()
        await asyncio.gather(*state.tasks, return_exceptions=True)


def answer_to(data, application):
    """All that a client hears until the connection is closed, or half a response is all it gets."""

    async def ask():
        async with connected(application) as (reader, writer):
            writer.write(data)
            return await asyncio.wait_for(reader.read(), 10)

    return asyncio.run(ask())


def test_a_body_of_unknown_length_is_sent_in_chunks():
    head, _, body = answer_to(BYE, responding(b"one", b"", b"two")).partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked"
    assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_a_body_of_known_length_is_sent_as_it_is():
    answer = answer_to(BYE, responding(b"one", b"two", headers=[(b"Content-Length", b"6")]))
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nonetwo"


def test_an_answer_to_head_has_no_body():
    answer = answer_to(HEAD + BYE, responding(b"one", headers=[(b"content-length", b"3")]))
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first == b"200 OK\r\ncontent-length: 3\r\n\r\n"
    assert second[-3:] == b"one"


@pytest.mark.parametrize("status", [204, 304, 799])
def test_a_status_may_forbid_a_body_or_have_no_name(status):
    answer = answer_to(BYE, responding(b"", status=status))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"chunked" in answer) is (status == 799)


@pytest.mark.parametrize(
    "header", [(b"x", b"1\r\nset-cookie: a"), (b"x y", b"1"), (b"x:", b"1"), (b"content-length", b"six")]
)
def test_a_header_that_is_none_is_not_sent(header):
    assert answer_to(GET, responding(b"", headers=[header])) == b""


@pytest.mark.parametrize("bodies", [(b"12",), (b"1234",), (b"1", b"234")])
def test_a_body_of_another_length_than_said_closes_the_connection(bodies):
    answer = answer_to(GET, responding(*bodies, headers=[(b"content-length", b"3")]))
    assert answer.count(b"HTTP/1.1") == 1
    assert len(answer.partition(b"\r\n\r\n")[2]) < 3


def test_an_application_that_fails_is_a_500():
    async def application(scope, receive, send):
        raise OSError("broken")

    assert answer_to(GET, application).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")


def test_an_application_that_answers_nothing_is_a_500():
    async def application(scope, receive, send):
        return None

    assert answer_to(GET, application).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")


def test_an_application_that_stops_in_its_answer_closes_the_connection():
    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    assert answer_to(GET, application).endswith(b"chunked\r\n\r\n")


def test_nothing_follows_a_complete_answer():
    async def application(scope, receive, send):
        await responding(b"one")(scope, receive, send)
        with pytest.raises(RuntimeError):
            await send({"type": "http.response.body", "body": b"two"})

    assert answer_to(BYE, application).endswith(b"3\r\none\r\n0\r\n\r\n")


def test_what_is_not_http_is_a_400():
    answer = answer_to(b"hello\r\n\r\n", responding(b""))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_the_application_is_told_what_is_requested():
    scopes = []

    async def application(scope, receive, send):
        scopes.append(scope)
        await responding(b"")(scope, receive, send)

    answer_to(GET + BYE, application)
    assert [scope["path"] for scope in scopes] == ["/a b", "/"]
    found = {name: scopes[0][name] for name in ("method", "http_version", "raw_path", "query_string", "headers")}
    assert found == {
        "method": "GET",
        "http_version": "1.1",
        "raw_path": b"/a%20b",
        "query_string": b"x=1",
        "headers": [(b"host", b"x")],
    }


def test_no_more_is_read_than_the_application_wants():
    body = bytes(64 * MAX_UNREAD_BYTES)
    sizes = []

    async def application(scope, receive, send):
        has_more = True
        while has_more:
            message = await receive()
            sizes.append(len(message["body"]))
            has_more = message["more_body"]
            await asyncio.sleep(0)
        await responding(b"")(scope, receive, send)

    answer_to(
        b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body, application
    )
    assert sum(sizes) == len(body)
    assert max(sizes) < len(body) / 4


def test_an_application_waits_for_a_client_that_does_not_read():
    async def run():
        sent = asyncio.Event()

        async def application(scope, receive, send):
            await responding(bytes(32 * 1024 * 1024), b"", b"end")(scope, receive, send)
            sent.set()

        async with connected(application) as (reader, writer):
            writer.write(BYE)
            await reader.readuntil(b"\r\n\r\n")
            was_sent = sent.is_set()
            rest = await reader.read()
            return was_sent, sent.is_set(), rest

    was_sent, is_sent, rest = asyncio.run(run())
    assert not was_sent
    assert is_sent
    assert rest.endswith(b"3\r\nend\r\n0\r\n\r\n")


def test_an_application_is_told_that_its_client_has_left():
    async def run():
        received = asyncio.get_running_loop().create_future()

        async def application(scope, receive, send):
            await receive()
            received.set_result(await receive())

        async with connected(application) as (_, writer):
            writer.write(GET)
            await writer.drain()
            writer.close()
            return await asyncio.wait_for(received, 10)

    assert asyncio.run(run()) == {"type": "http.disconnect"}
