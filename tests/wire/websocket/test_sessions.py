"""WebSocket sessions are recorded as they go, and replayed by what the client sends."""

import asyncio
import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from websockets.asyncio import client as asyncio_client
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus
from websockets.sync.client import connect

import offbook
from tests.wire.intercept.conftest import intercepting
from tests.wire.websocket.upstream import upstream

PATH = "/v1/realtime?model=gpt-realtime"
ITEM = {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": []}}
RESPOND = {"type": "response.create"}
UPDATE = {"type": "session.update", "session": {"type": "realtime"}}


@contextmanager
def client(server, path=PATH, **options):
    url = server.url if hasattr(server, "url") else server
    with connect(url.replace("http", "ws", 1) + path, proxy=None, close_timeout=2, **options) as socket:
        yield socket


def ask(socket, *messages, until="response.done"):
    """Send messages, and return what comes until an event of that type."""
    for message in messages:
        socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return read(socket, until)


def read(socket, until):
    got = []
    while not got or json.loads(got[-1])["type"] != until:
        got.append(socket.recv(timeout=20))
    return got


def talk(socket):
    got = read(socket, "session.created")
    got += ask(socket, UPDATE, until="session.updated")
    got += ask(socket, ITEM, RESPOND)
    return got + ask(socket, RESPOND)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("ws") / "run.json"
    with upstream() as url, offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server:
        with client(server) as socket:
            heard = talk(socket)
        wait_until(lambda: len(server.calls) == 4)
        assert {(call.method, call.outcome, call.status) for call in server.calls} == {("WS", "recorded", 101)}
    return path, heard


def wait_until(is_true):
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def entries(path):
    return [value for key, value in json.loads(path.read_text()).items() if not key.startswith("_")]


def test_a_session_comes_back_to_the_byte(recording):
    path, heard = recording
    for model in ("constant", "replay"):
        with offbook.serving(path, latency_model=model) as server:
            with client(server) as socket:
                assert talk(socket) == heard
            assert server.misses == []
            assert server.unused() == []


def test_the_entries_hold_what_both_sides_sent_with_its_times(recording):
    path, _ = recording
    by_place = sorted(entries(path), key=lambda entry: entry["recorded_at"])
    assert [[message["type"] for _, message in entry["request"]["sent"]] for entry in by_place] == [
        [],
        ["session.update"],
        ["conversation.item.create", "response.create"],
        ["response.create"],
    ]
    assert [entry["request"]["after"] for entry in by_place] == ["", *(entry["request_hash"] for entry in by_place[:3])]
    times = [at_ms for at_ms, _ in by_place[2]["wire"]["frames"]]
    assert times == sorted(times)
    assert {entry["wire"]["protocol"] for entry in by_place} == {"websocket"}


def test_a_message_that_was_not_recorded_closes_the_session_and_is_a_miss(recording):
    path, _ = recording
    with offbook.serving(path) as server:
        with client(server) as socket:
            read(socket, "session.created")
            with pytest.raises(ConnectionClosed) as caught:
                ask(socket, {"type": "session.update", "session": {"type": "transcription"}}, until="session.updated")
        assert caught.value.rcvd.code == 4422
        assert caught.value.rcvd.reason == "not in the recording: expected session.update"
        (miss,) = server.misses
        assert miss.kind == "drifted"
        assert "WS /v1/realtime?model=gpt-realtime: the message 'session.update'" in miss.text
        assert '+  "type": "transcription"' in miss.text
        assert [call.outcome for call in server.calls] == ["served", "missed"]


def test_a_miss_shows_what_differs_and_not_the_ids_that_a_client_chose(tmp_path):
    def said(text, number):
        item = {"id": f"item_{number}", "type": "message", "role": "user"}
        content = [{"type": "input_text", "text": f"{text} at 10:0{number}, key sk-proj-{'abc123XYZ' * 4}"}]
        return {"event_id": f"event_{number}", "type": ITEM["type"], "item": item | {"content": content}}

    path = tmp_path / "run.json"
    record(path, [said("Hello", 1), RESPOND], until="response.done")
    document = json.loads(path.read_text())
    document["_meta"] = document.get("_meta", {}) | {"normalise": {"mask": [r"\d\d:\d\d"]}}
    path.write_text(json.dumps(document))
    with offbook.serving(path) as server, client(server) as socket:
        read(socket, "session.created")
        with pytest.raises(ConnectionClosed):
            ask(socket, said("Bye", 2))
    (miss,) = server.misses
    differing = [line for line in miss.text.splitlines() if line.lstrip().startswith(("-", "+"))]
    assert len(differing) == 2
    assert ("Hello" in differing[0], "Bye" in differing[1]) == (True, True)
    assert ("sk-proj" in miss.text, "10:0" in miss.text) == (False, False)
    assert "item_" not in miss.text
    assert "record_mode" not in miss.text


def test_a_path_that_was_not_recorded_is_refused_at_the_handshake(recording):
    path, _ = recording
    with offbook.serving(path) as server:
        with pytest.raises(InvalidStatus) as caught, client(server, "/v1/realtime?model=other"):
            pass
        assert caught.value.response.status_code == 422
        assert b"WS /v1/realtime?model=other is not in the recording" in caught.value.response.body
        assert len(server.misses) == 1


def record(path, messages, *, until, **options):
    """Record one session of messages, and return what came."""
    with (
        upstream() as url,
        offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server,
        client(server, **options) as socket,
    ):
        read(socket, "session.created")
        return ask(socket, *messages, until=until)


def replay(path, messages, *, until):
    with offbook.serving(path) as server:
        with client(server) as socket:
            read(socket, "session.created")
            heard = ask(socket, *messages, until=until)
        assert server.misses == []
    return heard


def test_event_ids_may_change_and_the_ids_of_items_come_back_as_the_client_chose_them(tmp_path):
    def item(name):
        return ITEM | {"event_id": f"event_{name}", "item": ITEM["item"] | {"id": f"item_{name}"}}

    after = {"type": "conversation.item.create", "previous_item_id": "item_a", "item": {"type": "message"}}
    path = tmp_path / "run.json"
    record(path, [item("a"), after, RESPOND], until="response.done")
    heard = replay(path, [item("b"), after | {"previous_item_id": "item_b"}, RESPOND], until="response.done")
    assert json.loads(heard[0])["item"]["id"] == "item_b"


def in_folder(folder):
    text = {"type": "input_text", "text": f"Read {folder}/notes.txt"}
    return [ITEM | {"item": ITEM["item"] | {"content": [text]}}, RESPOND]


def test_a_session_of_one_user_answers_another_and_an_equal_one_comes_first(tmp_path):
    path = tmp_path / "run.json"
    heard = {each: record(path, in_folder(f"/home/{each}"), until="response.done") for each in ("ann", "eve")}
    for folder, user in (("/Users/bob", "ann"), ("/home/eve", "eve"), ("/home/ann", "ann")):
        named = [json.loads(each.replace(f"/home/{user}", folder)) for each in heard[user]]
        assert [json.loads(each) for each in replay(path, in_folder(folder), until="response.done")] == named
    with pytest.raises(ConnectionClosed, match="not in the recording"):
        replay(path, in_folder("/home/bob/other"), until="response.done")


def test_a_rule_of_the_recording_makes_home_folders_count_in_messages(tmp_path):
    path = tmp_path / "run.json"
    record(path, in_folder("/home/ann"), until="response.done")
    document = json.loads(path.read_text())
    document["_meta"]["normalise"] = {"home_paths": False}
    path.write_text(json.dumps(document))
    with pytest.raises(ConnectionClosed, match="not in the recording"):
        replay(path, in_folder("/home/bob"), until="response.done")


def test_outputs_of_tools_may_come_in_any_order(tmp_path):
    outputs = [
        {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": each, "output": each}}
        for each in "ab"
    ]
    path = tmp_path / "run.json"
    recorded = record(path, [*outputs, RESPOND], until="response.done")
    assert len(entries(path)) == 2
    assert replay(path, [*reversed(outputs), RESPOND], until="response.done") == recorded


def audio(data):
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()}


@pytest.mark.parametrize("size", [1, 5, 7, 40])
def test_audio_may_be_cut_in_other_places(tmp_path, size):
    path, data = tmp_path / "run.json", os.urandom(30)
    commit = {"type": "input_audio_buffer.commit"}
    chunks = [audio(data[at : at + 10]) for at in range(0, 30, 10)]
    recorded = record(path, [*chunks, commit], until="input_audio_buffer.committed")
    others = [audio(data[at : at + size]) for at in range(0, 30, size)]
    assert replay(path, [*others, commit], until="input_audio_buffer.committed") == recorded


def test_binary_messages_and_unknown_paths_are_plain_frames(tmp_path):
    path = tmp_path / "run.json"
    sent = [b"\x00\xff", b"plain text in a binary message"]

    def say(server):
        with client(server, "/anything?token=secret-token-12") as socket:
            socket.recv(timeout=20)
            for each in sent:
                socket.send(each)
                assert socket.recv(timeout=20) == each

    with upstream() as url, offbook.serving(record=path, upstreams={"openai": url}) as server:
        say(server)
    assert "secret-token" not in path.read_text()
    assert '{"binary":"plain text in a binary message"}' in path.read_text().replace(": ", ":")
    with offbook.serving(path) as server:
        say(server)


def test_a_close_of_the_server_is_recorded_and_comes_again(tmp_path):
    path, closes = tmp_path / "run.json", []

    def leave(server):
        with client(server) as socket:
            read(socket, "session.created")
            with pytest.raises(ConnectionClosed) as caught:
                ask(socket, {"type": "leave"})
            closes.append((caught.value.rcvd.code, caught.value.rcvd.reason))

    with upstream() as url, offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server:
        leave(server)
    with offbook.serving(path) as server:
        leave(server)
    assert closes == [(4001, "as you wish")] * 2


def test_a_refused_handshake_is_recorded_and_comes_again(tmp_path):
    path, bodies = tmp_path / "run.json", []

    def refuse(connection, request):
        return connection.respond(401, "no such key\n")

    def knock(server):
        with pytest.raises(InvalidStatus) as caught, client(server):
            pass
        bodies.append((caught.value.response.status_code, caught.value.response.body))

    with (
        upstream(process_request=refuse) as url,
        offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server,
    ):
        knock(server)
    with offbook.serving(path) as server:
        knock(server)
    assert bodies == [(401, b"no such key\n")] * 2


def test_an_api_that_cannot_be_reached_is_a_502(tmp_path):
    with offbook.serving(record=tmp_path / "run.json", upstreams={"openai": "http://127.0.0.1:9/v1"}) as server:
        with pytest.raises(InvalidStatus) as caught, client(server):
            pass
        assert caught.value.response.status_code == 502
        assert b"127.0.0.1:9" in caught.value.response.body


def test_no_key_reaches_the_file_wherever_it_is_sent(tmp_path):
    path, key = tmp_path / "run.json", "my-own-unusual-key-98765"
    seen = []

    def handler(socket):
        seen.append((socket.request.path, socket.request.headers.get("Authorization")))
        socket.send(json.dumps({"type": "session.created", "echo": key, "api_key": "hunter2hunter2"}))
        for _ in socket:
            for piece in ("sk-proj-" + "a" * 20, "b" * 30):
                socket.send(json.dumps({"type": "response.output_text.delta", "delta": piece}))
            socket.send(json.dumps({"type": "response.done"}))

    protocols = ["realtime", f"openai-insecure-api-key.{key}"]
    with (
        upstream(handler, subprotocols=["realtime"]) as url,
        offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server,
        client(server, f"{PATH}&key={key}", subprotocols=protocols) as socket,
    ):
        assert socket.subprotocol == "realtime"
        read(socket, "session.created")
        ask(socket, {"type": "response.create", "note": f"with {key}"})
    assert key in seen[0][0]
    text = path.read_text()
    assert key not in text
    assert "hunter2" not in text
    assert "b" * 30 not in text
    with offbook.serving(path) as server, client(server, subprotocols=["realtime", "other"]) as socket:
        assert socket.subprotocol == "realtime"
        assert json.loads(socket.recv(timeout=20))["api_key"] == "<redacted>"


FAULTED = {
    "call=3: ws_close 1013 reason=busy": 1013,
    "call=3: ws_close after_chunks=2": 1011,
    "call=3: http_error 500": 1011,
    "call=3: http_error 429": 1013,
    "call=3: http_error 400": 1008,
    "call=3: stream_truncate raise=clean": 1000,
    "call=3: stream_truncate 1 raise=cut": None,
    "call=3: stream_truncate 1": None,
    "call=3: connection_reset": None,
}


@pytest.mark.parametrize("line", FAULTED)
def test_a_fault_ends_the_session_and_a_new_one_is_answered(recording, line):
    path, heard = recording
    with offbook.serving(path, faults=[line.replace(":", " attempt=1:")]) as server:
        with client(server) as socket, pytest.raises(ConnectionClosed) as caught:
            talk(socket)
        assert (caught.value.rcvd and caught.value.rcvd.code) == FAULTED[line]
        assert [str(each.fault) for each in server.fired()] == [line.partition(": ")[2]]
        with client(server) as socket:
            assert talk(socket) == heard
        attempts = [(call.call, call.attempt) for call in server.calls if call.outcome == "fault" or call.attempt > 1]
        assert attempts == [(3, 1), (3, 2)]


def heard_with(path, line):
    with offbook.serving(path, faults=[line]) as server, client(server) as socket:
        got = read(socket, "session.created") + ask(socket, UPDATE, until="session.updated")
        return [json.loads(each) for each in got + ask(socket, ITEM, RESPOND)]


def test_messages_arrive_in_another_order_or_twice(recording):
    path, _ = recording
    deltas = [each.get("delta") for each in heard_with(path, "call=3: ws_reorder 1") if "delta" in each]
    assert deltas == ["two", "one", "turn 1"]
    deltas = [each.get("delta") for each in heard_with(path, "call=3: ws_repeat 2") if "delta" in each]
    assert deltas == ["one", "two", "two", "turn 1"]


def test_an_error_event_leaves_the_session_open_and_the_request_can_be_repeated(recording):
    path, _ = recording
    with offbook.serving(path, faults=["call=3 attempt=1: stream_truncate 1 raise=error_event"]) as server:
        with client(server) as socket:
            read(socket, "session.created")
            ask(socket, UPDATE, until="session.updated")
            assert json.loads(ask(socket, ITEM, RESPOND, until="error")[-1])["error"]["message"] == "an injected error"
            assert json.loads(ask(socket, ITEM, RESPOND)[-1])["turn"] == 1
            assert json.loads(ask(socket, RESPOND)[-1])["turn"] == 2
        assert server.misses == []


def test_silence_lasts_until_the_client_leaves(recording):
    path, _ = recording
    with offbook.serving(path, faults=["call=2: timeout"]) as server, client(server) as socket:
        read(socket, "session.created")
        socket.send(json.dumps(UPDATE))
        wait_until(lambda: len(server.calls) == 2)
        with pytest.raises(TimeoutError):
            socket.recv(timeout=0.05)


@pytest.mark.parametrize("line", ["call=1 attempt=1: http_error 503", "call=1 attempt=1: connection_reset"])
def test_a_handshake_fails_by_a_fault_and_succeeds_when_it_is_repeated(recording, line):
    path, heard = recording
    with offbook.serving(path, faults=[line]) as server:
        with pytest.raises((InvalidStatus, InvalidMessage, OSError)), client(server):
            pass
        with client(server) as socket:
            assert talk(socket) == heard


SCRIPT = """
import sys, offbook, time
with offbook.serving(record=sys.argv[1], upstreams={"openai": sys.argv[2] + "/v1"}) as server:
    print(server.url, flush=True)
    time.sleep(60)
"""


def test_a_kill_costs_at_most_the_exchange_in_flight(tmp_path):
    path = tmp_path / "run.json"
    with upstream() as url:
        command = [sys.executable, "-c", SCRIPT, str(path), url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                with client(process.stdout.readline().strip()) as socket:
                    heard = talk(socket)
                    process.send_signal(signal.SIGKILL)
            except ConnectionClosed:
                pass
            finally:
                process.kill()
    with offbook.serving(path) as server, client(server) as socket:
        got = (
            read(socket, "session.created") + ask(socket, UPDATE, until="session.updated") + ask(socket, ITEM, RESPOND)
        )
        assert got == heard[: len(got)]
        assert len(heard) - len(got) == 4  # the last answer was still in flight


@contextmanager
def intercepted_client(server, interception):
    """A client through the proxy. It has one thread: before Python 3.13, a TLS connection is for one at a time."""
    proxy = f"http://offbook:{interception.token}@127.0.0.1:{server.address[1]}"
    context = ssl.create_default_context(cadata=interception.authority.pem.decode())

    async def opened():
        return await asyncio_client.connect(f"wss://api.openai.com{PATH}", proxy=proxy, ssl=context)

    with asyncio.Runner() as runner:
        socket = runner.run(opened())
        yield SimpleNamespace(
            send=lambda message: runner.run(socket.send(message)),
            recv=lambda timeout: runner.run(asyncio.wait_for(socket.recv(), timeout)),
        )
        runner.run(socket.close())


def test_a_session_through_the_interception_of_a_run_goes_to_its_host_and_comes_back(tmp_path):
    path, heard = tmp_path / "run.json", []
    with upstream() as url:
        for options in ({"record": path, "upstreams": {"openai": f"{url}/v1"}}, {"recording": path}):
            with intercepting(**options) as (server, interception):
                with intercepted_client(server, interception) as socket:
                    heard.append(talk(socket))
                wait_until(lambda: len(server.calls) == 4)
                assert server.misses == []
    assert heard[0] == heard[1]


ANOTHER_MESSAGE = """
import json, os
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
url = os.environ["OPENAI_BASE_URL"].replace("http", "ws", 1) + "/realtime?model=gpt-realtime"
with connect(url, proxy=None) as socket:
    socket.recv(timeout=20)
    socket.send(json.dumps({"type": "session.update", "session": {"type": "transcription"}}))
    try:
        socket.recv(timeout=20)
    except ConnectionClosed as error:
        print(error.rcvd.code)
"""


def test_a_program_whose_messages_diverge_ends_with_3(recording):
    offbook_command = Path(sys.executable).with_name("offbook")
    command = [offbook_command, "exec", "--replay", recording[0], "--", sys.executable, "-c"]
    done = subprocess.run([*command, ANOTHER_MESSAGE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stdout == "4422\n"
    assert "the message 'session.update'" in done.stderr
    assert '+  "type": "transcription"' in done.stderr
