"""What a recording that is there already answers, and what becomes of it, in each mode."""

import gzip
import os
import signal
import subprocess
import sys
import zlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.framing import PackedBodyError
from offbook.errors import InputError, RecordingFormatError
from offbook.messages import Response, TextDelta
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS
from offbook.wire.proxy.forwarding import decompressor_for
from offbook.wire.proxy.recorder import is_last_frame
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer
from tests.wire.proxy.recorded import DONE, HTTP, STOP, delta, exchanges, recording


@pytest.fixture(scope="module")
def upstream():
    """Answers with how often it was asked."""
    with LoopbackServer() as running:
        running.answer = lambda call: call.whole(chat_answer(f"answer {len(running.calls)}"))
        yield running


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch, upstream):
    monkeypatch.chdir(tmp_path)
    upstream.calls.clear()
    return request.param


def ask(server, text, *, step=""):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"x-offbook-step": step} if step else {}
    return HTTP.post(server.url + "/v1/chat/completions", json=body, headers=headers)


def said(server, text, *, step=""):
    return ask(server, text, step=step).json()["choices"][0]["message"]["content"]


def contents(location):
    return [exchange.content for exchange in exchanges(location)]


def record(location, upstream, *texts, mode="append", **options):
    with recording(location, upstream.url, record_mode=mode, **options) as server:
        return [said(server, text) for text in texts], server


def test_fresh_replaces_the_recording_when_the_server_has_ended(location, upstream):
    record(location, upstream, "a", "b")
    with recording(location, upstream.url, record_mode="fresh") as server:
        assert said(server, "a") == "answer 3"
        assert said(server, "c") == "answer 4"
        assert sorted(contents(location)) == ["answer 1", "answer 2"]
    assert sorted(contents(location)) == ["answer 3", "answer 4"]
    record(location, upstream, mode="fresh")
    assert sorted(contents(location)) == ["answer 3", "answer 4"]


def test_append_asks_upstream_always_and_adds(location, upstream):
    assert record(location, upstream, "a", "a")[0] == ["answer 1", "answer 2"]
    assert record(location, upstream, "a")[0] == ["answer 3"]
    assert contents(location) == ["answer 1", "answer 2", "answer 3"]


def test_once_records_if_there_is_nothing_and_else_replays_strictly(location, upstream):
    assert record(location, upstream, "a", mode="once")[0] == ["answer 1"]
    with recording(location, upstream.url, record_mode="once") as server:
        assert said(server, "a") == "answer 1"
        miss = ask(server, "b")
        assert miss.status_code == 422
        assert [call.outcome for call in server.calls] == ["served", "missed"]
        assert location in server.misses[0].text
        assert "OPENAI_API_KEY" in server.env
    assert len(upstream.calls) == len(contents(location)) == 1


def test_new_answers_from_what_is_there_and_asks_for_the_rest(location, upstream):
    record(location, upstream, "a")
    answers, server = record(location, upstream, "a", "b", "b", mode="new")
    assert answers == ["answer 1", "answer 2", "answer 3"]
    assert [call.outcome for call in server.calls] == ["served", "recorded", "recorded"]
    assert sorted(contents(location)) == ["answer 1", "answer 2", "answer 3"]


def test_new_serves_each_of_several_answers_once_and_then_asks(location, upstream):
    record(location, upstream, "a", "a")
    assert record(location, upstream, "a", "a", "a", mode="new")[0] == ["answer 1", "answer 2", "answer 3"]


def test_all_replaces_what_this_run_touches_and_leaves_the_rest(location, upstream):
    record(location, upstream, "a", "a", "b")
    assert record(location, upstream, "a", "a", mode="all")[0] == ["answer 4", "answer 5"]
    assert sorted(contents(location)) == ["answer 3", "answer 4", "answer 5"]


def test_an_empty_recording_is_one_that_has_to_be_made(location, upstream):
    record(location, upstream)
    assert record(location, upstream, "a", mode="once")[0] == ["answer 1"]
    assert record(location, upstream, "b", mode="new")[0] == ["answer 2"]


def test_faults_fire_at_what_a_recording_answers_too(location, upstream):
    record(location, upstream, "a")
    with recording(location, upstream.url, record_mode="new", faults=["call=1 attempt=1: http_error 500"]) as server:
        assert ask(server, "a").status_code == 500
        assert said(server, "a") == "answer 1"


def test_rules_of_the_recording_are_obeyed(location, upstream):
    record(location, upstream)
    store = open_store(location)
    document = store.load()
    document.meta["normalise"] = {"mask": ["[0-9]+"]}
    store.save(document)
    record(location, upstream, "it is 12:30")
    assert record(location, upstream, "it is 14:59", mode="new")[0] == ["answer 1"]


def test_a_recording_that_is_none_is_refused(tmp_path, upstream):
    path = tmp_path / "run.json"
    path.write_text("[]")
    with pytest.raises(RecordingFormatError):
        recording(path, upstream.url)
    path.write_bytes(orjson.dumps({"_version": 2, "_meta": {"normalise": {"nonsense": 1}}}))
    with pytest.raises(InputError, match="normalise"):
        recording(path, upstream.url)
    path.write_bytes(orjson.dumps({"a": {"content": "old"}}))
    with pytest.raises(RecordingFormatError, match="cannot be replayed strictly"):
        recording(path, upstream.url, record_mode="once")
    assert not path.with_name("run.json.journal").exists()


CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
SERVER = """
import sys
import offbook

with offbook.serving(record=sys.argv[1], upstreams={"openai": sys.argv[2] + "/v1"}) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def upstream_kill():
    with LoopbackServer() as running:
        yield running


def test_a_kill_behind_the_last_byte_loses_nothing(upstream_kill, tmp_path):
    path = tmp_path / "run.json"
    upstream_kill.answer = lambda call: call.whole(chat_answer("whole"))
    command = [sys.executable, "-c", SERVER, str(path), upstream_kill.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        place = process.stdout.readline().strip() + "/v1/chat/completions"
        assert HTTP.post(place, json=CHAT).status_code == 200
        upstream_kill.answer = lambda call: call.stream(delta("streamed"), STOP, DONE)
        with HTTP.stream("POST", place, json=CHAT | {"stream": True}) as answer:
            read = b""
            for piece in answer.iter_raw():
                read += piece
                if read.endswith(DONE):
                    os.kill(process.pid, signal.SIGKILL)
                    break
    assert [exchange.content for exchange in exchanges(path)] == ["whole", "streamed"]


TEXT = '"done": true, "type":"message_stop"\ndata: [DONE]'


@pytest.mark.parametrize("protocol", [name for name in sorted(CODECS) if name != "gemini"])
def test_the_last_frame_of_a_protocol_is_known_and_no_other_is_taken_for_it(protocol):
    response = Response(TEXT, "m")
    *frames, last = CODECS[protocol].encode_stream(response, [TextDelta(TEXT)])
    assert is_last_frame(last)
    assert not any(is_last_frame(frame) for frame in frames)


def test_spaces_do_not_matter():
    assert is_last_frame(b"data:[DONE]\n\n")
    assert is_last_frame(b'event: response.completed\r\ndata: {"type": "response.completed"}\r\n\r\n')


def test_a_text_that_quotes_an_end_is_none():
    assert not is_last_frame(b"data: " + orjson.dumps({"content": TEXT}) + b"\n\n")


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), (" X-GZIP", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
@given(body=st.binary(max_size=200), cut=st.integers(1, 30))
def test_pieces_unpack_to_the_body(encoding, pack, body, cut):
    packed, unpacker = pack(body), decompressor_for(encoding)
    pieces = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert b"".join(map(unpacker.feed, pieces)) == body


def test_members_that_follow_one_another_are_one_body():
    assert decompressor_for("gzip").feed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


def test_what_was_flushed_comes_at_once():
    packer = zlib.compressobj(wbits=31)
    assert decompressor_for("gzip").feed(packer.compress(b"a") + packer.flush(zlib.Z_SYNC_FLUSH)) == b"a"


def test_a_body_that_is_not_packed_as_it_says_is_an_error():
    with pytest.raises(PackedBodyError):
        decompressor_for("gzip").feed(b"plain text, no gzip")


@pytest.mark.parametrize("encoding", ["", "identity", "br", "gzip, br"])
def test_other_encodings_are_left_alone(encoding):
    assert decompressor_for(encoding) is None
