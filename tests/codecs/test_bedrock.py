"""The codecs of Amazon Bedrock: where their wire differs from the OpenAI chat shape, and what botocore accepts."""

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given

from offbook.codecs.base import OtherProtocolError, WireRequest
from offbook.codecs.event_stream import encode_exception
from offbook.errors import ProviderError
from offbook.messages import Request, Response, Usage
from offbook.vendors import codec_of

from .strategies import requests

CODEC = codec_of("bedrock")
USER = {"role": "user", "content": [{"text": "Hi"}]}


def decode(path="/model/m/converse", **body):
    return CODEC.decode_request(WireRequest(path, {"messages": [USER]} | body))


@pytest.fixture(scope="module")
def converse_input():
    model = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return model.operation_model("Converse").input_shape


@given(request_=requests())
def test_botocore_accepts_what_we_encode(converse_input, request_):
    body = CODEC.encode_request(request_).body
    problems = ParamValidator().validate({"modelId": request_.model} | body, converse_input)
    assert not problems.has_errors(), problems.generate_report()


@pytest.mark.parametrize("model", ["anthropic.claude-3-haiku-20240307-v1:0", "arn:aws:bedrock:eu-west-1:1:profile/a/b"])
@pytest.mark.parametrize("codec", [CODEC, codec_of("bedrock_anthropic")], ids=lambda codec: codec.name)
def test_the_path_names_the_model_and_whether_to_stream(codec, model):
    for stream in (False, True):
        request = Request(({"role": "user", "content": "Hi"},), model, max_tokens=9, stream=stream)
        wire = codec.encode_request(request)
        assert ":" not in wire.path
        assert codec.decode_request(wire) == request
        plain = wire.path.replace("%3A", ":").replace("%2F", "/")
        assert codec.decode_request(WireRequest(plain, wire.body)) == request


def test_parameters_without_a_field_of_ours_are_kept():
    body = {
        "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x"]},
        "additionalModelRequestFields": {"top_k": 5},
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
    }
    request = decode(**body)
    assert request.max_tokens == 9
    assert request.temperature == 0.5
    assert CODEC.encode_request(request).body == {"messages": [USER]} | body


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ({"auto": {}}, "auto"),
        ({"any": {}}, "required"),
        ({"tool": {"name": "look"}}, {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_a_choice_of_tools_is_the_one_of_the_chat_format(choice, meant):
    tool = {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}
    config = {"tools": [tool, {"cachePoint": {"type": "default"}}], "toolChoice": choice}
    request = decode(toolConfig=config)
    assert request.tool_choice == meant
    assert CODEC.encode_request(request).body["toolConfig"] == config


def test_cached_tokens_are_part_of_the_prompt():
    body = b"""{"output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 8}}"""
    assert CODEC.decode_response(body) == Response("Hi", usage=Usage.of(13, 2, cached=4), finish_reason="stop")


@pytest.mark.parametrize("codec", [CODEC, codec_of("bedrock_anthropic")], ids=lambda codec: codec.name)
def test_an_exception_inside_a_stream_is_raised_with_its_name(codec):
    frame = encode_exception("throttlingException", b'{"message": "Too many tokens"}')
    with pytest.raises(ProviderError, match="throttlingException: Too many tokens"):
        list(codec.stream_decoder().feed(frame))


def test_a_body_without_the_version_of_anthropic_is_that_of_another_model():
    with pytest.raises(OtherProtocolError):
        codec_of("bedrock_anthropic").decode_request(WireRequest("/model/meta.llama/invoke", {"prompt": "Hi"}))
