"""The application between the connections and the sessions."""

import orjson
import pytest

from offbook.codecs.catalog import CODECS
from offbook.wire.access import Access
from offbook.wire.app import WireApp
from offbook.wire.limits import Limits
from offbook.wire.stage import Stage, StageOptions
from tests.wire.calls import PROTOCOLS, call_of

LIMIT = 200


def scope_of(call):
    headers = [(name.encode(), value.encode()) for name, value in call.headers.items()]
    place = {"method": call.method, "path": call.path, "query_string": call.query.encode(), "headers": headers}
    return {"type": "http", "http_version": "1.1", **place}


async def asked(call, *pieces, responses=None, **options):
    """What the application sends to a client whose body comes in these pieces; None is where it leaves."""
    app = WireApp(
        Stage(StageOptions(responses=responses or {}, **options)).sessions,
        access=Access(),
        limits=Limits(body_bytes=LIMIT),
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("prefix", ["", "/s/mine"])
@pytest.mark.parametrize(
    "pieces",
    [[b"x" * (LIMIT + 1)], [b"x" * LIMIT, b"x"], [b"x" * LIMIT, b"x", None]],
    ids=["whole", "pieces", "endless"],
)
async def test_a_body_that_is_too_large_is_refused_in_the_shape_of_the_vendor(protocol, prefix, pieces):
    call = call_of(protocol)
    head, body = await asked(type(call)("POST", prefix + call.path, "", {}, b""), *pieces)
    assert head["status"] == 413
    assert (b"x-should-retry", b"false") in head["headers"]
    assert CODECS[protocol].decode_error(body["body"]) == f"the body is larger than {LIMIT} bytes"


@pytest.mark.parametrize("size", [1, 10, 1_000])
async def test_a_body_may_come_in_pieces(size):
    body = call_of().body
    head, *_ = await asked(call_of(), *(body[start : start + size] for start in range(0, len(body), size)))
    assert head["status"] == 200


@pytest.mark.parametrize("pieces", [[], [b"half", None], [b"", None]])
async def test_a_client_that_leaves_before_its_call_is_complete_is_sent_nothing(pieces):
    assert await asked(call_of(), *pieces) == []


async def test_the_servers_own_endpoints_get_the_body_that_was_read():
    call = type(call_of())("PUT", "/_offbook/sessions/a", "", {}, b"")
    head, body = await asked(call, b'{"faults": ', b'["call=1: timeout"]}')
    assert head["status"] == 201
    assert orjson.loads(body["body"])["unstruck"] == ["call=1: timeout"]


async def test_what_fails_within_is_a_500_that_is_not_tried_again_and_tells_nothing(caplog):
    def on_call(call):
        raise RuntimeError("secret")

    head, body = await asked(call_of(), call_of().body, on_call=on_call)
    assert head["status"] == 500
    assert (b"x-should-retry", b"false") in head["headers"]
    assert b"secret" not in body["body"]
    assert "could not be answered" in caplog.text
