"""Cassettes that vcrpy itself has written."""

import base64
import gzip

import httpx
import pytest
import vcr

import offbook
from offbook.recording.stores.locate import open_store
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer
from tests.wire.convert.importing import imported, write_json

BODY = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
FRAMES = (
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}\n\n',
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


def respond(call):
    if b'"stream"' in call.body:
        call.stream(*FRAMES)
    else:
        call.whole(chat_answer("Hello"))


def record_cassette(path, serializer):
    with (
        LoopbackServer(respond) as server,
        vcr.use_cassette(str(path), serializer=serializer),
        httpx.Client(headers={"authorization": "Bearer my-own-secret-key"}) as client,
    ):
        for body in (BODY, BODY, BODY | {"stream": True}):
            client.post(f"{server.url}/v1/chat/completions", json=body)
        client.get(f"{server.url}/elsewhere")


@pytest.mark.parametrize(("serializer", "name"), [("yaml", "cassette.yaml"), ("json", "cassette.json")])
def test_a_cassette_becomes_a_recording_that_answers_the_same(tmp_path, serializer, name):
    record_cassette(tmp_path / name, serializer)
    document, unmapped = imported(tmp_path / name)
    assert document.size == 3
    assert unmapped[0][0] == "interaction 4"
    assert "not a request to an API of models: GET 127.0.0.1/elsewhere" in unmapped[0][1]
    path = tmp_path / "run.json"
    open_store(path).save(document)
    assert "my-own-secret-key" not in path.read_text()
    with offbook.sync_http_client(path) as client:
        url = "https://api.openai.com/v1/chat/completions"
        assert [client.post(url, json=BODY).content for _ in range(2)] == [chat_answer("Hello")] * 2
        assert client.post(url, json=BODY | {"stream": True}).content == b"".join(FRAMES)
    streamed = next(exchange for _, exchange in document if exchange.wire.is_streamed)
    assert [text for _, text in streamed.wire.frames] == [frame.decode() for frame in FRAMES]


@pytest.mark.parametrize("body", [{"string": "!"}, {"base64_string": "IQ=="}])
@pytest.mark.parametrize("is_packed", [False, True])
def test_bodies_are_unpacked_and_those_that_already_are_stay(tmp_path, body, is_packed):
    response = {"status": {"code": 200}, "headers": {"Content-Encoding": ["gzip"]}, "body": body}
    request = {"method": "get", "uri": "https://api.openai.com/v1/models", "headers": [["a", "b"]], "body": None}
    if is_packed:
        response["body"] = {"base64_string": base64.b64encode(gzip.compress(b"!")).decode()}
    interaction = {"request": request, "response": response}
    [(_, exchange)] = imported(write_json(tmp_path / "c.json", {"version": 1, "interactions": [interaction]}))[0]
    assert exchange.wire.content() == b"!"


@pytest.mark.parametrize("interaction", [7, {}, {"request": {}, "response": {}}, {"request": 1, "response": []}])
def test_what_is_no_interaction_is_listed(tmp_path, interaction):
    document, unmapped = imported(write_json(tmp_path / "c.json", {"version": 1, "interactions": [interaction]}))
    assert document.size == 0
    assert unmapped[0][1].startswith("not an interaction as vcrpy writes it")
