"""What boto3 asks is signed anew for the real host, recorded without secrets, and replayed to the byte."""

import json
import subprocess
import sys
from contextlib import closing

import boto3
import botocore.exceptions
import openai
import pytest
from botocore.config import Config

import offbook
from offbook.codecs.event_stream import encode_event
from offbook.errors import InputError
from offbook.providers import BedrockProvider
from offbook.providers.aws_signature import sign_request
from offbook.vendors import codec_of
from tests.servers.aws import ACCESS_KEY, SECRET_KEY, signed_region
from tests.servers.loopback import LoopbackServer
from tests.wire.proxy.recorded import exchanges

pytestmark = pytest.mark.xdist_group("sdks")

MODEL = "anthropic.claude-3-5-sonnet-20241022-v2:0"
ASKED = [{"role": "user", "content": [{"text": "Hi"}]}]
ANSWER = offbook.Response("Hello, you.", usage=offbook.Usage.of(3, 2), finish_reason="stop")
CODEC = codec_of("bedrock")
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL"


@pytest.fixture
def credentials(monkeypatch):
    """The credentials of this process, which are not those of the client."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture(scope="module")
def session():
    return boto3.session.Session("AKIAOFTHECLIENT12345", "another", "a-token", region_name="eu-west-1")


def client_of(session, url):
    settings = Config(retries={"total_max_attempts": 1})
    return closing(session.client("bedrock-runtime", endpoint_url=url, config=settings))


def recording(path, url, **options):
    return offbook.serving(record=path, upstreams={"bedrock": url}, **options)


def whole(call):
    call.whole(json.dumps(CODEC.encode_response(ANSWER)).encode())


def streamed(*frames):
    return lambda call: call.stream(*frames, content_type=CODEC.stream_type)


def test_a_request_is_signed_for_the_real_host_with_the_credentials_of_the_proxy(credentials, session, tmp_path):
    with (
        LoopbackServer(whole) as upstream,
        recording(tmp_path / "run.json", upstream.url) as server,
        client_of(session, server.url) as client,
    ):
        answer = client.converse(modelId=MODEL, messages=ASKED)
        [call] = upstream.calls
    assert signed_region(call) == "eu-west-1"
    assert call.path == f"/model/{MODEL.replace(':', '%3A')}/converse"
    assert call.headers["host"] == upstream.host
    assert call.headers["x-amz-security-token"] is None
    assert answer["output"]["message"]["content"] == [{"text": "Hello, you."}]
    text = (tmp_path / "run.json").read_text()
    assert not any(secret in text for secret in (ACCESS_KEY, SECRET_KEY, "AKIAOFTHECLIENT12345", "a-token"))


def test_a_key_of_bedrock_is_sent_as_it_is(session, tmp_path):
    with (
        LoopbackServer(whole) as upstream,
        recording(tmp_path / "run.json", upstream.url, upstream_keys={"bedrock": "a-bedrock-key"}) as server,
        client_of(session, server.url) as client,
    ):
        client.converse(modelId=MODEL, messages=ASKED)
    assert upstream.calls[0].headers["authorization"] == "Bearer a-bedrock-key"


async def test_a_provider_signs_its_own_requests(credentials):
    with LoopbackServer(whole) as upstream:
        async with BedrockProvider(base_url=upstream.url) as provider:
            response = await provider.complete([{"role": "user", "content": "Hi"}], MODEL)
    assert response.content == "Hello, you."
    assert response.model == MODEL
    assert response.provider == "bedrock"
    assert signed_region(upstream.calls[0]) == "us-east-1"


def test_a_signature_that_a_server_repeats_is_not_recorded(credentials, session, tmp_path):
    def repeat(call):
        headers = upstream.calls[-1].headers
        said = {"message": f"The Canonical String was: {headers['authorization']}"}
        call.whole(json.dumps(said).encode(), status=403)

    with (
        LoopbackServer(repeat) as upstream,
        recording(tmp_path / "run.json", upstream.url) as server,
        client_of(session, server.url) as client,
        pytest.raises(botocore.exceptions.ClientError),
    ):
        client.converse(modelId=MODEL, messages=ASKED)
    signature = upstream.calls[0].headers["authorization"].rpartition("=")[2]
    text = (tmp_path / "run.json").read_text()
    assert "The Canonical String was" in text
    assert ACCESS_KEY not in text
    assert signature not in text


@pytest.mark.parametrize("protocol", ["bedrock", "bedrock_anthropic"])
def test_a_secret_in_the_pieces_of_a_stream_is_redacted_and_the_stream_stays_sound(
    credentials, session, tmp_path, protocol
):
    said = offbook.Response(f"The key is {SECRET}, keep it.", model="m", finish_reason="stop")
    pieces = [offbook.TextDelta(said.content[i : i + 5]) for i in range(0, len(said.content), 5)]
    frames = codec_of(protocol).encode_stream(said, pieces)
    with (
        LoopbackServer(streamed(*frames)) as upstream,
        recording(tmp_path / "run.json", upstream.url) as server,
        client_of(session, server.url) as client,
    ):
        assert SECRET in text_of(client, protocol)
    assert all(part not in (tmp_path / "run.json").read_text() for part in (SECRET, SECRET[10:20]))
    with offbook.serving(tmp_path / "run.json") as server, client_of(session, server.url) as client:
        assert text_of(client, protocol) == exchanges(tmp_path / "run.json")[0].content
        assert server.misses == []


def text_of(client, protocol):
    if protocol == "bedrock":
        answer = client.converse_stream(modelId=MODEL, messages=ASKED)
        with closing(answer["stream"]) as events:
            return "".join(
                event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event
            )
    body = {"anthropic_version": "v", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    answer = client.invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(body))
    with closing(answer["body"]) as events:
        read = [json.loads(event["chunk"]["bytes"]) for event in events]
    return "".join(event["delta"]["text"] for event in read if event["type"] == "content_block_delta")


def test_frames_are_recorded_as_events_that_people_can_read(credentials, session, tmp_path):
    frames = list(CODEC.encode_stream(ANSWER, [offbook.TextDelta("Hello, "), offbook.TextDelta("you.")]))
    with (
        LoopbackServer(streamed(*frames)) as upstream,
        recording(tmp_path / "run.json", upstream.url) as server,
        client_of(session, server.url) as client,
    ):
        assert text_of(client, "bedrock") == "Hello, you."
    [exchange] = exchanges(tmp_path / "run.json")
    assert [data for _, data in exchange.wire.timed_frames()] == frames
    entry = next(value for name, value in json.loads((tmp_path / "run.json").read_text()).items() if name[0] != "_")
    frame = (entry if isinstance(entry, dict) else entry[0])["wire"]["frames"][1][1]
    assert frame["event"][":event-type"] == "contentBlockDelta"
    assert json.loads(frame["data"]) == {"delta": {"text": "Hello, "}, "contentBlockIndex": 0}


def test_the_body_of_another_model_passes_and_comes_back(credentials, session, tmp_path):
    def ask(url):
        with client_of(session, url) as client:
            answer = client.invoke_model_with_response_stream(modelId="meta.llama3-70b", body=b'{"prompt": "Hi"}')
            with closing(answer["body"]) as events:
                return list(events)

    frames = [encode_event("chunk", b'{"generation":"He"}'), encode_event("chunk", b'{"generation":"llo"}')]
    with LoopbackServer(streamed(*frames)) as upstream, recording(tmp_path / "run.json", upstream.url) as server:
        heard = ask(server.url)
    assert heard == [{"chunk": {"bytes": b'{"generation":"He"}'}}, {"chunk": {"bytes": b'{"generation":"llo"}'}}]
    with offbook.serving(tmp_path / "run.json") as server:
        assert ask(server.url) == heard


def test_what_boto3_recorded_openai_hears_and_the_other_way_round(credentials, session, tmp_path):
    def ask_openai(url):
        with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            messages = [{"role": "user", "content": "Hi"}]
            return client.chat.completions.create(model="gpt-5", messages=messages).choices[0].message.content

    frames = list(CODEC.encode_stream(ANSWER, [offbook.TextDelta(ANSWER.content)]))
    with (
        LoopbackServer(streamed(*frames)) as upstream,
        recording(tmp_path / "aws.json", upstream.url) as server,
        client_of(session, server.url) as client,
    ):
        text_of(client, "bedrock")
    with offbook.serving(tmp_path / "aws.json") as server:
        assert ask_openai(server.url) == "Hello, you."
    said = codec_of("openai_chat").encode_response(ANSWER)
    with (
        LoopbackServer(json.dumps(said).encode()) as upstream,
        offbook.serving(record=tmp_path / "openai.json", upstreams={"openai": f"{upstream.url}/v1"}) as server,
    ):
        ask_openai(server.url)
    with offbook.serving(tmp_path / "openai.json") as server, client_of(session, server.url) as client:
        assert text_of(client, "bedrock") == text_of(client, "bedrock_anthropic") == "Hello, you."


def test_regions_that_differ_are_refused_before_anything_is_sent():
    signed = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20260101/eu-west-1/bedrock/aws4_request, Signature=x"}
    with pytest.raises(InputError, match="signed for the region eu-west-1, and the server is in us-east-1") as caught:
        sign_request("https://bedrock-runtime.us-east-1.amazonaws.com/", b"", service="bedrock", headers=signed)
    assert "AWS_REGION=eu-west-1" in caught.value.hint


def test_credentials_that_change_are_used_at_once(credentials, monkeypatch):
    def signature():
        return sign_request("http://127.0.0.1:9/", b"", service="bedrock", headers={})["authorization"]

    assert f"Credential={ACCESS_KEY}/" in signature()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFSOMEBODYELSE01")
    assert "Credential=AKIAOFSOMEBODYELSE01/" in signature()


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("import sys; sys.modules['botocore'] = None", "requests to AWS are signed by the package botocore"),
        ("", "no credentials of AWS were found"),
    ],
)
def test_what_cannot_be_signed_says_what_to_do(before, message, tmp_path):
    program = f"""{before}
from offbook.errors import InputError
from offbook.providers.aws_signature import sign_request
try:
    sign_request("http://127.0.0.1:9/", b"", service="bedrock", headers={{}})
except InputError as error:
    print(error)
"""
    environment = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    said = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert message in said
    assert "AWS_BEARER_TOKEN_BEDROCK=…" in said
