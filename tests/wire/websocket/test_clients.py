"""The vendors' SDKs over WebSocket: recorded at a server that nobody here wrote, and replayed without it."""

import json

import openai
import pytest
from google.genai import errors
from websockets.exceptions import ConnectionClosed, InvalidStatus

import offbook
from offbook.recording.stores.locate import open_store
from tests.servers import aimock
from tests.wire.websocket.clients import hear, live, realtime, responses
from tests.wire.websocket.test_sessions import client
from tests.wire.websocket.upstream import gemini_live, upstream

pytestmark = pytest.mark.xdist_group("websocket_sdks")

CONVERSATIONS = [realtime, responses, live]
FAULTS = [
    "ws_close",
    "ws_close 1013 after_chunks=1",
    "stream_truncate 1 raise=cut",
    "stream_truncate 1 raise=clean",
    "stream_truncate 1",
    "stream_truncate 1 raise=malformed",
    "connection_reset",
    "http_error 503",
]


def at_last_call(path, fault):
    """A fault at the last call of a session. How many there are depends on when messages meet each other."""
    return [f"call={len(list(open_store(path).load()))}: {fault}"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """For each conversation its recording, and what its client heard.

    aimock does not understand what Google's client sends (`client_content`), so another server answers that one.
    """
    aimock.require()
    made = {}
    with aimock.serve() as url, upstream(gemini_live) as live_url:
        for conversation in CONVERSATIONS:
            path = tmp_path_factory.mktemp("clients") / "run.json"
            with offbook.serving(record=path, upstreams={"openai": f"{url}/v1", "google": live_url}) as server:
                heard = hear(conversation, server.url)
            made[conversation] = path, heard
    return made


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_an_sdk_hears_the_same_when_the_server_is_gone(recorded, conversation):
    path, heard = recorded[conversation]
    assert "Good mo" in str(heard)
    with offbook.serving(path) as server:
        assert hear(conversation, server.url) == heard
        assert server.misses == []
        assert server.unused() == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_an_sdk_does_not_take_a_broken_session_for_a_whole_one(recorded, conversation, fault):
    path, heard = recorded[conversation]
    with offbook.serving(path, faults=at_last_call(path, fault)) as server:
        try:
            got = hear(conversation, server.url)
        except (ConnectionClosed, InvalidStatus, openai.OpenAIError, errors.APIError, OSError, ValueError):
            got = None
        assert got != heard
        assert [str(each.fault) for each in server.fired()] == [fault]


@pytest.mark.parametrize("fault", ["ws_reorder 1", "ws_repeat 1"])
@pytest.mark.parametrize("conversation", [realtime, responses])
def test_an_sdk_hears_messages_in_another_order_or_twice(recorded, conversation, fault):
    path, heard = recorded[conversation]
    with offbook.serving(path, faults=at_last_call(path, fault)) as server:
        got = hear(conversation, server.url)
    assert got != heard
    assert all(each in heard for each in got)
    assert len(got) == len(heard) + (fault == "ws_repeat 1")


LIVE_PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


def test_gemini_live_of_aimock_comes_back_to_the_byte(recorded, tmp_path):
    path, heard = tmp_path / "run.json", []
    turn = {"role": "user", "parts": [{"text": "say hello"}]}
    with aimock.serve() as url:
        for options in ({"record": path, "upstreams": {"google": url}}, {"recording": path}):
            with offbook.serving(**options) as server, client(server, f"{LIVE_PATH}?key=secret-key-1234") as socket:
                socket.send(json.dumps({"setup": {"model": "models/gemini-2.0-flash"}}))
                got = [socket.recv(timeout=20)]
                socket.send(json.dumps({"clientContent": {"turns": [turn], "turnComplete": True}}))
                while "turnComplete" not in got[-1]:
                    got.append(socket.recv(timeout=20))
            heard.append(got)
    assert len(heard[0]) > 3
    assert heard[0] == heard[1]
    assert "secret-key" not in path.read_text()
