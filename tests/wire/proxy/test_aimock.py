"""What aimock answers is recorded through the proxy and replayed to the byte, whatever protocol it is."""

from contextlib import closing

import anthropic
import boto3
import httpx2
import openai
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import offbook
from offbook.codecs.event_stream import read_frame
from offbook.recording.format.wire_record import replayable_headers
from tests.servers import aimock
from tests.wire.proxy.recorded import HTTP, exchanges, recording

pytestmark = pytest.mark.xdist_group("sdks")

HELLO = "Good morning to all of you, and a good day — ☀."
TOOL = {"name": "get_weather", "description": "Tells the weather.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": TOOL}]
ANTHROPIC_TOOLS = [{"name": "get_weather", "description": TOOL["description"], "input_schema": TOOL["parameters"]}]
GEMINI = "/v1beta/models/gemini-2.5-pro"
BEDROCK = "/model/anthropic.claude-v2%3A1"


def user(text):
    return [{"role": "user", "content": text}]


def contents(text):
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def generations(text):
    """The calls by which a text is put to a model, in every protocol, whole and streamed."""
    for stream in (False, True):
        yield "/v1/chat/completions", {"model": "gpt-5", "messages": user(text), "stream": stream, "tools": TOOLS}
        yield "/v1/responses", {"model": "gpt-5", "input": text, "stream": stream}
        yield "/v1/messages", {"model": "claude", "max_tokens": 9, "messages": user(text), "stream": stream}
        yield "/api/chat", {"model": "llama", "messages": user(text), "stream": stream}
    yield f"{GEMINI}:generateContent", contents(text)
    yield f"{GEMINI}:streamGenerateContent?alt=sse", contents(text)
    converse = {"messages": [{"role": "user", "content": [{"text": text}]}]}
    invoke = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": user(text)}
    for operation, body in (("converse", converse), ("invoke", invoke)):
        stream = "converse-stream" if operation == "converse" else "invoke-with-response-stream"
        yield f"{BEDROCK}/{operation}", body
        yield f"{BEDROCK}/{stream}", body


OTHERS = [
    ("/v1/embeddings", {"model": "e", "input": "embed me"}),
    ("/api/generate", {"model": "llama", "prompt": "say hello"}),
    ("/v1/chat/completions", {"model": "gpt-5", "messages": user("what nobody knows")}),
    ("/v1/models", None),
    ("/api/tags", None),
    ("/v1/unknown/thing?a=b", None),
]
BREAKING = "break off"
CALLS = [
    *(call for text in ("say hello", "think first", "weather in both", "too often") for call in generations(text)),
    *OTHERS,
    *(call for call in generations(BREAKING) if call[1].get("stream") or "stream" in call[0]),
]


@pytest.fixture(scope="module")
def aimock_url():
    aimock.require()
    with aimock.serve() as url:
        yield url


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("aimock") / "run.json"


def answer_of(server, place, body):
    """The status, the headers that matter and the bytes of an answer; and how it broke, if it did."""
    method, read, broken = "GET" if body is None else "POST", b"", None
    with HTTP.stream(method, server.url + place, json=body) as answer:
        try:
            for piece in answer.iter_raw():
                read += piece
        except httpx2.TransportError as error:
            broken = type(error)
    return answer.status_code, replayable_headers(answer.headers), read, broken


@pytest.fixture(scope="module")
def recorded(aimock_url, path):
    """What clients heard while it was recorded."""
    with recording(path, aimock_url, upstream_keys={"bedrock": "any"}) as server:
        answers = [answer_of(server, place, body) for place, body in CALLS]
        assert {call.outcome for call in server.calls} == {"recorded"}
    return answers


def test_all_comes_back_to_the_byte(recorded, path):
    with offbook.serving(path) as server:
        replayed = [answer_of(server, place, body) for place, body in CALLS]
        assert server.misses == []
        assert server.unused() == []
    assert replayed == recorded


def test_frames_are_kept_one_by_one(recorded, path):
    frames = [
        data for exchange in exchanges(path) for _, data in exchange.wire.timed_frames() if exchange.wire.is_streamed
    ]
    assert len(frames) > 100
    broken_off = sum(broken is not None for *_, broken in recorded)
    whole = [frame for frame in frames if frame.endswith((b"\n\n", b"}\n")) or read_frame(frame) is not None]
    assert len(frames) - len(whole) <= broken_off


def test_broken_streams_break_off_again(recorded):
    broken = [answer for answer, (_, body) in zip(recorded, CALLS, strict=True) if BREAKING in str(body)]
    assert len(broken) == 7
    assert all(how is not None and read for *_, read, how in broken)


async def test_a_recording_made_over_http_replays_in_process(recorded, path):
    async with offbook.MockProvider(path, strict=True) as provider:
        whole = await provider.complete(user("say hello"), "gpt-5", tools=TOOLS)
        assert whole.content == HELLO
        assert whole.usage.total_tokens == 18
        streamed = await provider.stream(user("say hello"), "gpt-5", tools=TOOLS)
        texts = [each.text for each in [each async for each in streamed] if isinstance(each, offbook.TextDelta)]
        assert "".join(texts) == HELLO
        assert texts[0] == "Good mo"
        with pytest.raises(offbook.RateLimitError) as caught:
            await provider.complete(user("too often"), "gpt-5", tools=TOOLS)
        assert caught.value.retry_after_s == 7


def openai_says(url):
    """What OpenAI's SDK hears, as plain values."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-any", max_retries=0) as client:
        payload = {"model": "gpt-5", "messages": user("weather in Oslo"), "tools": TOOLS}
        yield client.chat.completions.create(**payload).to_dict()
        yield [chunk.to_dict() for chunk in client.chat.completions.create(**payload, stream=True)]
        yield [each.to_dict() for each in client.responses.create(model="gpt-5", input="say hello", stream=True)]
        yield client.embeddings.create(model="e", input="embed me", encoding_format="float").to_dict()
        yield [model.to_dict() for model in client.models.list()]
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(model="gpt-5", messages=user("too often"))
        yield caught.value.body, caught.value.response.headers["retry-after"]


def anthropic_says(url):
    """The like of Anthropic's."""
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        payload = {"model": "claude", "max_tokens": 9, "messages": user("weather in Oslo"), "tools": ANTHROPIC_TOOLS}
        yield client.messages.create(**payload).to_dict()
        with client.messages.stream(**payload) as stream:
            yield [each.to_dict() for each in stream]
        with pytest.raises(anthropic.RateLimitError) as caught:
            client.messages.create(model="claude", max_tokens=9, messages=user("too often"))
        yield caught.value.body


def boto3_says(url):
    """The like of boto3's. It cannot read aimock's streams of text, whose blocks start with nothing."""
    settings = Config(retries={"total_max_attempts": 1})
    session = boto3.session.Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="us-east-1")
    with closing(session.client("bedrock-runtime", endpoint_url=url, config=settings)) as client:
        spec = {"name": "get_weather", "inputSchema": {"json": TOOL["parameters"]}}
        payload = {"modelId": "claude", "toolConfig": {"tools": [{"toolSpec": spec}]}}
        for text in ("say hello", "think first", "weather in both"):
            answer = client.converse(**payload, messages=[{"role": "user", "content": [{"text": text}]}])
            yield answer["output"], answer["stopReason"], answer["usage"]
        asked = [{"role": "user", "content": [{"text": "weather in Oslo"}]}]
        with closing(client.converse_stream(**payload, messages=asked)["stream"]) as stream:
            yield list(stream)
        with pytest.raises(ClientError) as caught:
            client.converse(**payload, messages=[{"role": "user", "content": [{"text": "too often"}]}])
        yield caught.value.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("says", [openai_says, anthropic_says, boto3_says])
def test_sdks_hear_the_same_when_it_is_replayed(aimock_url, tmp_path, says):
    with recording(tmp_path / "run.json", aimock_url, upstream_keys={"bedrock": "any"}) as server:
        first = list(says(server.url))
    with offbook.serving(tmp_path / "run.json") as server:
        assert list(says(server.url)) == first
        assert server.unused() == []


@pytest.mark.parametrize("stream", [False, True])
def test_what_one_sdk_recorded_another_hears(aimock_url, tmp_path, stream):
    with (
        recording(tmp_path / "run.json", aimock_url) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-any") as client,
    ):
        answer = client.chat.completions.create(model="gpt-5", messages=user("say hello"), stream=stream)
        assert not stream or list(answer)
    with (
        offbook.serving(tmp_path / "run.json") as server,
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client,
    ):
        with client.messages.stream(model="claude", max_tokens=9, messages=user("say hello")) as events:
            assert events.get_final_text() == HELLO
        assert [call.outcome for call in server.calls] == ["served"]
