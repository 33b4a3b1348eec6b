"""Two records of what came over the wire: what counts as a change."""

import json

import pytest
from msgspec import Raw

from offbook.recording.compare import compare, propose
from offbook.recording.document import Document
from offbook.recording.exchange import Exchange
from offbook.recording.wire_comparison import wire_difference
from offbook.recording.wire_record import Base64, WireRecord


def chat(*texts, run="1", **fields):
    """A streamed answer of those pieces."""
    choices = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    documents = [{"id": f"chatcmpl-{run}", "created": int(run)} | choice for choice in (*choices, last)]
    frames = [(float(run) * place, f"data: {json.dumps(document)}\n\n") for place, document in enumerate(documents)]
    return WireRecord(protocol="openai_chat", frames=frames, **fields)


def test_times_ids_and_cuts_are_no_difference():
    assert wire_difference(chat("Hel", "lo"), chat("H", "el", "lo", run="2")) == ""
    headers = {"x-request-id": "req_1"}, {"x-request-id": "req_2"}
    old, new = (WireRecord(protocol="http", headers=each, body="text") for each in headers)
    assert wire_difference(old, new) == ""
    assert wire_difference(None, None) == ""


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (chat("Hello", status=201), ["status:", "-200", "+201"]),
        (chat("Hello", headers={"retry-after": "1"}), ["headers:", '+  "retry-after": "1"']),
        (chat("Hello", "!"), ["body.choices[0].delta.content:", '-"Hello"', '+"Hello!"']),
        (WireRecord(protocol="http", body="ü"), ["protocol:", "streamed:", '+"ü"']),
        (WireRecord(protocol="http", body=Base64("/w==")), [r'+"\\xff"']),
        (None, ["protocol:", '-"openai_chat"']),
    ],
)
def test_what_a_client_would_notice_is_a_difference(new, told):
    difference = wire_difference(chat("Hello"), new)
    assert [line for line in told if line not in difference] == []


def test_events_count_by_their_kinds_and_not_by_their_number():
    old, new, other = (
        WireRecord(protocol="anthropic", frames=[(0.0, f'data: {{"type": "{kind}", "n": 1}}\n\n') for kind in kinds])
        for kinds in ("abbbc", "abbc", "abbd")
    )
    assert wire_difference(old, new) == ""
    assert "body.type:" in wire_difference(old, other)


def changes(before, after):
    return [
        (change.kind, change.place)
        for change in compare(Document(entries={"a": before}), Document(entries={"a": after}))
    ]


def test_recordings_tell_a_change_of_the_bytes_only_if_the_answer_is_the_same():
    told = Exchange(content="Hello", wire=chat("Hello"))
    assert changes(told, Exchange(content="Hello", wire=chat("Hello", run="2"))) == []
    assert changes(told, Exchange(content="Hello", wire=chat("Hullo"))) == [("wire", "")]
    assert changes(told, Exchange(content="Hello")) == [("wire", "")]
    assert changes(told, Exchange(content="Hullo", wire=chat("Hullo"))) == [("answer", "")]


def plain(path="/v1/models", body="{}"):
    request = json.dumps({"method": "GET", "path": path, "body": None}).encode()
    return Exchange(request=Raw(request), wire=WireRecord(protocol="http", body=body))


def test_plain_http_is_told_by_its_place():
    place = "GET /v1/models"
    assert changes(plain(), plain(body='{"data": 1}')) == [("answer", place)]
    assert changes(plain("/v1/files"), plain()) == [("request", place)]
    assert changes([], plain()) == [("added", place)]
    assert changes(plain(), []) == [("removed", place)]
    (change,) = compare(Document(entries={"a": plain("/v1/files")}), Document(entries={"a": plain()}))
    assert '-"/v1/files"' in change.difference


def test_no_rules_are_proposed_for_plain_http():
    old, new = (Document(entries={"a": plain(path)}) for path in ("/a", "/b"))
    assert propose(old, new).unexplained == ()
