"""Redaction of what came over the wire: no secret stays, however it was cut, and what holds none stays as it is."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from offbook import Redactor
from offbook.recording.format.exchange import Exchange, RecordedToolCall, StreamPiece, ToolCallPiece
from offbook.recording.format.wire_record import BinaryText, WireRecord, wire_text
from offbook.recording.redact.redactor import SecretFinding
from offbook.vendors import SECRET_QUERY
from tests.recording.redact.test_redactor import EXAMPLES, INNOCENT, KEYS, MIX, redactor, redactors, texts

KEY = KEYS[0]
HTTP = {"protocol": "http"}
CHAT = {"protocol": "openai_chat"}


def sse(*documents):
    """Frames of an event each."""
    return [(float(number), f"data: {json.dumps(document)}\n\n") for number, document in enumerate(documents)]


def redacted(exchange):
    """The exchange without secrets, of which nothing more is to be found."""
    cleaned = redactor.redact(exchange)
    assert cleaned is not exchange
    assert redactor.findings(exchange)
    assert redactor.findings(cleaned) == []
    assert redactor.redact(cleaned) is cleaned
    assert MIX not in msgspec.json.encode(cleaned).decode()
    return cleaned


@pytest.mark.parametrize("protocol", ["http", "openai_chat"])
def test_a_secret_goes_from_the_body_and_the_json_around_it_stays(protocol):
    for kind, secret in EXAMPLES:
        body = json.dumps({"note": f"use {secret} now", "kept": 1})
        cleaned = redacted(Exchange(wire=WireRecord(protocol=protocol, body=body))).wire
        cleaned_body = json.loads(cleaned.body)
        assert cleaned_body["note"].startswith(f"use <redacted:{kind}:")
        assert cleaned_body["note"].endswith("> now")
        assert cleaned_body["kept"] == 1


@pytest.mark.parametrize("protocol", ["http", "openai_chat"])
def test_a_secret_goes_from_headers_and_the_rest_stays(protocol):
    headers = {"x-request-id": KEY, "api-key": "hunter2", "content-type": "text/plain"}
    cleaned = redacted(Exchange(wire=WireRecord(protocol=protocol, headers=headers, body="Hello"))).wire
    assert cleaned.headers["api-key"] == "<redacted>"
    assert cleaned.headers["x-request-id"].startswith("<redacted:")
    assert cleaned.headers["content-type"] == "text/plain"
    assert cleaned.body == "Hello"
    assert redacted(Exchange(wire=WireRecord(protocol=protocol, headers=headers))).wire.body is None


@pytest.mark.parametrize("name", ["api_key", "Authorization", "password"])
def test_the_values_of_secret_fields_go_from_a_body(name):
    body = json.dumps({"user": "ada", name: "hunter2", "inner": json.dumps({name: "hunter2"})})
    cleaned = redacted(Exchange(wire=WireRecord(**HTTP, body=body))).wire
    assert "hunter2" not in cleaned.body
    assert json.loads(cleaned.body)["user"] == "ada"


@given(data=st.data())
def test_a_secret_that_is_cut_into_frames_goes_wherever_it_is_cut(data):
    secret = data.draw(st.sampled_from(KEYS))
    content = f'{{"größe": "{secret}", "kept": 1}}'.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    parts = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    record = WireRecord(**HTTP, frames=[(float(number), wire_text(part)) for number, part in enumerate(parts)])
    cleaned = redacted(Exchange(wire=record)).wire
    assert [at_ms for at_ms, _ in cleaned.frames] == [at_ms for at_ms, _ in record.frames]
    assert json.loads(cleaned.content())["größe"].startswith("<redacted:")


def test_a_secret_between_bytes_that_are_no_text_goes_and_the_bytes_stay():
    record = WireRecord(**HTTP, body=wire_text(b"\xff\xfe " + KEY.encode() + b" \xff"))
    assert isinstance(record.body, BinaryText)
    content = redacted(Exchange(wire=record)).wire.content()
    assert content.startswith(b"\xff\xfe <redacted:")
    assert content.endswith(b"> \xff")


def test_a_slash_may_be_escaped():
    token = "Bear" + "er " + MIX + "/" + MIX
    whole = redactor.text(token)
    for body in (f'{{"a": "{token}"}}', json.dumps({"a": token}).replace("/", r"\/")):
        cleaned = redacted(Exchange(wire=WireRecord(**HTTP, body=body))).wire
        assert json.loads(cleaned.body) == {"a": whole}
    for body in (rf'{{"a": "Bearer abc\u002f{MIX}"}}', rf'{{"a": "{{\"b\": \"Bearer abc\\/{MIX}\"}}"}}'):
        assert redacted(Exchange(wire=WireRecord(**HTTP, body=body))).wire.body.count("<redacted:bearer-token:") == 1


def test_a_secret_in_escapes_takes_the_bytes_with_it():
    body = json.dumps({"a": KEY}).replace("s", r"\u0073", 1)
    assert redacted(Exchange(wire=WireRecord(**CHAT, body=body), model="m")).wire is None
    assert redacted(Exchange(wire=WireRecord(**HTTP, body=body))).wire == WireRecord(**HTTP, body="<redacted>")


@pytest.mark.parametrize(
    "answer",
    [
        {"content": f"use {KEY}"},
        {"reasoning": f"use {KEY}"},
        {"tool_calls": [RecordedToolCall(name="x", arguments={"key": KEY})]},
        {"chunks": [(0.0, KEY[:9]), (1.0, KEY[9:])], "content": KEY},
        {"chunks": [(0.0, StreamPiece(tool_call=ToolCallPiece(0, arguments=KEY)))]},
    ],
)
def test_bytes_of_an_answer_that_held_a_secret_go_altogether(answer):
    """They may hold it in a form that nobody looks for, such as the numbers of its letters."""
    numbers = json.dumps({"bytes": list(KEY.encode())})
    exchange = Exchange(**answer, wire=WireRecord(**CHAT, body=numbers), request=Raw(b'{"model": "m"}'))
    cleaned = redacted(exchange)
    assert cleaned.wire is None
    assert bytes(cleaned.request) == b'{"model": "m"}'
    assert redacted(Exchange(**answer, wire=WireRecord(**HTTP, body=numbers))).wire.body == numbers


@pytest.mark.parametrize("size", [1, 5, 11])
def test_a_secret_that_events_spell_out_takes_the_bytes_with_it(size):
    pieces = [KEY[start : start + size] for start in range(0, len(KEY), size)]
    frames = sse(*({"choices": [{"delta": {"content": "no"}}, {"delta": {"content": piece}}]} for piece in pieces))
    assert redacted(Exchange(content="no" * len(pieces), wire=WireRecord(**CHAT, frames=frames))).wire is None
    plain = redacted(Exchange(wire=WireRecord(**HTTP, status=201, frames=frames))).wire
    assert plain == WireRecord(**HTTP, status=201, body="<redacted>")


def test_bytes_that_would_no_longer_be_json_go():
    frames = sse({"delta": '{"password": "hun'}, {"delta": 'ter2"}'})
    assert redacted(Exchange(wire=WireRecord(**CHAT, frames=frames))).wire is None
    assert redacted(Exchange(wire=WireRecord(**HTTP, frames=frames))).wire.body == "<redacted>"


def test_patterns_of_the_user_are_found_in_the_bytes_too():
    mine = Redactor(patterns=("Müller",))
    content = "Herr Müller".encode()
    frames = [(0.0, wire_text(content[:7])), (1.0, wire_text(content[7:]))]
    cleaned = mine.redact(Exchange(wire=WireRecord(**HTTP, frames=frames))).wire
    assert cleaned.content() == b"Herr <redacted>"


def test_what_only_looks_like_a_secret_stays():
    for text in INNOCENT:
        for wire in (WireRecord(**CHAT, body=text), WireRecord(**HTTP, frames=sse({"text": text}, {"text": text}))):
            exchange = Exchange(content=text, wire=wire)
            assert redactor.redact(exchange) is exchange
            assert redactor.findings(exchange) == []


def test_findings_tell_the_place_once():
    wire = WireRecord(**CHAT, headers={"x-request-id": KEY}, body=json.dumps({"a": KEY, "b": KEY}))
    found = redactor.findings(Exchange(wire=wire))
    assert [finding.path for finding in found] == ["wire.headers.x-request-id", "wire.body"]
    frames = WireRecord(**CHAT, frames=sse({"a": KEY[:9]}, {"a": KEY[9:]}))
    assert redactor.findings(Exchange(wire=frames)) == [SecretFinding("wire.frames", found[0].kind)]


def test_the_query_of_plain_http_loses_its_key():
    key = "AI" + "za" + "Sy" + MIX * 2
    request = {"method": "GET", "path": f"/v1beta/models?key={key}", "body": None}
    cleaned = redacted(Exchange(request=Raw(json.dumps(request).encode()), wire=WireRecord(**HTTP, body="{}")))
    assert cleaned.http_place().startswith("GET /v1beta/models?key=<redacted:google-key:")


@pytest.mark.parametrize("name", sorted(SECRET_QUERY))
def test_a_parameter_that_is_secret_in_a_request_is_secret_in_a_text(name):
    wire = WireRecord(**HTTP, body=f"see https://api.example/v1?page=2&{name.upper()}={MIX}&limit=5")
    assert (
        redacted(Exchange(wire=wire)).wire.body
        == f"see https://api.example/v1?page=2&{name.upper()}=<redacted>&limit=5"
    )


@given(texts, st.integers(0, 9), st.sampled_from(["http", "openai_chat"]), redactors)
def test_redacting_twice_changes_nothing_and_leaves_nothing_to_find(text, cut, protocol, mine):
    for wire in (
        WireRecord(protocol=protocol, body=json.dumps({"a": text}, ensure_ascii=False)),
        WireRecord(protocol=protocol, frames=[(0.0, text[:cut]), (1.0, text[cut:])]),
        WireRecord(protocol=protocol, frames=sse({"a": text[:cut]}, {"a": text[cut:]})),
    ):
        exchange = Exchange(wire=wire)
        once = mine.redact(exchange)
        assert mine.redact(once) is once
        assert mine.findings(once) == []
        assert bool(mine.findings(exchange)) == (once is not exchange)
