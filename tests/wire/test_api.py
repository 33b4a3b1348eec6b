"""The stand-in: one way along a recording for all clients of a process."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

import offbook
from offbook.errors import InputError
from offbook.events import FaultFired, ReplayMissed, ReplayServed
from offbook.recording.stores.locate import open_store
from offbook.wire.options import ServingOptions, StandInOptions, WireOptions

URL = "https://api.example/v1/chat/completions"


def chat_request(content, **fields):
    return {"model": "m", "messages": [{"role": "user", "content": content}]} | fields


def content_of(response):
    return response.json()["choices"][0]["message"]["content"]


@pytest.fixture
def recording(tmp_path):
    """A recording of three calls: one of "Hi", two of "More"."""
    path = tmp_path / "run.json"
    answers = iter(["Hello", "First", "Second"])

    def answer(request):
        message = {"role": "assistant", "content": next(answers)}
        return httpx2.Response(200, json={"model": "m", "choices": [{"index": 0, "message": message}]})

    with offbook.sync_http_client(record=path, transport=httpx2.MockTransport(answer)) as client:
        for content in ("Hi", "More", "More"):
            client.post(URL, json=chat_request(content))
    return path


def test_options_are_those_of_a_server_that_make_sense_without_one():
    every, stand_in, server = (each.__annotations__ for each in (WireOptions, StandInOptions, ServingOptions))
    declared = {name: getattr(type_, "__forward_arg__", type_) for name, type_ in server.items()}
    assert {name: every[name] for name in server} == declared
    assert set(every) - set(server) == {
        *("on_call", "recording", "normalise", "folders"),
        *("has_tools", "can_crash", "tools"),
    }
    assert set(server) - set(stand_in) == {
        *("allow_hosts", "allow_origins"),
        *("live_from", "live_model"),
        *("upstream_end_wait_s", "upstream_keys", "upstream_timeout_s", "upstreams"),
    }


def test_all_clients_share_one_way_along_the_recording(recording):
    stand_in = offbook.StandIn(recording)
    first, second = stand_in.sync_http_client(), stand_in.sync_http_client()
    assert content_of(first.post(URL, json=chat_request("More"))) == "First"
    assert content_of(second.post(URL, json=chat_request("More"))) == "Second"
    assert [(call.number, call.outcome) for call in stand_in.calls] == [(1, "served"), (2, "served")]
    assert len(stand_in.unused()) == 1


def test_a_miss_is_reported_to_the_client_and_kept(recording):
    sink = offbook.MemorySink()
    stand_in = offbook.StandIn(recording, sink=sink)
    response = stand_in.sync_http_client().post(URL, json=chat_request("Hi there"))
    assert response.status_code == 422
    assert response.headers["x-should-retry"] == "false"
    [miss] = stand_in.misses
    assert "Hi there" in str(miss)
    assert [type(event) for event in sink.events] == [ReplayMissed]


def test_a_sink_gets_every_call_of_a_model_that_was_answered(recording):
    sink = offbook.MemorySink()
    faults = ["call=1: stream_truncate after_chunks=1", "call=2: http_error 503"]
    stand_in = offbook.StandIn(recording, sink=sink, faults=faults)
    client = stand_in.sync_http_client()
    with pytest.raises(httpx2.ReadError):
        client.post(URL, json=chat_request("Hi"))
    client.post(URL, json=chat_request("More"))
    client.post(URL, json=chat_request("More"), headers={"x-offbook-step": "none"})
    fields = [(type(event), event.call) for event in sink.events]
    assert fields == [(FaultFired, 1), (ReplayServed, 1), (FaultFired, 2), (ReplayServed, 3)]
    assert sink.events[-1].matched_by == "prompt_hash"
    assert sink.events[-1].attempt == 1


def test_a_sink_gets_defaults_and_no_synthetic_answers():
    sink = offbook.MemorySink()
    client = offbook.sync_http_client(responses={}, sink=sink)
    client.post(URL, json=chat_request("Hi"))
    client.get("https://api.example/v1/models")
    assert [event.matched_by for event in sink.events] == ["default"]


def test_a_client_that_is_closed_closes_neither_the_others_nor_the_account(recording, tmp_path):
    database = f"sqlite:///{tmp_path / 'run.db'}"
    open_store(database).save(open_store(recording).load())
    with offbook.StandIn(database) as stand_in:
        other = stand_in.sync_http_client()
        with stand_in.sync_http_client() as client:
            client.post(URL, json=chat_request("Hi"))
        assert content_of(other.post(URL, json=chat_request("More"))) == "First"
        assert len(stand_in.calls) == 2
    assert [left.position for left in stand_in.unused()] == [1]


def test_faults_are_reported_that_fired_and_that_did_not():
    sink = offbook.MemorySink()
    faults = ["call=1: http_error 500", "call=9: timeout"]
    stand_in = offbook.StandIn(responses={"a": {"content": "Hello"}}, faults=faults, retry_after_ms=1, sink=sink)
    response = stand_in.sync_http_client().post(URL, json=chat_request("Hi"))
    assert response.status_code == 500
    assert response.headers["retry-after-ms"] == "1"
    assert [str(planned.fault.type) for planned in stand_in.fired()] == ["http_error"]
    assert [str(planned) for planned in stand_in.unfired()] == ["call=9: timeout"]
    assert [type(event) for event in sink.events] == [FaultFired]


def test_runs_are_kept_apart_by_a_header_or_by_their_paths(recording):
    stand_in = offbook.StandIn(recording)
    stand_in.start_session("b", faults=["call=1: http_error 503"])
    client = stand_in.sync_http_client()
    assert content_of(client.post(URL, json=chat_request("More"), headers={"x-offbook-session": "a"})) == "First"
    assert client.post("https://api.example/s/b/v1/chat/completions", json=chat_request("More")).status_code == 503
    assert content_of(client.post(URL, json=chat_request("More"))) == "First"
    assert [call.session for call in stand_in.calls] == ["b", "a", ""]
    assert len(stand_in.session("a").unused()) == 2


def test_clients_may_ask_from_many_threads(recording):
    entries = {"a": [{"content": str(number)} for number in range(200)]}
    stand_in = offbook.StandIn(responses=entries, strict=False)

    def ask(number):
        with stand_in.sync_http_client() as client:
            return content_of(client.post(URL, json=chat_request("Hi"), headers={"x-offbook-step": "a"}))

    with ThreadPoolExecutor(8) as threads:
        assert sorted(map(int, threads.map(ask, range(200)))) == list(range(200))
    assert [call.number for call in stand_in.calls] == list(range(1, 201))
    assert stand_in.unused() == []


def test_a_recording_that_breaks_meanwhile_is_logged_and_no_sdk_tries_again(recording, tmp_path, caplog):
    file = tmp_path / "run.db"
    open_store(f"sqlite:///{file}").save(open_store(recording).load())
    stand_in = offbook.StandIn(f"sqlite:///{file}")
    stand_in.close()
    file.write_bytes(b"no database")
    response = stand_in.sync_http_client().post(URL, json=chat_request("Hi"))
    assert response.status_code == 500
    assert response.headers["x-should-retry"] == "false"
    assert "POST /v1/chat/completions could not be answered" in caplog.text


@pytest.mark.parametrize(
    "options", [{"latency_ms": -1}, {"faults": ["call=1: nothing"]}, {"recording": "no/such.json"}]
)
def test_a_wrong_option_is_refused_at_once(options):
    with pytest.raises(InputError):
        offbook.StandIn(**options)
