"""Asking the real APIs again what was recorded, in every protocol."""

import orjson
import pytest

import offbook
from offbook.messages import Request, Response, ToolCall, Usage
from offbook.providers.pricing import Price, PriceTable
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODEC_NAMES, CODECS, PROVIDER_NAMES, VENDOR_OF
from offbook.wire.convert.trace import http_request_of
from offbook.wire.proxy.upstream import Upstreams
from offbook.wire.proxy.verify import Verifier, plan_verification
from offbook.wire.synthetic.embeddings import embeddings_answer
from tests.servers.loopback import LoopbackServer
from tests.servers.models import CodecServer

from .recorded import HTTP, VENDOR_ROOTS, recording

PRICES = PriceTable({name: Price(1.0, 2.0) for name in ("m-1", "m-2", "m")})
KEY = "sk-live-0123456789abcdef0123456789abcdef"
TOOLS = ({"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {}}}},)


def said(content="", **fields):
    return Response(content, "m-1", usage=Usage.of(10, 5), **fields)


def answers(request):
    """A model that refunds on demand, and else says what it was told."""
    asked = str(request.messages[-1]["content"])
    if "refund" in asked:
        return said(tool_calls=(ToolCall("refund", {"amount": 10}, "call_1"),), finish_reason="tool_calls")
    return said(asked.upper())


def other_answers(request):
    found = answers(request)
    if found.tool_calls:
        return said(tool_calls=(ToolCall("refund", {"amount": 12}, "call_9"),), finish_reason="tool_calls")
    return said(found.content + "!", finish_reason="stop")


def record(path, server, *texts, protocol="openai_chat", stream=False, model="m", tools=TOOLS):
    """Record a question for each text, as a client asks it in this protocol."""
    with recording(path, server.url) as proxy:
        for text in texts:
            messages = ({"role": "user", "content": text},)
            asked = Request(messages, model, tools=tools, max_tokens=50, stream=stream)
            request = http_request_of(asked, PROVIDER_NAMES[protocol], protocol=protocol)
            url = f"{proxy.url}{request.path}" + (f"?{request.query}" if request.query else "")
            headers = {**request.headers, "authorization": "Bearer some-key-of-a-client"}
            HTTP.post(url, content=request.body, headers=headers).raise_for_status()


def verify(path, server, *, only=(), budget=None):
    urls = {vendor: server.url + root for vendor, root in VENDOR_ROOTS.items()}
    upstreams = Upstreams(urls, keys=dict.fromkeys(VENDOR_ROOTS, KEY), clients_use_own_key=True)
    plan = plan_verification(open_store(path).load(), prices=PRICES, only=only)
    verifier = Verifier(upstreams, prices=PRICES, redactor=Redactor(), budget_usd=budget)
    verifier.check(plan)
    return offbook.run(verifier.run(plan))


def outcomes(found):
    return [call.outcome for call in found.calls]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("codec", [CODECS[name] for name in CODEC_NAMES.values()], ids=CODEC_NAMES.values())
def test_each_protocol_is_asked_again_as_it_was_and_compared(codec, stream, tmp_path):
    provider = PROVIDER_NAMES[codec.name]
    with CodecServer(codec, answers) as server:
        record(tmp_path / "run.json", server, "please refund", "hello", protocol=codec.name, stream=stream)
        before = (tmp_path / "run.json").read_bytes()
        found = verify(tmp_path / "run.json", server)
        assert outcomes(found) == ["identical", "identical"]
        assert found.is_same
        asked = server.requests
        assert asked[:2] == asked[2:]
        secret = next(iter(VENDOR_OF[provider].codec.auth_headers(KEY).values()))
        assert secret in server.calls[-1].headers.values()
        server.respond = other_answers
        found = verify(tmp_path / "run.json", server)
    refund, hello = found.calls
    assert outcomes(found) == ["drifted", "reworded"]
    assert [(each.kind, each.place, each.recorded, each.live) for each in refund.differences] == [
        ("argument", "refund.amount", "10", "12"),
        ("cost", "cost", "$0.000000", "$0.000020"),
    ]
    assert next((each.kind, each.recorded, each.live) for each in hello.differences) == ("text", "HELLO", "HELLO!")
    assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize("protocol", sorted(CODECS.keys() - CODEC_NAMES.values()))
def test_a_prompt_is_asked_again_as_a_prompt(protocol, tmp_path):
    with CodecServer(CODECS[protocol], answers) as server:
        record(tmp_path / "run.json", server, "hello", protocol=protocol, tools=())
        assert outcomes(verify(tmp_path / "run.json", server)) == ["identical"]
    assert server.calls[0].path == server.calls[1].path


def test_a_failure_of_the_api_is_no_drift(tmp_path):
    with CodecServer(CODECS["openai_chat"], answers) as server:
        record(tmp_path / "run.json", server, "one", "two", "three")
        answered = server.answer

        def fail(call):
            asked = orjson.loads(call.body)["messages"][0]["content"]
            if asked == "one":
                call.whole(b'{"error": {"message": "slow down"}}', status=429)
            elif asked == "two":
                call.reset()
            else:
                answered(call)

        server.answer = fail
        found = verify(tmp_path / "run.json", server)
    assert outcomes(found) == ["failed", "failed", "identical"]
    assert not found.is_same
    assert [call.failure.partition(" from ")[0] for call in found.calls] == ["status 429", "no answer", ""]
    assert not any(call.differences for call in found.calls[:2])


def test_what_was_not_sent_like_that_is_named_and_not_sent(tmp_path):
    path = tmp_path / "run.json"
    with CodecServer(CODECS["openai_chat"], answers) as server:
        record(path, server, "one", f"my key is {KEY}", "three", "four")
        document = orjson.loads(path.read_bytes())
        three, four = (entry for entry in list(document.values())[2:] if entry.get("content") in ("THREE", "FOUR"))
        three["request"]["messages"][0]["content"] = "drei"
        four["fault"] = {"type": "http_error", "status_code": 500}
        document["by_hand"] = {"content": "Hi"}
        path.write_bytes(orjson.dumps(document))
        asked = len(server.calls)
        found = verify(path, server)
        assert len(server.calls) == asked + 1
    assert outcomes(found) == ["identical"]
    assert [left.reason for left in found.left_out] == [
        "it does not say which request it answers",
        "secrets were removed from its request",
        "its request is not the one that was sent",
        "it was recorded as a failure (http_error)",
    ]


def test_calls_beyond_the_budget_are_not_made(tmp_path):
    with CodecServer(CODECS["openai_chat"], answers) as server:
        record(tmp_path / "run.json", server, "one", "two", "three")
        cost = (10 * 1.0 + 5 * 2.0) / 1_000_000
        assert outcomes(verify(tmp_path / "run.json", server, budget=2.5 * cost)) == ["identical"] * 2 + ["not asked"]
        assert outcomes(verify(tmp_path / "run.json", server, budget=0.0)) == ["not asked"] * 3
        assert len(server.calls) == 5
        only = verify(tmp_path / "run.json", server, only=[3])
        assert [call.number for call in only.calls] == [3]
        record(tmp_path / "other.json", server, "one", model="unheard-of")
        server.respond = lambda request: said("Hi")
        document = (tmp_path / "other.json").read_text().replace('"model":"m-1"', '"model":"unheard-of"')
        (tmp_path / "other.json").write_text(document.replace('"model": "m-1"', '"model": "unheard-of"'))
        with pytest.raises(offbook.InputError, match="no price is known"):
            verify(tmp_path / "other.json", server, budget=1.0)


EMBEDDINGS = {
    "openai": ("/v1/embeddings", {"model": "m", "input": ["one", "two"], "dimensions": 8}),
    "openai, packed": (
        "/v1/embeddings",
        {"model": "m", "input": "one", "dimensions": 8, "encoding_format": "base64"},
    ),
    "google": ("/v1beta/models/m:embedContent", {"content": {"parts": [{"text": "one"}]}, "outputDimensionality": 8}),
    "google, many": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [{"content": {"parts": [{"text": text}]}, "outputDimensionality": 8} for text in ("one", "two")]},
    ),
    "ollama": ("/api/embed", {"model": "m", "input": ["one", "two"], "dimensions": 8}),
    "ollama, old": ("/api/embeddings", {"model": "m", "prompt": "one"}),
}


def embed(call, word="one"):
    """Answer as the vendor of the path does, with vectors that are made of the texts, here with another word."""
    vendor = next(name.partition(",")[0] for name, (path, _) in EMBEDDINGS.items() if path == call.path)
    body = orjson.loads(call.body.replace(b"one", word.encode()))
    call.whole(orjson.dumps(embeddings_answer(vendor, call.path, body)))


def record_embeddings(path, server, name):
    place, body = EMBEDDINGS[name]
    with recording(path, server.url) as proxy:
        HTTP.post(proxy.url + place, content=orjson.dumps(body)).raise_for_status()


def drift(found):
    return [(each.kind, each.place, each.recorded, each.live) for each in found.calls[0].differences if each.is_drift]


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_are_asked_again_and_compared_by_direction(name, tmp_path):
    path = tmp_path / "run.json"
    with LoopbackServer(embed) as server:
        record_embeddings(path, server, name)
        found = verify(path, server)
        assert outcomes(found) == ["identical"]
        assert found.calls[0].differences == []
        assert found.left_out == []
        assert orjson.loads(server.calls[0].body) == orjson.loads(server.calls[1].body)
        server.answer = lambda call: embed(call, "two")
        [different] = drift(verify(path, server))
        assert different[:3] == ("direction", "cosine similarity", "1.0000")
        assert "1 of " in different[3]
        assert drift(verify(path, server)) == [different]


def test_embeddings_that_differ_in_rounding_alone_are_the_same_and_cost_what_their_tokens_do(tmp_path):
    path = tmp_path / "run.json"
    with LoopbackServer(embed) as server:
        record_embeddings(path, server, "openai")
        place, body = EMBEDDINGS["openai"]
        answer = embeddings_answer("openai", place, body)
        answer["data"][1]["embedding"][3] += 0.0001
        server.answer = lambda call: call.whole(orjson.dumps(answer))
        found = verify(path, server)
    assert outcomes(found) == ["identical"]
    assert [each.kind for each in found.calls[0].differences] == ["rounding"]
    assert found.cost_usd == found.recorded_cost_usd == 2 * 1.0 / 1_000_000


def test_other_dimensions_another_number_and_another_model_are_drift(tmp_path):
    path = tmp_path / "run.json"
    with LoopbackServer(embed) as server:
        record_embeddings(path, server, "openai")
        other = embeddings_answer("openai", "/v1/embeddings", {"model": "m-2", "input": "one", "dimensions": 4})
        server.answer = lambda call: call.whole(orjson.dumps(other))
        assert drift(verify(path, server)) == [
            ("vectors", "embeddings", "2", "1"),
            ("dimensions", "dimensions", "8", "4"),
            ("model", "model", "m", "m-2"),
            ("prompt_tokens", "prompt tokens", "2", "1"),
        ]
