"""The rules of the vendors: what they refuse, and what they do not."""

import json
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.base import WireRequest
from offbook.codecs.rules import PROTOCOLS, refusal_of, refusal_of_request, rules_of
from offbook.vendors import codec_of
from tests.codecs.rules.requests import ACCEPTED, REFUSED, asks, chat

SHAPES = {
    "openai_chat": {"error": {"message": "x", "type": "invalid_request_error", "param": None, "code": None}},
    "openai_responses": {"error": {"message": "x", "type": "invalid_request_error", "param": None, "code": None}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}, "request_id": ""},
    "gemini": {"error": {"code": 400, "message": "x", "status": "INVALID_ARGUMENT"}},
    "bedrock": {"message": "x", "__type": "ValidationException"},
}
KEPT = ("type", "status", "__type")
LEGAL = [json.loads(line) for line in Path(__file__).with_name("legal.jsonl").read_text(encoding="utf-8").splitlines()]


def keys_and_kinds(value):
    """The keys of an error body, and the values that say which kind of error it is."""
    if not isinstance(value, dict):
        return None
    return {name: each if name in KEPT else keys_and_kinds(each) for name, each in value.items()}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_request_that_breaks_a_rule_is_refused(case):
    refusal = refusal_of(case.protocol, case.wire)
    assert refusal is not None
    assert (refusal.rule, refusal.breach.place) == (case.rule, case.place)
    assert case.words in refusal.breach.message


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_refusal_has_the_status_and_the_shape_of_its_vendor(case):
    refusal = refusal_of(case.protocol, case.wire)
    assert refusal.status == 400
    body = refusal.error_body(codec_of(case.protocol).encode_error)
    assert keys_and_kinds(body) == keys_and_kinds(SHAPES[case.protocol])


@pytest.mark.parametrize("case", ACCEPTED, ids=[f"{each.protocol}-{place}" for place, each in enumerate(ACCEPTED)])
def test_an_odd_request_that_is_legal_is_accepted(case):
    assert refusal_of(case.protocol, case.wire) is None


@pytest.mark.parametrize("case", LEGAL, ids=[f"{each['protocol']}: {each['why']}" for each in LEGAL])
def test_what_the_documentation_of_a_vendor_allows_is_accepted(case):
    request = WireRequest(case["path"], case["body"])
    assert refusal_of(case["protocol"], request) is None
    assert refusal_of(case["protocol"], request, has_real_answers=False) is None
    codec = codec_of(case["protocol"])
    assert refusal_of_request(codec.decode_request(request), codec) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_vendor_refuses_seven_kinds_at_least_and_allows_as_many_odd_requests(protocol):
    refused = {case.rule for case in REFUSED if case.protocol == protocol}
    allowed = [each for each in LEGAL if each["protocol"] == protocol]
    assert len(allowed) > len(refused) > 6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_rule_refuses_a_request(protocol):
    assert {case.rule for case in REFUSED if case.protocol == protocol} == {rule.name for rule in rules_of(protocol)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_rule_names_its_source_and_its_date(protocol):
    for rule in rules_of(protocol):
        assert all(re.match(r"https://\S+$|\S+ [\d.]+: \S", source) for source in rule.source.split(", ")[:1])
        assert date.fromisoformat(rule.seen) <= date(2026, 11, 19)


def test_a_refusal_of_openai_names_parameter_and_code():
    refusal = refusal_of("openai_chat", WireRequest("/v1/chat/completions", chat(temperature=3)))
    error = refusal.error_body(codec_of("openai_chat").encode_error)["error"]
    assert (error["param"], error["code"]) == ("temperature", "decimal_above_max_value")


@pytest.mark.parametrize(
    "model", ["NousResearch/Hermes-4", "local-model", "allenai/olmo-2", "mistral-large", "LFM2-8B"]
)
def test_a_model_of_another_vendor_is_not_judged(model):
    assert refusal_of("openai_chat", WireRequest("/v1/chat/completions", chat(asks("c1")) | {"model": model})) is None


@pytest.mark.parametrize("model", ["gpt-4o", "openai/o3", "ft:gpt-4o-mini:shop", "chatgpt-4o-latest", "our-deployment"])
def test_a_model_of_the_vendor_and_one_of_an_unknown_name_are_judged(model):
    assert refusal_of("openai_chat", WireRequest("/v1/chat/completions", chat(asks("c1")) | {"model": model}))


def test_a_request_in_a_protocol_without_rules_is_never_refused():
    assert refusal_of("ollama", WireRequest("/api/chat", {})) is None


WORDS = (
    "model",
    "messages",
    "input",
    "contents",
    "tools",
    "role",
    "content",
    "parts",
    "tool_calls",
    "id",
    "type",
    "text",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*WORDS, "assistant", "user", "tool", "tool_use", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(body=st.dictionaries(st.sampled_from(WORDS), JSON, max_size=5), protocol=st.sampled_from(PROTOCOLS))
def test_no_request_breaks_the_rules_themselves(body, protocol):
    refusal = refusal_of(protocol, WireRequest("/", body))
    assert refusal is None or str(refusal)
