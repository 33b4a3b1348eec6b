"""Requests without a step that have changed are found by what is near them."""

import json

import pytest
from msgspec import Raw
from msgspec.structs import replace

from offbook.faults import HttpError
from offbook.recording.compare import VOLATILE_SHAPES, compare_documents, propose_rules, wire_difference
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, RecordedToolCall, ToolExchange
from offbook.recording.format.wire_record import BinaryText, WireRecord
from offbook.recording.match.fingerprint import NormaliseRules


def exchange_of(key, *contents, model="m", answer="Hello", at="2026-01-01"):
    """An exchange under a fingerprint."""
    request = {"model": model, "messages": [{"role": "user", "content": content} for content in contents]}
    return Exchange(content=answer, request_hash=key, request=Raw(json.dumps(request).encode()), recorded_at=at)


def fetched(key, path, body=None):
    return Exchange(request_hash=key, request=Raw(json.dumps({"method": "POST", "path": path, "body": body}).encode()))


def changes(old, new):
    """Where recordings of these exchanges differ, and how."""
    documents = [Document() for _ in range(2)]
    for document, exchanges in zip(documents, (old, new), strict=True):
        for exchange in exchanges:
            document.add(exchange.request_hash, exchange)
    return compare_documents(*documents)


def kinds_of(old, new):
    return [(change.old_key, change.key, change.kind) for change in changes(old, new)]


def test_a_changed_prompt_is_shown_against_what_it_was():
    old, new = exchange_of("a", "Sum up in one line: the news"), exchange_of("b", "Sum up in two lines: the news")
    (change,) = changes([old], [new])
    assert change.old_key == "a"
    assert change.key == "b"
    assert change.kind == "request"
    assert change.difference.splitlines()[-2:] == [
        "  -Sum up in one line: the news",
        "  +Sum up in two lines: the news",
    ]


def test_its_answer_is_compared_too():
    pair = exchange_of("a", "How are you today?"), exchange_of("b", "How are you doing today?", answer="Fine")
    assert kinds_of(pair[:1], pair[1:]) == [("a", "b", "request"), ("a", "b", "answer")]


def test_differences_come_in_the_order_of_the_calls_and_not_of_their_keys():
    first, second = exchange_of("z", "First of all, hello"), exchange_of("a", "And now goodbye", at="2026-01-02")
    new = [exchange_of("b", "First of all, hello!"), exchange_of("y", "And now goodbye!", at="2026-01-02")]
    assert [old_key for old_key, *_ in kinds_of([first, second], new)] == ["z", "a"]
    changed = [replace(each, content="Other") for each in (first, second)]
    assert [key for _, key, _ in kinds_of([first, second], changed)] == ["z", "a"]


def test_each_is_paired_with_the_nearest():
    old = [exchange_of("a", "What is the weather in Oslo?"), exchange_of("b", "What is the weather in Rome?")]
    new = [exchange_of("c", "What is the weather in Rome now?"), exchange_of("d", "What is the weather in Oslo now?")]
    assert kinds_of(old, new) == [("a", "d", "request"), ("b", "c", "request")]


def test_another_model_is_a_change_of_the_request():
    assert kinds_of([exchange_of("a", "Hi", model="m")], [exchange_of("b", "Hi", model="n")]) == [("a", "b", "request")]


def test_what_is_near_nothing_is_in_one_recording_alone():
    old = [exchange_of("a", "Translate this text to French, please: the cat sat on the mat")]
    assert kinds_of(old, [exchange_of("b", "3 + 4 = ?")]) == [("", "a", "removed"), ("", "b", "added")]


def test_calls_of_one_key_are_paired_one_by_one():
    old = [exchange_of("a", "How are you today?", at="1"), exchange_of("a", "How are you today?", at="2")]
    new = [exchange_of("b", "How are you doing today?", at="1")]
    assert kinds_of(old, new) == [("", "a", "removed"), ("a", "b", "request")]


def test_steps_are_compared_by_their_names_alone():
    documents = [Document(entries={key: exchange_of("0", "How are you?")}) for key in ("one", "two")]
    assert [(change.key, change.kind) for change in compare_documents(*documents)] == [
        ("one", "removed"),
        ("two", "added"),
    ]


@pytest.mark.parametrize(("path", "kinds"), [("/v1/files", ["request"]), ("/v1/batches", ["removed", "added"])])
def test_plain_http_is_paired_by_its_place(path, kinds):
    old, new = fetched("a", "/v1/files", {"n": 1}), fetched("b", path, {"n": 2})
    assert [kind for _, _, kind in kinds_of([old], [new])] == kinds


def test_a_change_that_cannot_be_seen_is_reported_all_the_same():
    (change,) = changes([exchange_of("a", "Hi")], [exchange_of("b", "Hi")])
    assert change.difference == "  (nothing differs that can be shown)"


def test_a_call_that_has_another_id_alone_has_not_changed_and_a_fault_is_shown_with_its_fields():
    def asks(**fields):
        return replace(exchange_of("a", "Hi"), **fields)

    calls = ([RecordedToolCall(id=name, name="get", arguments={})] for name in ("call_1", "call_2"))
    assert changes(*([asks(tool_calls=call)] for call in calls)) == []
    (change,) = changes(*([asks(fault=HttpError(status))] for status in (500, 503)))
    assert "503" in change.difference


def test_what_does_not_say_what_was_asked_is_paired_with_nothing():
    assert [kind for *_, kind in kinds_of([Exchange(request_hash="a")], [Exchange(request_hash="b")])] == [
        "removed",
        "added",
    ]


def test_many_changes_are_paired_in_order():
    words = "All work and no play makes Jack a dull boy. "
    old = [exchange_of(f"a{n:03}", f"{n} {words}", at=f"{n:03}") for n in range(60)]
    new = [exchange_of(f"b{n:03}", f"{n} {words} Yes.", at=f"{n:03}") for n in range(60)]
    assert kinds_of(old, new) == [(f"a{n:03}", f"b{n:03}", "request") for n in range(60)]


def test_what_is_far_away_in_order_is_not_searched():
    old = [exchange_of("a", "How are you today?", at="000")]
    new = [exchange_of(f"b{n:02}", f"{n} + {n} = ?", at=f"{n:03}") for n in range(26)]
    near, far = (exchange_of("z", "How are you doing today?", at=at) for at in ("024.5", "099"))
    assert ("a", "z", "request") in kinds_of(old, [*new, near])
    assert ("a", "z", "request") not in kinds_of(old, [*new, far])


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
    ("new", "message"),
    [
        (chat("Hello", status=201), ["status:", "-200", "+201"]),
        (chat("Hello", headers={"retry-after": "1"}), ["headers:", '+  "retry-after": "1"']),
        (chat("Hello", "!"), ["body.choices[0].delta.content:", '-"Hello"', '+"Hello!"']),
        (WireRecord(protocol="http", body="ü"), ["protocol:", "streamed:", '+"ü"']),
        (WireRecord(protocol="http", body=BinaryText("/w==")), [r'+"\\xff"']),
        (None, ["protocol:", '-"openai_chat"']),
    ],
)
def test_what_a_client_would_notice_is_a_difference(new, message):
    difference = wire_difference(chat("Hello"), new)
    assert [line for line in message if line not in difference] == []


def test_events_count_by_their_kinds_and_not_by_their_number():
    old, new, other = (
        WireRecord(protocol="anthropic", frames=[(0.0, f'data: {{"type": "{kind}", "n": 1}}\n\n') for kind in kinds])
        for kinds in ("abbbc", "abbc", "abbd")
    )
    assert wire_difference(old, new) == ""
    assert "body.type:" in wire_difference(old, other)


def kinds_and_places(before, after):
    return [
        (change.kind, change.place)
        for change in compare_documents(Document(entries={"a": before}), Document(entries={"a": after}))
    ]


def test_recordings_tell_a_change_of_the_bytes_only_if_the_answer_is_the_same():
    exchange = Exchange(content="Hello", wire=chat("Hello"))
    assert kinds_and_places(exchange, Exchange(content="Hello", wire=chat("Hello", run="2"))) == []
    assert kinds_and_places(exchange, Exchange(content="Hello", wire=chat("Hullo"))) == [("wire", "")]
    assert kinds_and_places(exchange, Exchange(content="Hello")) == [("wire", "")]
    assert kinds_and_places(exchange, Exchange(content="Hullo", wire=chat("Hullo"))) == [("answer", "")]


def plain(path="/v1/models", body="{}"):
    request = json.dumps({"method": "GET", "path": path, "body": None}).encode()
    return Exchange(request=Raw(request), wire=WireRecord(protocol="http", body=body))


def test_plain_http_is_reported_by_its_place():
    place = "GET /v1/models"
    assert kinds_and_places(plain(), plain(body='{"data": 1}')) == [("answer", place)]
    assert kinds_and_places(plain("/v1/files"), plain()) == [("request", place)]
    assert kinds_and_places([], plain()) == [("added", place)]
    assert kinds_and_places(plain(), []) == [("removed", place)]
    (change,) = compare_documents(Document(entries={"a": plain("/v1/files")}), Document(entries={"a": plain()}))
    assert '-"/v1/files"' in change.difference


def test_rules_are_proposed_for_the_part_that_differs_in_arguments_and_messages_of_sockets():
    def tools(run):
        return {"look": [ToolExchange(arguments={"text": f"in run {run}", "at": 1795103031 + run}, result=1)]}

    def socket(run):
        fields = {"method": "WEBSOCKET", "path": "/v1", "after": "", "sent": [[0, {"type": "a", "text": f"run {run}"}]]}
        return {f"k{run}": [Exchange(request_hash=f"k{run}", request=Raw(json.dumps(fields).encode()))]}

    old, new = (Document(entries=socket(run), tools=tools(run)) for run in (17, 230))
    proposal = propose_rules(old, new)
    assert proposal.unexplained == ()
    number = r"\d+(?:\.\d+)?"
    assert proposal.rules.mask == (f"(?<=run ){number}", VOLATILE_SHAPES["unix time"], f"(?<=in run ){number}")


@pytest.mark.parametrize(
    "texts", [("Ask Ann now", "Ask Bob now"), ("17 apples", "18 apples"), ("a run 1", "a run 2 3")]
)
def test_no_mask_is_proposed_for_words_for_a_whole_text_and_for_more_than_a_part(texts):
    old, new = (Document(tools={"look": [ToolExchange(arguments={"text": text}, result=1)]}) for text in texts)
    assert propose_rules(old, new).rules == NormaliseRules()


def test_no_rules_are_proposed_for_plain_http():
    old, new = (Document(entries={"a": plain(path)}) for path in ("/a", "/b"))
    assert propose_rules(old, new).unexplained == ()
