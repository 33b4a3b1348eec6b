"""Servers, from start to stop."""

import gc
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import orjson
import pytest

from offbook import serving
from offbook.errors import InputError
from offbook.faults import HttpError, chaos
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import open_store
from offbook.wire.request import HttpRequest
from offbook.wire.server.connection import REQUEST_LIMITS
from tests.wire.http_requests import call_of, decode, entry_of, recording_of
from tests.wire.raw_client import RawClient, ask, bytes_of

RESPONSES = {"a": {"content": "one two three"}}
ODD_NAMES = ["a b", "a/b", "100%", "%2F", "тест", "tests/x.py::test_it[a-?#&]", "a\nb", "\0"]


@pytest.fixture(scope="module")
def server():
    with serving(responses=RESPONSES) as server:
        yield server


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(verify=False) as client:
        yield client


def servers_running():
    return [thread for thread in threading.enumerate() if thread.name == "offbook-wire"]


def text_from(url, **fields):
    return decode(ask(url, call_of(**fields)).body, is_streamed=False).content


def test_a_server_answers_while_its_block_runs():
    with serving(responses=RESPONSES) as server:
        assert text_from(server.url) == "one two three"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=1)
    assert server.url.startswith("http://127.0.0.1:")
    assert [call.status for call in server.calls] == [200]


def test_a_server_reports_its_address_to_clients(server):
    assert (
        server.env.items()
        >= {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_BASE": f"{server.url}/v1",
            "OFFBOOK_URL": server.url,
            "ANTHROPIC_BASE_URL": server.url,
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "OLLAMA_HOST": server.url,
            "OPENAI_API_KEY": "offbook",
        }.items()
    )


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_a_server_listens_at_every_loopback(host, http):
    try:
        server = serving(responses=RESPONSES, host=host)
    except InputError as error:
        pytest.skip(str(error))
    with server:
        assert http.post(f"{server.url}/v1/chat/completions", content=call_of().body).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
def test_other_hosts_than_loopback_need_a_key(host):
    with pytest.raises(InputError, match="requires an API key"):
        serving(responses=RESPONSES, host=host)


def test_with_a_key_a_server_listens_everywhere():
    with serving(responses=RESPONSES, host="0.0.0.0", api_key="k") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert [ask(url, call_of(headers=headers)).status for headers in ({}, {"x-api-key": "k"})] == [401, 200]


def test_a_port_that_is_taken_is_refused(server):
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(InputError, match=f"cannot listen at 127.0.0.1:{port}"):
        serving(responses=RESPONSES, port=port)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(InputError, match="cannot listen"):
        serving(responses=RESPONSES, port=port)


def test_a_recording_that_cannot_be_read_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json"):
        serving(tmp_path / "bad.json")


def test_a_server_answers_from_a_database(tmp_path):
    location = f"sqlite:///{tmp_path}/runs.db"
    open_store(location).save(document_from_dict(recording_of(entry_of(call_of(), content="kept")), source="x"))
    with serving(location) as server:
        assert text_from(server.url) == "kept"
        assert ask(server.url, call_of(text="other")).status == 422
        assert server.unused() == []


def test_a_server_answers_from_a_folder_by_session(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("one", "deep/two"):
        (tmp_path / f"{name}.json").write_bytes(orjson.dumps(recording_of(entry_of(call_of(), content=name))))
    with serving(tmp_path) as server:
        assert [text_from(server.session_url(name)) for name in ("deep/two", "one")] == ["deep/two", "one"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_address_of_a_session_leads_to_it_whatever_its_name(server, http, name):
    session = server.start_session(name, faults=["call=2: http_error 418"])
    url = f"{server.session_url(name)}/v1/chat/completions"
    assert [http.post(url, content=call_of(text=text).body).status_code for text in ("a", "b")] == [200, 418]
    assert len(session.calls) == 2
    assert server.session(name) is session


def test_a_server_reports_what_it_did():
    recording = recording_of(entry_of(call_of(), content="x"), entry_of(call_of(text="unused"), content="y"))
    with serving(
        responses=recording, strict=True, faults=["call=1 attempt=1: http_error 500", "call=9: timeout"]
    ) as server:
        other = server.start_session("other")
        statuses = [ask(server.url, call_of(text=text)).status for text in ("Hi", "Hi", "Ho")]
        ask(server.session_url("other"), call_of())
    assert statuses == [500, 200, 422]
    assert [(call.session, call.status) for call in server.calls] == [("other", 200), ("", 500), ("", 200), ("", 422)]
    assert [miss.session for miss in server.misses] == [""]
    assert [str(planned) for planned in server.fired()] == ["call=1 attempt=1: http_error 500"]
    assert [str(planned) for planned in server.unfired()] == ["call=9: timeout"]
    assert len(server.unused()) == 1
    assert len(other.calls) == 1


def test_a_plan_of_chaos_is_a_plan_too():
    with serving(responses=RESPONSES, faults=chaos(seed=1, rate=1.0, faults=[HttpError(503)])) as server:
        assert ask(server.url, call_of()).status == 503


def test_a_body_that_is_too_large_is_refused_and_the_rest_of_it_read(server):
    size = REQUEST_LIMITS.body_bytes + 4_000_000
    with RawClient(server.url) as client:
        client.send(f"POST /api/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode())
        piece = bytes(1_000_000)
        for start in range(0, size, len(piece)):
            client.send(piece[: size - start])
        response = client.hear()
        assert response.status == 413
        assert orjson.loads(response.body) == {"error": f"the body is larger than {REQUEST_LIMITS.body_bytes} bytes"}
        assert client.ask(call_of()).status == 200


def test_a_client_that_still_sends_its_body_gets_its_answer_and_no_reset(server):
    size = REQUEST_LIMITS.body_bytes + 1
    with RawClient(server.url) as client:
        head = f"POST /api/chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
        client.send(head.encode())
        assert client.hear().status == 413
        assert client.socket.recv(1) == b"", "our direction has ended"
        for _ in range(size // 1_048_576):
            client.send(bytes(1_048_576))
        client.send(b"x" + b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert client.socket.recv(1) == b"", "what follows is not answered"


def test_parallel_sessions_keep_to_themselves(server):
    def run(number):
        name = f"parallel-{number}"
        server.start_session(name, faults=[f"call={number + 1} attempt=1: http_error 500"])
        with RawClient(server.session_url(name)) as client:
            return [client.ask(call_of(text=str(call))).status for call in range(8)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(8)))
    assert results == [[500 if call == number else 200 for call in range(8)] for number in range(8)]


def test_the_log_may_be_read_while_calls_come(server):
    def ask_often():
        with RawClient(server.session_url("busy")) as client:
            for _ in range(60):
                client.ask(call_of())

    thread = threading.Thread(target=ask_often)
    thread.start()
    while thread.is_alive():
        assert len(server.calls) >= 0
    thread.join()
    assert len(server.session("busy").calls) == 60


def test_stopping_waits_for_nobody():
    fired = threading.Semaphore(0)

    class Counting:
        def emit(self, event):
            fired.release()

    with serving(
        responses=RESPONSES,
        faults=["call=1: timeout", "call=2: stream_stall 1", "call=3: slow_drip 60000"],
        sink=Counting(),
    ) as server:
        clients = [RawClient(server.url) for _ in range(5)]
        for number, client in enumerate(clients[:3]):
            client.send(bytes_of(call_of(text=str(number), stream=True)))
        clients[3].send(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-le")
        for _ in range(3):
            assert fired.acquire(timeout=30)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 1.0
    for client in clients:
        assert client.rest()[0] in ("closed", "reset")
        client.socket.close()


def test_stopping_twice_or_before_the_start_does_no_harm():
    server = serving(responses=RESPONSES)
    with server:
        assert ask(server.url, call_of()).status == 200
    server.stop()
    never_started = serving(responses=RESPONSES)
    never_started.stop()
    never_started.stop()


def test_nothing_is_left_of_a_server():
    before = servers_running()
    for _ in range(3):
        with serving(responses=RESPONSES) as server:
            ask(server.url, call_of())
    gc.collect()
    assert servers_running() == before


def test_clients_that_come_while_a_server_stops_are_turned_away():
    for _ in range(5):
        with serving(responses=RESPONSES) as server:
            clients = [RawClient(server.url) for _ in range(20)]
        for client in clients:
            assert client.rest()[0] in ("closed", "reset")
            client.socket.close()
    gc.collect()


def test_health_can_be_asked_while_a_call_hangs():
    with serving(responses=RESPONSES, faults=["everywhere: timeout"]) as server, RawClient(server.url) as hanging:
        hanging.send(bytes_of(call_of()))
        assert ask(server.url, HttpRequest("GET", "/_offbook/health", "", {}, b"")).status == 200
