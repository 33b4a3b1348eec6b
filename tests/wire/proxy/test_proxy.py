"""What a recording server has no answer for is asked of the real API, passed on as it comes, and recorded."""

import gzip
import logging
import resource
import shutil
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import brotli
import httpx2
import orjson
import pytest
import zstandard

import offbook
from offbook.errors import InputError
from offbook.events import CallRecorded, FaultFired
from offbook.faults import ConnectionReset, HttpError, MalformedResponse, StreamTruncate, Timeout
from offbook.messages import Usage
from offbook.recording.stores.locate import open_store
from offbook.wire.proxy import recorder as capture
from tests.servers.loopback import PATIENCE_S, LoopbackServer
from tests.servers.models import chat_answer
from tests.wire.http_requests import call_of
from tests.wire.proxy.recorded import DONE, HTTP, STOP, delta, event, exchanges, recording
from tests.wire.raw_client import RawClient

KEY = "sk-live-0123456789abcdefghijklmnop"
FRAMES = (delta("Hel"), delta("lo"), STOP, DONE)
FIELDS_NOBODY_KNOWS = {"x_new": [1, {"a": None}], "service_tier": "flex"}


@pytest.fixture(scope="module")
def running():
    with LoopbackServer() as upstream:
        yield upstream


@pytest.fixture
def upstream(running):
    running.calls.clear()
    running.answer = lambda call: call.whole(chat_answer("Hello"))
    return running


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.json"


@pytest.fixture
def server(path, upstream):
    with recording(path, upstream.url) as running:
        yield running


def chat(text="Hi", **fields):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def ask(server, body=None, *, place="/v1/chat/completions", **options):
    return HTTP.post(server.url + place, json=body or chat(), **options)


def streamed(server, *, place="/v1/chat/completions", body=None):
    return HTTP.stream("POST", server.url + place, json=body or chat(stream=True))


def peak_memory_kb():
    """The largest part of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class TestPassingOn:
    def test_the_answer_comes_back_as_upstream_gave_it(self, server, upstream, path):
        body = b'{ "odd" : "spacing", "choices" : [] }'
        upstream.answer = lambda call: call.whole(body, status=203, x_request_id="r1", x_other="o", set_cookie="a=b")
        answer = ask(server)
        assert answer.status_code == 203
        assert answer.content == body
        headers = {name: answer.headers[name] for name in ("x-request-id", "x-other", "set-cookie", "content-length")}
        assert headers == {"x-request-id": "r1", "x-other": "o", "set-cookie": "a=b", "content-length": str(len(body))}
        assert exchanges(path)[0].wire.headers == {"content-type": "application/json", "x-request-id": "r1"}

    def test_the_call_goes_upstream_as_the_client_made_it_but_for_what_is_ours(self, server, upstream):
        sent = orjson.dumps(chat(**FIELDS_NOBODY_KNOWS))
        headers = {"authorization": f"Bearer {KEY}", "x-offbook-step": "plan", "x-mine": "1", "user-agent": "me"}
        place = server.session_url("a/b") + "/v1/chat/completions?api-version=2"
        assert HTTP.post(place, content=sent, headers=headers).status_code == 200
        (call,) = upstream.calls
        assert call.path == "/v1/chat/completions?api-version=2"
        assert call.body == sent
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert call.headers["x-mine"] == "1"
        assert call.headers["accept-encoding"] == "identity"
        assert call.headers["user-agent"] == "me"
        assert not any(name.startswith("x-offbook") for name in call.headers)

    def test_the_path_is_spelt_as_the_client_spelt_it(self, server, upstream):
        HTTP.get(server.url + "/v1/models/meta%2Fllama%20x", params={"q": "a b"})
        assert upstream.calls[0].path == "/v1/models/meta%2Fllama%20x?q=a+b"

    def test_the_first_frame_comes_before_the_last_is_made(self, server, upstream):
        is_read = threading.Event()

        def answer(call):
            call.stream(FRAMES[0])
            assert is_read.wait(PATIENCE_S)
            for frame in FRAMES[1:]:
                call.chunk(frame)

        upstream.answer = answer
        with streamed(server) as stream:
            pieces = stream.iter_raw()
            assert next(pieces) == FRAMES[0]
            is_read.set()
            assert b"".join(pieces) == b"".join(FRAMES[1:])

    def test_half_a_frame_is_passed_on_at_once(self, server, upstream):
        is_read = threading.Event()

        def answer(call):
            call.stream(FRAMES[0][:10])
            assert is_read.wait(PATIENCE_S)
            call.chunk(FRAMES[0][10:] + STOP + DONE)

        upstream.answer = answer
        with streamed(server) as stream:
            pieces = stream.iter_raw()
            assert next(pieces) == FRAMES[0][:10]
            is_read.set()
            assert b"".join(pieces).endswith(DONE)

    def test_the_last_frame_is_not_held_for_long_if_upstream_does_not_end(self, upstream, path):
        is_read = threading.Event()

        def answer(call):
            call.stream(*FRAMES)
            assert is_read.wait(PATIENCE_S)
            call.chunk(b": late\n\n")

        upstream.answer = answer
        with recording(path, upstream.url, upstream_end_wait_s=0.01) as server, streamed(server) as stream:
            read = b""
            for piece in stream.iter_raw():
                read += piece
                if read.endswith(DONE):
                    is_read.set()
        assert read == b"".join(FRAMES) + b": late\n\n"
        assert exchanges(path)[0].wire.content() == read

    def test_what_comes_behind_the_last_frame_is_recorded_before_a_client_can_leave_at_that_frame(self, upstream, path):
        """A call to the server between two pieces makes them arrive apart."""

        def answer(call):
            call.stream(*FRAMES)
            for number in range(3):
                assert HTTP.get(f"{server.url}/_offbook/sessions/x{number}").status_code
                call.chunk(b": late %d\n\n" % number)

        upstream.answer = answer
        with recording(path, upstream.url, upstream_end_wait_s=PATIENCE_S) as server, streamed(server) as stream:
            read = b""
            for piece in stream.iter_raw():
                read += piece
                if DONE in read:
                    break
        late = b"".join(b": late %d\n\n" % number for number in range(3))
        assert exchanges(path)[0].wire.content() == b"".join(FRAMES) + late

    @pytest.mark.parametrize("pieces", [(b"{}",), (b"{", b"}")])
    def test_an_error_is_recorded_before_a_client_can_leave_at_its_status(self, upstream, path, pieces):
        def answer(call):
            call.begin(401, "application/json", content_length="2")
            for number, piece in enumerate(pieces):
                assert HTTP.get(f"{server.url}/_offbook/sessions/x{number}").status_code
                call.wfile.write(piece)

        upstream.answer = answer
        with (
            recording(path, upstream.url, upstream_end_wait_s=PATIENCE_S) as server,
            HTTP.stream("GET", server.url + "/v1/files/x") as stream,
        ):
            assert stream.status_code == 401
            assert len(exchanges(path)) == 1

    def test_a_head_request_and_an_empty_answer_are_passed_on(self, server, upstream, path):
        upstream.answer = lambda call: call.begin(200, "text/plain", content_length="7")
        answer = HTTP.head(server.url + "/v1/files/x")
        assert answer.headers["content-length"] == "7"
        assert answer.content == b""
        upstream.answer = lambda call: call.begin(204, "text/plain")
        assert HTTP.get(server.url + "/v1/files/x").status_code == 204
        upstream.answer = lambda call: call.whole(b"")
        assert HTTP.get(server.url + "/v1/files/y").content == b""
        assert [exchange.wire.body for exchange in exchanges(path)] == [None, None, None]

    def test_redirects_are_the_clients_own(self, server, upstream):
        upstream.answer = lambda call: call.whole(b"", status=307, location="http://127.0.0.1:9/")
        answer = ask(server)
        assert answer.status_code == 307
        assert answer.headers["location"] == "http://127.0.0.1:9/"

    def test_proxies_of_the_environment_do_not_stand_before_this_machine(self, path, upstream, monkeypatch):
        for name in ("http_proxy", "all_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        with recording(path, upstream.url) as server:
            assert ask(server).status_code == 200

    def test_a_huge_body_is_passed_on_and_kept(self, server, upstream, path):
        body = b"x" * 9_000_000
        upstream.answer = lambda call: call.whole(body, content_type="application/octet-stream")
        assert HTTP.get(server.url + "/v1/files/f/content").content == body
        assert exchanges(path)[0].wire.content() == body

    def test_what_is_too_large_to_be_kept_is_passed_on_all_the_same(self, server, upstream, path, monkeypatch, caplog):
        monkeypatch.setattr(capture, "MAX_KEPT_BYTES", 1000)
        upstream.answer = lambda call: call.stream(b"x" * 900, b"y" * 900, b"z" * 900)
        assert HTTP.get(server.url + "/v1/files/f/content").content == b"x" * 900 + b"y" * 900 + b"z" * 900
        assert server.calls[0].outcome == "passed"
        assert server.calls[0].status == 200
        assert exchanges(path) == []
        assert "/v1/files/f/content: not recorded" in caplog.text


class TestWhatIsRecorded:
    def test_a_whole_answer_is_kept_as_bytes_and_as_what_they_say(self, server, upstream, path):
        body = orjson.dumps(orjson.loads(chat_answer("Hello", model="gpt-4o")) | FIELDS_NOBODY_KNOWS)
        upstream.answer = lambda call: call.whole(body)
        ask(server, chat(temperature=0.5), headers={"x-offbook-step": "greet"})
        (stored,) = open_store(path).read()
        exchange = stored.exchange
        assert stored.key == "greet"
        assert exchange.content == "Hello"
        assert exchange.model == "gpt-4o"
        assert exchange.provider == "openai"
        assert exchange.usage == Usage(3, 2, 5)
        assert exchange.finish_reason == "stop"
        assert exchange.fault is None
        assert exchange.cost_usd > 0
        assert exchange.latency_ms > 0
        assert exchange.request_fields()["temperature"] == 0.5
        assert exchange.wire.protocol == "openai_chat"
        assert exchange.wire.status == 200
        assert exchange.wire.body == body.decode()

    def test_a_stream_is_kept_frame_by_frame_with_times_however_it_was_cut(self, server, upstream, path):
        whole = b": hi\n\n" + b"".join(FRAMES)
        upstream.answer = lambda call: call.stream(*[whole[at : at + 7] for at in range(0, len(whole), 7)])
        with streamed(server) as stream:
            assert stream.read() == whole
        (exchange,) = exchanges(path)
        assert [frame for _, frame in exchange.wire.timed_frames()] == [b": hi\n\n", *FRAMES]
        times = [at_ms for at_ms, _ in exchange.wire.frames]
        assert times == sorted(times)
        assert 0 < times[0] == round(times[0], 3) <= exchange.latency_ms
        assert [piece for _, piece in exchange.chunks] == ["Hel", "lo"]
        assert [at_ms for at_ms, _ in exchange.chunks] == times[1:3]
        assert exchange.content == "Hello"
        assert exchange.model == "m-1"
        assert exchange.fault is None

    def test_a_call_is_on_the_list_and_an_event_is_sent(self, path, upstream):
        sink = offbook.MemorySink()
        with recording(path, upstream.url, sink=sink) as server:
            ask(server, headers={"x-offbook-step": "s", "x-stainless-retry-count": "1"})
            (call,) = server.calls
        assert call.outcome == "recorded"
        assert call.status == 200
        assert call.model == "m"
        assert call.key == "s"
        assert call.attempt == 2
        (record_event,) = [event for event in sink.events if isinstance(event, CallRecorded)]
        assert record_event.step_id == "s"
        assert record_event.provider == "openai"
        assert record_event.model == "demo"
        assert record_event.call == 1
        assert record_event.attempt == 2
        assert record_event.latency_s > 0

    def test_plain_http_is_kept_under_what_was_asked(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(b'{"data": []}', status=404)
        HTTP.get(server.url + "/v1/models", params={"limit": 2, "key": KEY})
        (exchange,) = exchanges(path)
        assert exchange.http_fields() == {"method": "GET", "path": "/v1/models?limit=2", "body": None}
        assert exchange.wire.protocol == "http"
        assert exchange.wire.status == 404
        assert exchange.fault is None
        assert upstream.calls[0].path == f"/v1/models?limit=2&key={KEY}"

    def test_a_body_that_no_codec_reads_is_plain_http(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(b'{"error": {"message": "bad"}}', status=400)
        assert HTTP.post(server.url + "/v1/chat/completions", content=b"no json").status_code == 400
        assert exchanges(path)[0].wire.protocol == "http"

    def test_bytes_that_are_no_text_come_through_and_are_kept(self, server, upstream, path):
        body = bytes(range(256))
        upstream.answer = lambda call: call.whole(body, content_type="audio/mpeg")
        assert ask(server, {"input": "x"}, place="/v1/audio/speech").content == body
        upstream.answer = lambda call: call.stream(event(b"\xff\xfe"), DONE)
        with streamed(server) as stream:
            assert stream.read() == event(b"\xff\xfe") + DONE
        assert [exchange.wire.content() for exchange in exchanges(path)] == [body, event(b"\xff\xfe") + DONE]

    def test_a_body_that_comes_packed_though_nobody_asked_is_passed_on_so_and_recorded_unpacked(
        self, server, upstream, path
    ):
        body = chat_answer("Packed")
        packed = [bytes([byte]) for byte in gzip.compress(body)]
        upstream.answer = lambda call: call.stream(*packed, content_type="application/json", content_encoding="gzip")
        answer = ask(server)
        assert answer.content == body
        assert answer.headers["content-encoding"] == "gzip"
        assert exchanges(path)[0].content == "Packed"
        assert exchanges(path)[0].wire.content() == body

    def test_a_small_body_that_unpacks_to_a_very_large_one_costs_no_memory(self, server, upstream, path):
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        zeros = bytes(1024 * 1024)
        bomb = b"".join(packer.compress(zeros) for _ in range(500)) + packer.flush()
        upstream.answer = lambda call: call.whole(bomb, content_encoding="gzip")
        before_kb = peak_memory_kb()
        with HTTP.stream("GET", server.url + "/v1/models") as answer:
            assert b"".join(answer.iter_raw()) == bomb
        assert peak_memory_kb() - before_kb < 200 * 1024
        assert server.calls[0].outcome == "passed"
        assert exchanges(path) == []

    @pytest.mark.parametrize(
        ("name", "pack"), [("zstd", zstandard.compress), ("br", brotli.compress), ("gzip", gzip.compress)]
    )
    def test_a_request_that_a_client_packs_goes_on_as_it_is_and_is_recorded_and_answered_unpacked(
        self, server, upstream, path, name, pack
    ):
        upstream.answer = lambda call: call.whole(chat_answer("Packed"))
        body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
        packed, headers = pack(body), {"content-type": "application/json", "content-encoding": name}
        asked = HTTP.post(server.url + "/v1/chat/completions", content=packed, headers=headers)
        assert upstream.calls[-1].body == packed
        assert upstream.calls[-1].headers["content-encoding"] == name
        assert exchanges(path)[0].request_fields()["messages"][0]["content"] == "Hi"
        with offbook.serving(path) as replay:
            place = replay.url + "/v1/chat/completions"
            assert HTTP.post(place, content=packed, headers=headers).content == asked.content
            assert HTTP.post(place, content=body).content == asked.content

    def test_a_packing_that_is_not_known_is_passed_on_and_its_bytes_are_not_kept(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(b"packed", content_encoding="x-odd")
        with HTTP.stream("GET", server.url + "/v1/models") as answer:
            assert b"".join(answer.iter_raw()) == b"packed"
            assert answer.headers["content-encoding"] == "x-odd"
        assert exchanges(path)[0].wire.body == "a body with the encoding x-odd is not recorded"

    def test_what_is_not_packed_as_it_says_is_cut_off(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(b"no gzip at all", content_encoding="gzip")
        with pytest.raises(httpx2.RemoteProtocolError):
            ask(server)
        assert exchanges(path)[0].fault == StreamTruncate(0, "cut")

    def test_what_a_codec_cannot_read_is_passed_on_and_kept_with_a_fault(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(b"<html>", content_type="text/html")
        assert ask(server).text == "<html>"
        (exchange,) = exchanges(path)
        assert exchange.fault == MalformedResponse("<html>")
        assert exchange.wire.body == "<html>"

    def test_concurrent_calls_are_recorded_whole(self, server, upstream, path):
        everybody = threading.Barrier(16)

        def answer(call):
            everybody.wait(PATIENCE_S)
            text = orjson.loads(call.body)["messages"][0]["content"]
            call.stream(*[delta(f"{text}.{index} ") for index in range(20)], STOP, DONE)

        upstream.answer = answer

        def one(number):
            with streamed(server, body=chat(str(number), stream=True)) as stream:
                return stream.read()

        with ThreadPoolExecutor(16) as pool:
            read = list(pool.map(one, range(16)))
        contents = {exchange.content: exchange.wire.content() for exchange in exchanges(path)}
        texts = ["".join(f"{number}.{index} " for index in range(20)) for number in range(16)]
        assert sorted(contents) == sorted(texts)
        assert [contents[text] for text in texts] == read


class TestSecrets:
    def test_no_key_is_ever_stored_or_repeated(self, server, upstream, path, caplog):
        caplog.set_level(logging.DEBUG)
        upstream.answer = lambda call: call.whole(b'{"error": {"message": "no"}}', status=401)
        ask(server, headers={"authorization": f"Bearer {KEY}"})
        ask(server, headers={"x-api-key": KEY, "api-key": KEY}, place="/v1/messages")
        ask(server, {"contents": []}, place=f"/v1beta/models/m:generateContent?key={KEY}")
        HTTP.get(server.url + f"/v1beta/models?key={KEY}", headers={"x-goog-api-key": KEY, "cookie": f"k={KEY}"})
        server.stop()
        assert len(exchanges(path)) == 4
        assert KEY.encode() not in path.read_bytes()
        assert not any(KEY in str(call) for call in server.calls)
        assert [call.path.partition("key=")[2] for call in upstream.calls] == ["", "", KEY, KEY]
        messages = [record.getMessage() for record in caplog.records if record.threadName == "offbook-wire"]
        assert any("HTTP Request" in line for line in messages)
        assert not any(KEY in line for line in messages)

    def test_secrets_in_bodies_reach_the_client_and_not_the_file(self, server, upstream, path):
        upstream.answer = lambda call: call.whole(chat_answer(f"the key is {KEY}"))
        assert KEY in ask(server, chat(f"keep {KEY}")).text
        upstream.answer = lambda call: call.stream(delta("key " + KEY[:12]), delta(KEY[12:]), STOP, DONE)
        with streamed(server, body=chat(f"again {KEY}", stream=True)) as stream:
            stream.read()
        server.stop()
        data = path.read_bytes()
        assert KEY.encode() not in data
        assert KEY[12:].encode() not in data
        assert b"<redacted:" in data

    def test_what_counts_as_a_secret_can_be_said(self, path, upstream):
        upstream.answer = lambda call: call.whole(chat_answer("room 1234"))
        with recording(path, upstream.url, redactor=offbook.Redactor(patterns=("room [0-9]+",))) as server:
            assert "1234" in ask(server).text
        assert b"1234" not in path.read_bytes()

    def test_the_servers_own_key_stays_here_and_the_vendors_goes_upstream(self, path, upstream):
        with recording(path, upstream.url, api_key="ours", upstream_keys={"openai": "vendors"}) as server:
            assert server.env["OPENAI_API_KEY"] == "ours"
            assert ask(server, headers={"authorization": "Bearer ours"}).status_code == 200
            ask(server, headers={"x-api-key": "ours", "anthropic-version": "1"}, place="/v1/messages?key=ours")
        assert upstream.calls[0].headers["authorization"] == "Bearer vendors"
        assert upstream.calls[1].path == "/v1/messages"
        assert "x-api-key" not in upstream.calls[1].headers

    def test_while_recording_clients_keep_the_keys_they_have(self, path, upstream):
        with recording(path, upstream.url, upstream_keys={"google": "vendors"}) as server:
            assert [name for name in server.env if "KEY" in name] == ["GOOGLE_API_KEY", "GEMINI_API_KEY"]
            assert server.env["OPENAI_BASE_URL"] == server.url + "/v1"


class TestFailures:
    def test_an_error_is_passed_on_and_kept_as_the_fault_it_was(self, server, upstream, path):
        body = b'{"error": {"message": "slow down", "type": "rate_limit"}}'
        upstream.answer = lambda call: call.whole(body, status=429, retry_after="7", x_request_id="r")
        answer = ask(server)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "7"
        assert answer.content == body
        (exchange,) = exchanges(path)
        headers = {"content-type": "application/json", "retry-after": "7", "x-request-id": "r"}
        assert exchange.fault == HttpError(429, headers, body.decode())
        assert exchange.wire.status == 429
        assert exchange.wire.headers == headers
        assert exchange.wire.body == body.decode()

    @pytest.mark.parametrize(
        ("breaking", "error", "ending"),
        [("cut", httpx2.RemoteProtocolError, "cut"), ("reset", httpx2.ReadError, "ConnectionError")],
    )
    def test_a_stream_that_breaks_off_breaks_off_for_the_client_and_in_the_recording(
        self, server, upstream, path, breaking, error, ending
    ):
        is_read = threading.Event()

        def answer(call):
            call.stream(FRAMES[0], FRAMES[1])
            assert is_read.wait(PATIENCE_S)
            getattr(call, breaking)()

        upstream.answer = answer
        read = b""
        with streamed(server) as stream, pytest.raises(error):  # noqa: PT012 - read piece by piece
            for piece in stream.iter_raw():
                read += piece
                if read == FRAMES[0] + FRAMES[1]:
                    is_read.set()
        assert read == FRAMES[0] + FRAMES[1]
        (exchange,) = exchanges(path)
        assert exchange.fault == StreamTruncate(2, ending)
        assert exchange.content == "Hello"
        assert exchange.wire.content() == read
        assert server.calls[0].outcome == "recorded"
        assert server.calls[0].status == 200

    def test_a_body_that_breaks_off_is_replayed_broken_off(self, server, upstream, path):
        def answer(call):
            call.begin(200, "application/json", content_length="100")
            call.wfile.write(b'{"half": ')
            call.cut()

        upstream.answer = answer
        for _ in range(2):
            with RawClient(server.url) as client:
                received = client.ask(call_of())
                assert received.body == b'{"half": '
                assert received.end == "closed"
            server.stop()
            server = offbook.serving(path).start()
        server.stop()
        assert exchanges(path)[0].fault == StreamTruncate(0, "cut")

    def test_a_server_that_is_not_there_is_reported_by_a_502_that_names_it(self, path):
        with socket.create_server(("127.0.0.1", 0)) as busy_socket:
            url = f"http://127.0.0.1:{busy_socket.getsockname()[1]}"
        with recording(path, url) as server:
            answer = ask(server, headers={"authorization": f"Bearer {KEY}"}, place=f"/v1/messages?key={KEY}")
            call = server.calls[0]
        assert answer.status_code == 502
        assert answer.json()["type"] == "error"
        message = answer.json()["error"]["message"]
        assert f"no answer from {url} (ConnectError" in message
        assert "--upstream anthropic=…, or upstreams={'anthropic'" in message
        assert KEY not in answer.text
        assert call.outcome == "recorded"
        assert call.status == 502
        assert call.failure.startswith(f"no answer from {url} (ConnectError")
        (exchange,) = exchanges(path)
        assert exchange.fault == ConnectionReset()
        assert exchange.wire is None

    def test_a_server_that_hangs_up_without_an_answer_is_reported_by_a_502(self, server, upstream, path):
        upstream.answer = lambda call: call.cut()
        assert ask(server).status_code == 502
        assert exchanges(path)[0].fault == ConnectionReset()

    def test_an_answer_with_a_status_that_is_none_is_reported_by_a_502(self, server, upstream):
        upstream.answer = lambda call: call.whole(b"", status=999)
        assert ask(server).status_code == 502

    def test_a_server_that_says_nothing_in_time_is_reported_by_a_504(self, path, upstream):
        upstream.answer = lambda call: call.has_client_left()
        with recording(path, upstream.url, upstream_timeout_s=0.05) as server:
            answer = ask(server)
            assert answer.status_code == 504
            assert server.calls[0].status == 504
        assert f"no answer from {upstream.url} in time (ReadTimeout)" in answer.json()["error"]["message"]
        (exchange,) = exchanges(path)
        assert isinstance(exchange.fault, Timeout)
        assert exchange.fault.after_ms >= 50
        assert exchange.latency_ms == 0.0

    def test_a_stream_that_falls_silent_is_reset_and_kept_as_silent(self, path, upstream):
        def answer(call):
            call.stream(FRAMES[0])
            call.has_client_left()

        upstream.answer = answer
        with recording(path, upstream.url, upstream_timeout_s=1.0) as server:
            with streamed(server) as stream, pytest.raises(httpx2.ReadError):
                stream.read()
            assert server.calls[0].outcome == "recorded"
        assert exchanges(path)[0].fault == StreamTruncate(1, "TimeoutError")

    def test_a_step_that_cannot_be_a_key_is_refused_before_anything_is_asked(self, server, upstream):
        answer = ask(server, headers={"x-offbook-step": "_meta"})
        assert answer.status_code == 400
        assert answer.headers["x-should-retry"] == "false"
        assert "starts with '_'" in answer.json()["error"]["message"]
        assert server.calls[0].outcome == "refused"
        assert upstream.calls == []

    def test_a_path_that_makes_no_url_is_refused(self, path, upstream):
        with recording(path, f"{upstream.url}/{'p' * 40_000}") as server:
            answer = HTTP.get(f"{server.url}/v1/{'x' * 30_000}")
        assert answer.status_code == 400
        assert upstream.calls == []

    def test_what_cannot_be_written_is_not_passed_off_as_answered(self, tmp_path, upstream, caplog):
        path = tmp_path / "folder" / "run.json"
        with recording(path, upstream.url) as server:
            ask(server)
            shutil.rmtree(path.parent)
            path.parent.write_text("no folder")
            with pytest.raises(httpx2.RemoteProtocolError):
                ask(server)
        assert "not recorded, and so not answered" in caplog.text


class TestClientsThatLeave:
    def test_the_upstream_call_stops_and_what_came_is_kept_as_a_truncated_stream(self, server, upstream, path):
        has_stopped = threading.Event()

        def answer(call):
            call.stream(FRAMES[0], FRAMES[1])
            if call.has_client_left():
                has_stopped.set()

        upstream.answer = answer
        with streamed(server) as stream:
            read = b""
            for piece in stream.iter_raw():
                read += piece
                if read == FRAMES[0] + FRAMES[1]:
                    break
        assert has_stopped.wait(PATIENCE_S)
        server.stop()
        (exchange,) = exchanges(path)
        assert exchange.fault == StreamTruncate(2, "clean")
        assert exchange.content == "Hello"
        assert exchange.wire.content() == read
        assert server.calls[0].outcome == "recorded"

    def test_one_that_leaves_behind_the_last_event_has_got_all(self, upstream, path):
        has_stopped = threading.Event()

        def answer(call):
            call.stream(*FRAMES)
            if call.has_client_left():
                has_stopped.set()

        upstream.answer = answer
        with recording(path, upstream.url, upstream_end_wait_s=0.01) as server:
            with streamed(server) as stream:
                read = b""
                for piece in stream.iter_raw():
                    read += piece
                    if read.endswith(DONE):
                        break
            assert has_stopped.wait(PATIENCE_S)
        (exchange,) = exchanges(path)
        assert exchange.fault is None
        assert exchange.content == "Hello"
        assert exchange.finish_reason == "stop"

    @pytest.mark.parametrize("begins", [True, False])
    def test_of_a_whole_answer_nothing_is_kept_that_nobody_waited_for(self, server, upstream, path, begins):
        is_asked, has_stopped = threading.Event(), threading.Event()

        def answer(call):
            if begins:
                call.begin(200, "application/json", content_length="100")
                call.wfile.write(b"{")
            is_asked.set()
            if call.has_client_left():
                has_stopped.set()

        upstream.answer = answer
        with RawClient(server.url) as client:
            head = f"POST {client.prefix}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n"
            client.send(head.encode() + b"{}")
            assert is_asked.wait(PATIENCE_S)
            if begins:
                assert client.socket.recv(1) == b"H"
        assert has_stopped.wait(PATIENCE_S)
        server.stop()
        assert exchanges(path) == []
        assert [call.outcome for call in server.calls] == ["passed"]

    def test_stopping_the_server_keeps_what_came_so_far(self, server, upstream, path):
        def answer(call):
            call.stream(FRAMES[0])
            call.has_client_left()

        upstream.answer = answer
        with streamed(server) as stream:
            pieces = stream.iter_raw()
            assert next(pieces) == FRAMES[0]
            server.stop()
            with pytest.raises(httpx2.TransportError):
                next(pieces)
        assert exchanges(path)[0].fault == StreamTruncate(1, "clean")
        assert not path.with_name("run.json.journal").exists()


class TestFaults:
    def test_those_that_need_no_answer_never_reach_upstream(self, path, upstream):
        faults = ["call=1: http_error 503", "call=2: connection_reset"]
        with recording(path, upstream.url, faults=faults) as server:
            assert ask(server, chat("a")).status_code == 503
            with pytest.raises(httpx2.TransportError):
                ask(server, chat("b"))
            assert ask(server, chat("c")).status_code == 200
            assert server.unfired() == []
        assert len(upstream.calls) == len(exchanges(path)) == 1

    def test_those_that_break_an_answer_leave_the_recording_clean(self, path, upstream):
        upstream.answer = lambda call: call.stream(*FRAMES, x_request_id="r")
        sink = offbook.MemorySink()
        faults = ["call=1: stream_truncate 1", "call=2: partial_response"]
        with recording(path, upstream.url, faults=faults, sink=sink) as server:
            with streamed(server, body=chat("a", stream=True)) as stream:
                assert stream.headers["x-request-id"] == "r"
                pieces = stream.iter_raw()
                assert next(pieces) == FRAMES[0]
                with pytest.raises(httpx2.ReadError):
                    next(pieces)
            with streamed(server, body=chat("b", stream=True)) as stream:
                assert b'"length"' in stream.read()
            calls = server.calls
        assert [(call.outcome, call.fault, call.status) for call in calls] == [
            ("fault", "stream_truncate", 200),
            ("fault", "partial_response", 200),
        ]
        assert [exchange.content for exchange in exchanges(path)] == ["Hello", "Hello"]
        assert [exchange.fault for exchange in exchanges(path)] == [None, None]
        assert {call.key for call in calls} == {exchange.request_hash for exchange in exchanges(path)}
        fired = [each.fault_type for each in sink.events if isinstance(each, FaultFired)]
        assert fired == ["stream_truncate", "partial_response"]

    def test_an_answer_that_has_failed_by_itself_is_passed_on_as_it_is(self, path, upstream):
        upstream.answer = lambda call: call.whole(b'{"error": {"message": "no"}}', status=400)
        with recording(path, upstream.url, faults=["call=1: partial_response"]) as server:
            answer = ask(server)
            assert answer.status_code == 400
            assert answer.content == b'{"error": {"message": "no"}}'
            assert server.calls[0].status == 400
            assert server.calls[0].fault is None

    def test_an_upstream_that_is_not_there_is_reported_also_where_a_fault_waited(self, path, upstream):
        upstream.answer = lambda call: call.cut()
        with recording(path, upstream.url, faults=["call=1: partial_response"]) as server:
            assert ask(server).status_code == 502

    def test_an_answer_too_large_to_be_held_cannot_be_broken(self, path, upstream, monkeypatch):
        monkeypatch.setattr(capture, "MAX_KEPT_BYTES", 10)
        with recording(path, upstream.url, faults=["call=1: partial_response"]) as server:
            answer = ask(server)
        assert answer.status_code == 502
        assert exchanges(path) == []
        assert "too large to apply a fault" in answer.json()["error"]["message"]


class TestOptions:
    def test_a_server_does_not_ask_itself(self, path):
        with socket.create_server(("127.0.0.1", 0)) as busy_socket:
            port = busy_socket.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is the upstream of ollama"):
            offbook.serving(record=path, port=port, upstreams={"ollama": f"http://localhost:{port}"})
        with socket.create_server(("127.0.0.1", port)):
            pass

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"record": "x.json", "recording": "y.json"}, "give record, or else a recording or responses"),
            ({"record": "x.json", "responses": {}}, "give record, or else a recording or responses"),
            ({"record": "x.json", "strict": True}, "leave out strict"),
            ({"record": "x.json", "default_response": ""}, "leave out strict"),
            ({"record": "x.json", "record_mode": "some"}, "unknown mode 'some'"),
            ({"responses": {}, "upstreams": {"openai": "http://localhost"}}, "no call goes upstream"),
            ({"record": "x.json", "upstreams": {"opanai": "http://localhost"}}, "did you mean 'openai'"),
            ({"record": "x.json", "host": "256.0.0.1", "api_key": "k"}, "cannot listen"),
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, tmp_path, monkeypatch, options, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InputError, match=message):
            offbook.serving(**options)
