"""boto3 and Anthropic's client for Bedrock as clients."""

import json
import subprocess
import sys
from contextlib import closing

import anthropic
import boto3
import botocore.exceptions
import pytest
from botocore.config import Config

from offbook import serving
from offbook.cli.runners.wire import child_environment
from offbook.wire.intercept.program_network import NetworkOptions, ProgramNetwork
from tests.wire.conformance.answers import ODD_TEXT, PLAIN, QUESTION, REASONING, STEP
from tests.wire.conformance.sdks import CONVERSE_MESSAGES, without_waits

pytestmark = pytest.mark.xdist_group("sdks")

MODEL = "anthropic.claude-3-5-sonnet-20241022-v2:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
BODY = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": QUESTION}]}
TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object", "properties": {}}}}}]}


@pytest.fixture(scope="module")
def session():
    return boto3.session.Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="eu-west-1")


@pytest.fixture
def client(run, session):
    """A client whose calls a step answers."""
    made = session.client("bedrock-runtime", endpoint_url=run.url, config=Config(retries={"total_max_attempts": 3}))
    with closing(made):
        yield lambda step: answered_by(made, step)


def answered_by(client, step):
    client.meta.events.register("before-call", lambda params, **_: params["headers"].update({STEP: step}))
    return client


def events_of(answer, name="stream"):
    with closing(answer[name]) as stream:
        return list(stream)


class TestConverse:
    def test_an_answer_has_its_text_end_and_counts(self, client, run):
        answer = client("plain").converse(modelId=MODEL, messages=CONVERSE_MESSAGES, system=[{"text": "Be kind."}])
        assert answer["output"]["message"] == {"role": "assistant", "content": [{"text": PLAIN}]}
        assert answer["stopReason"] == "end_turn"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert answer["usage"] == {
            "inputTokens": 4,
            "outputTokens": 5,
            "totalTokens": 12,
            "cacheReadInputTokens": 3,
            "cacheWriteInputTokens": 0,
        }
        assert len(answer["ResponseMetadata"]["RequestId"]) > 20
        [call] = run.session.calls
        assert call.vendor == "bedrock"
        assert call.model == MODEL
        assert call.request.messages[0] == {"role": "system", "content": "Be kind."}

    @pytest.mark.parametrize(
        ("step", "reason"), [("cut", "max_tokens"), ("tools", "tool_use"), ("filtered", "content_filtered")]
    )
    def test_it_ends_for_the_recorded_reason(self, client, step, reason):
        assert client(step).converse(modelId=PROFILE, messages=CONVERSE_MESSAGES)["stopReason"] == reason

    def test_reasoning_comes_before_the_text(self, client):
        content = client("thinking").converse(modelId=MODEL, messages=CONVERSE_MESSAGES)["output"]["message"]["content"]
        assert content == [{"reasoningContent": {"reasoningText": {"text": REASONING}}}, {"text": "Forty-two."}]

    def test_the_conversation_goes_on_with_results(self, client, run):
        ask = client("tools").converse
        message = ask(modelId=MODEL, messages=CONVERSE_MESSAGES, toolConfig=TOOLS)["output"]["message"]
        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        assert [(use["name"], use["input"]) for use in uses] == [("weather", {"city": "Oslo"}), ("clock", {})]
        results = [
            {"toolResult": {"toolUseId": uses[0]["toolUseId"], "content": [{"text": "fine"}]}},
            {"toolResult": {"toolUseId": uses[1]["toolUseId"], "content": [{"json": {"h": 9}}], "status": "error"}},
        ]
        turns = [*CONVERSE_MESSAGES, message, {"role": "user", "content": results}]
        client("plain").converse(modelId=MODEL, messages=turns, toolConfig=TOOLS)
        _, turn, *answered = run.session.calls[-1].request.messages
        assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in answered]
        assert [(each["content"], each.get("is_error")) for each in answered] == [
            ("fine", None),
            ([{"json": {"h": 9}}], True),
        ]

    def test_images_and_documents_are_read(self, client, run):
        content = [
            {"text": "Look."},
            {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
            {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"%PDF"}}},
        ]
        client("plain").converse(modelId=MODEL, messages=[{"role": "user", "content": content}])
        _, image, document = run.session.calls[-1].request.messages[0]["content"]
        assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
        assert document["document"]["source"] == {"bytes": "JVBERg=="}


class TestConverseStream:
    def test_text_comes_word_by_word_and_then_end_and_counts(self, client):
        events = events_of(client("plain").converse_stream(modelId=MODEL, messages=CONVERSE_MESSAGES))
        assert [next(iter(event)) for event in events[-3:]] == ["contentBlockStop", "messageStop", "metadata"]
        pieces = [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]
        assert "".join(pieces) == PLAIN
        assert len(pieces) > 5
        assert events[-1]["metadata"]["usage"]["outputTokens"] == 5

    def test_odd_text_arrives_as_it_is(self, client):
        events = events_of(client("odd").converse_stream(modelId=MODEL, messages=CONVERSE_MESSAGES))
        texts = [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]
        assert "".join(texts) == ODD_TEXT

    def test_calls_come_in_pieces_each_in_its_block(self, client):
        events = events_of(client("tools").converse_stream(modelId=MODEL, messages=CONVERSE_MESSAGES))
        starts = [event["contentBlockStart"] for event in events if "contentBlockStart" in event]
        assert [(each["contentBlockIndex"], each["start"]["toolUse"]["name"]) for each in starts] == [
            (1, "weather"),
            (2, "clock"),
        ]
        deltas = [event["contentBlockDelta"] for event in events if "contentBlockDelta" in event]
        inputs = [
            "".join(d["delta"]["toolUse"]["input"] for d in deltas if d["contentBlockIndex"] == i) for i in (1, 2)
        ]
        assert [json.loads(each) for each in inputs] == [{"city": "Oslo"}, {}]

    def test_an_exception_ends_the_stream(self, start, session):
        run = start("call=1: stream_truncate 3 raise=error_event")
        with closing(session.client("bedrock-runtime", endpoint_url=run.url)) as client:
            answer = client.converse_stream(modelId=MODEL, messages=CONVERSE_MESSAGES)
            with pytest.raises(botocore.exceptions.EventStreamError, match="modelStreamErrorException") as caught:
                events_of(answer)
        assert caught.value.response["Error"]["Message"]


class TestInvokeModel:
    def test_a_model_of_anthropic_answers_as_it_does(self, client, run):
        answer = client("plain").invoke_model(modelId=MODEL, body=json.dumps(BODY))
        message = json.loads(answer["body"].read())
        assert message["content"] == [{"type": "text", "text": PLAIN}]
        assert message["stop_reason"] == "end_turn"
        assert run.session.calls[-1].request.messages == ({"role": "user", "content": QUESTION},)

    def test_its_stream_comes_in_chunks(self, client):
        answer = client("plain").invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(BODY))
        events = [json.loads(event["chunk"]["bytes"]) for event in events_of(answer, "body")]
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        deltas = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
        assert "".join(deltas) == PLAIN

    def test_the_body_of_another_model_is_plain_json(self, session):
        body = json.dumps({"prompt": "Hi", "max_gen_len": 9})
        with (
            serving(responses={}) as server,
            closing(session.client("bedrock-runtime", endpoint_url=server.url)) as client,
            pytest.raises(botocore.exceptions.ClientError, match="does not stand in for /model/meta"),
        ):
            client.invoke_model(modelId="meta.llama3-70b-instruct-v1:0", body=body)

    @pytest.mark.parametrize("stream", [False, True])
    def test_the_client_of_anthropic_reads_both(self, run, stream):
        fields = {"aws_access_key": "k", "aws_secret_key": "s", "aws_region": "eu-west-1", "max_retries": 0}
        with anthropic.AnthropicBedrock(base_url=run.url, default_headers={STEP: "plain"}, **fields) as client:
            answer = client.messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": QUESTION}], stream=stream
            )
            if stream:
                text = "".join(event.delta.text for event in answer if event.type == "content_block_delta")
            else:
                text = answer.content[0].text
        assert text == PLAIN
        assert run.session.calls[-1].model == MODEL


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "error", "tries"),
        [
            (403, "AccessDeniedException", 1),
            (424, "ModelErrorException", 1),
            (429, "ThrottlingException", 3),
            (502, "InternalServerException", 3),
            (503, "ServiceUnavailableException", 3),
            (504, "InternalServerException", 3),
        ],
    )
    def test_errors_have_the_names_of_aws(self, start, session, status, error, tries):
        run = start(f"everywhere: http_error {status}")
        settings = Config(retries={"total_max_attempts": 3})
        with (
            closing(session.client("bedrock-runtime", endpoint_url=run.url, config=settings)) as client,
            without_waits(),
            pytest.raises(getattr(client.exceptions, error)) as caught,
        ):
            client.converse(modelId=MODEL, messages=CONVERSE_MESSAGES)
        assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["x-amzn-errortype"] == error
        assert [call.attempt for call in run.session.calls] == list(range(1, tries + 1))

    def test_a_miss_is_raised_at_once(self, session):
        with (
            serving(responses={"_version": 2}, strict=True) as server,
            closing(session.client("bedrock-runtime", endpoint_url=server.url)) as client,
        ):
            with pytest.raises(client.exceptions.ValidationException, match="recording"):
                client.converse(modelId=MODEL, messages=CONVERSE_MESSAGES)
            assert [call.status for call in server.calls] == [422]


PROGRAM = """
import boto3
answer = boto3.client("bedrock-runtime").converse(
    modelId="m", messages=[{"role": "user", "content": [{"text": "Hi"}]}]
)
print(answer["output"]["message"]["content"][0]["text"])
"""


def test_a_program_needs_no_login_and_no_region(tmp_path):
    environment = {"HOME": str(tmp_path), "AWS_BEARER_TOKEN_BEDROCK": "only by TLS"}
    with serving(responses={"plain": {"content": PLAIN}}) as server:
        with ProgramNetwork(NetworkOptions(), environment) as network:
            variables = child_environment(environment, server, network)
        said = subprocess.check_output([sys.executable, "-c", PROGRAM], env=variables, text=True)
    assert said == f"{PLAIN}\n"


def test_boto3_waits_as_long_as_a_fault_asks_it_to(start, session):
    run = start("attempt=1: http_error 429 headers.Retry-After=3")
    with closing(session.client("bedrock-runtime", endpoint_url=run.url)) as client, without_waits() as waits_s:
        client.converse(modelId=MODEL, messages=CONVERSE_MESSAGES)
    assert run.tries == 2
    assert len(waits_s) == 1
    assert waits_s[0] >= 3
