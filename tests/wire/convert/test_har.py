"""HAR: what goes out comes in again, to the byte; what others wrote becomes a recording."""

import json
from base64 import b64encode

import httpx2
import pytest

import offbook
from offbook import MockProvider, RecordingProvider, ToolCall, Usage
from offbook.messages import Response, deltas_of
from offbook.recording.format.file import parse_document
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS
from offbook.wire.convert.har import write_har
from tests.wire.convert.importing import imported, write_json
from tests.wire.http_requests import PROTOCOLS, TOOL, http_call, request_of

ANSWER = Response(
    "Hé\u2028llo",
    "m",
    usage=Usage.of(5, 7),
    finish_reason="tool_calls",
    tool_calls=(ToolCall("look_up", {"id": 1}, "call_1"),),
)
REQUEST = {
    "method": "POST",
    "url": "https://api.openai.com/v1/chat/completions",
    "headers": [{"name": "Authorization", "value": "Bearer my-own-secret-key"}, {"name": ":method", "value": "POST"}],
    "postData": {"mimeType": "application/json", "text": '{"model":"m","messages":[{"role":"user","content":"Hi"}]}'},
}
BODY = (
    '{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},'
    '"finish_reason":"stop"}]}'
)
RESPONSE = {
    "status": 200,
    "headers": [{"name": "Content-Type", "value": "application/json"}, {"name": "Content-Encoding", "value": "br"}],
    "content": {"size": len(BODY), "mimeType": "application/json", "text": BODY},
}
TIMES = {"startedDateTime": "2026-10-01T12:00:00.000+02:00", "time": 250.5, "timings": {"send": 1, "wait": 100}}


def archive(path, *entries):
    return write_json(path, {"log": {"version": "1.2", "creator": {}, "entries": entries}})


def entry(*, request=None, response=None, **fields):
    return {"request": REQUEST | (request or {}), "response": RESPONSE | (response or {}), **TIMES, **fields}


def answering(protocol):
    """An API of that protocol, whole and streamed."""
    codec = CODECS[protocol]

    def respond(request):
        if request.method == "GET":
            return httpx2.Response(200, json={"data": [{"id": "m"}]})
        if b"too much" in request.content:
            return httpx2.Response(429, json=codec.encode_error(429, "slow down"), headers={"retry-after": "3"})
        if b'"stream":true' in request.content or "stream" in str(request.url):
            frames = b"".join(codec.encode_stream(ANSWER, deltas_of(ANSWER)))
            return httpx2.Response(200, headers={"content-type": codec.stream_type}, content=frames)
        return httpx2.Response(200, json=codec.encode_response(ANSWER))

    return httpx2.MockTransport(respond)


def calls(protocol):
    for fields in ({}, {"stream": True}, {"text": "too much"}, {"tools": (TOOL,), "temperature": 0.5, "max_tokens": 9}):
        yield http_call(protocol, request_of(**{"text": "What?", **fields}))


def ask(client, call):
    url = f"https://api.example{'/v1beta' if 'Content' in call.path else ''}{call.path}?{call.query}"
    response = client.post(url, content=call.body)
    return response.status_code, response.headers.get("retry-after"), response.content


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_recording_comes_back_from_an_archive_and_answers_the_same_to_the_byte(tmp_path, protocol):
    path, archived, back = tmp_path / "run.json", tmp_path / "run.har", tmp_path / "back.json"
    with offbook.sync_http_client(record=path, transport=answering(protocol)) as client:
        asked = [ask(client, call) for call in calls(protocol)]
    original = open_store(path).load()
    data, unmapped = write_har(original)
    archived.write_bytes(data)
    document, lost = imported(archived)
    assert unmapped == []
    assert lost == []
    assert document.size == original.size == 4
    open_store(back).save(document)
    assert json.loads(back.read_text()) == json.loads(path.read_text())
    with offbook.sync_http_client(back) as client:
        assert [ask(client, call) for call in calls(protocol)] == asked


def test_requests_that_are_no_model_calls_come_back_too(tmp_path):
    path = tmp_path / "run.json"
    with offbook.sync_http_client(record=path, transport=answering("openai_chat")) as client:
        client.get("https://api.example/v1/models")
        client.post("https://api.example/v1/embeddings", json={"input": "a", "model": "m"})
    original = open_store(path).load()
    (tmp_path / "run.har").write_bytes(write_har(original)[0])
    assert imported(tmp_path / "run.har")[0].keys == original.keys


async def test_calls_that_were_not_recorded_over_http_go_out_in_the_protocol_of_their_provider(tmp_path):
    provider = MockProvider(responses={"greet": {"content": "Hello", "model": "m", "usage": {"prompt_tokens": 3}}})
    async with RecordingProvider(provider, tmp_path / "run.json") as recorder:
        await recorder.complete([{"role": "user", "content": "Hi"}], "m", step_id="greet")
        await (await recorder.stream([{"role": "user", "content": "Hi"}], "m", step_id="greet")).collect()
    (tmp_path / "run.har").write_bytes(write_har(open_store(tmp_path / "run.json").load())[0])
    document, _ = imported(tmp_path / "run.har")
    assert [exchange.content for exchange in document.exchanges("greet")] == ["Hello", "Hello"]
    assert [exchange.wire.is_streamed for exchange in document.exchanges("greet")] == [False, True]


def test_what_har_cannot_express_is_listed():
    responses = {
        "_version": 2,
        "lost": {"fault": {"type": "connection_reset"}, "request": {"messages": [], "model": "m"}},
        "by hand": {"content": "x"},
        "after": {"content": "x", "when": "any"},
        "_tools": {"refund": [{"arguments": {}, "result": 1}, {"arguments": {}, "result": 2}]},
    }
    data, unmapped = write_har(parse_document(json.dumps(responses).encode(), source="x"))
    assert json.loads(data)["log"]["entries"] == []
    assert {each.place: each.reason for each in unmapped} == {
        "lost": "a call that broke off (connection_reset)",
        "by hand": "it does not say which request it answers",
        "after": "an answer with a condition (when: any)",
        "_tools.refund": "calls of tools are not HTTP (2)",
    }


def test_an_archive_of_a_browser_becomes_a_recording_without_its_secrets(tmp_path):
    document, unmapped = imported(archive(tmp_path / "a.har", entry()))
    [(key, exchange)] = document
    assert unmapped == []
    assert key == exchange.request_hash
    assert exchange.content == "Hello"
    assert exchange.latency_ms == 250.5
    assert exchange.wire.content().decode() == BODY
    assert exchange.recorded_at == "2026-10-01T10:00:00.250500+00:00"
    assert "my-own-secret-key" not in str(exchange)


def test_a_stream_in_an_archive_has_frames(tmp_path):
    frames = b"".join(CODECS["openai_chat"].encode_stream(ANSWER, deltas_of(ANSWER)))
    request = {"postData": {"text": '{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}'}}
    content = {"size": 1, "text": b64encode(frames).decode(), "encoding": "base64"}
    headers = [{"name": "content-type", "value": "text/event-stream"}]
    streamed = entry(request=request, response={"content": content, "headers": headers})
    [(_, exchange)] = imported(archive(tmp_path / "a.har", streamed))[0]
    assert exchange.content == ANSWER.content
    assert len(exchange.wire.frames) > 3
    assert {at_ms for at_ms, _ in exchange.wire.frames} == {101.0}


def test_what_is_no_answer_of_a_model_is_listed(tmp_path):
    page = entry(request={"method": "GET", "url": "https://example.org/index.html?q=1"})
    failed = entry(response={"status": 0})
    socket = entry(response={"status": 101})
    empty = entry(response={"content": {"size": 7, "mimeType": "text/plain"}})
    document, unmapped = imported(archive(tmp_path / "a.har", page, failed, socket, empty, {}, entry()))
    assert document.size == 1
    assert dict(unmapped) == {
        "entry 1": "not a request to an API of models: GET example.org/index.html",
        "entry 2": "the request got no answer",
        "entry 3": "a WebSocket",
        "entry 4": "the archive has no body of the response: save it with content",
        "entry 5": "not an entry of HAR 1.2: KeyError('response')",
    }


@pytest.mark.parametrize(
    "own", [None, 7, [], {"key": 7, "frames": 7}, {"key": "_tools", "request_hash": "x", "recorded_at": "yesterday"}]
)
def test_wrong_notes_of_an_export_are_ignored(tmp_path, own):
    [(key, exchange)] = imported(archive(tmp_path / "a.har", entry(_offbook=own)))[0]
    assert key == exchange.request_hash == imported(archive(tmp_path / "b.har", entry()))[0].keys[0]
