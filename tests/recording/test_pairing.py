"""Requests without a step that have changed are found by what is near them."""

import json

import pytest
from msgspec import Raw

from offbook.recording.compare import compare
from offbook.recording.document import Document
from offbook.recording.exchange import Exchange


def asked(key, *contents, model="m", answer="Hello", at="2026-01-01"):
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
    return compare(*documents)


def told(old, new):
    return [(change.old_key, change.key, change.kind) for change in changes(old, new)]


def test_a_changed_prompt_is_shown_against_what_it_was():
    old, new = asked("a", "Sum up in one line: the news"), asked("b", "Sum up in two lines: the news")
    (change,) = changes([old], [new])
    assert (change.old_key, change.key, change.kind) == ("a", "b", "request")
    assert change.difference.splitlines()[-2:] == [
        "  -Sum up in one line: the news",
        "  +Sum up in two lines: the news",
    ]


def test_its_answer_is_compared_too():
    pair = asked("a", "How are you today?"), asked("b", "How are you doing today?", answer="Fine")
    assert told(pair[:1], pair[1:]) == [("a", "b", "request"), ("a", "b", "answer")]


def test_each_is_paired_with_the_nearest():
    old = [asked("a", "What is the weather in Oslo?"), asked("b", "What is the weather in Rome?")]
    new = [asked("c", "What is the weather in Rome now?"), asked("d", "What is the weather in Oslo now?")]
    assert told(old, new) == [("b", "c", "request"), ("a", "d", "request")]


def test_another_model_is_a_change_of_the_request():
    assert told([asked("a", "Hi", model="m")], [asked("b", "Hi", model="n")]) == [("a", "b", "request")]


def test_what_is_near_nothing_is_in_one_recording_alone():
    old = [asked("a", "Translate this text to French, please: the cat sat on the mat")]
    assert told(old, [asked("b", "3 + 4 = ?")]) == [("", "a", "removed"), ("", "b", "added")]


def test_calls_of_one_key_are_paired_one_by_one():
    old = [asked("a", "How are you today?", at="1"), asked("a", "How are you today?", at="2")]
    new = [asked("b", "How are you doing today?", at="1")]
    assert told(old, new) == [("", "a", "removed"), ("a", "b", "request")]


def test_steps_are_compared_by_their_names_alone():
    documents = [Document(entries={key: asked("0", "How are you?")}) for key in ("one", "two")]
    assert [(change.key, change.kind) for change in compare(*documents)] == [("one", "removed"), ("two", "added")]


@pytest.mark.parametrize(("path", "kinds"), [("/v1/files", ["request"]), ("/v1/batches", ["removed", "added"])])
def test_plain_http_is_paired_by_its_place(path, kinds):
    old, new = fetched("a", "/v1/files", {"n": 1}), fetched("b", path, {"n": 2})
    assert [kind for _, _, kind in told([old], [new])] == kinds


def test_a_change_that_cannot_be_seen_is_told_all_the_same():
    (change,) = changes([asked("a", "Hi")], [asked("b", "Hi")])
    assert change.difference == "  (nothing differs that can be shown)"


def test_what_does_not_say_what_was_asked_is_paired_with_nothing():
    assert [kind for *_, kind in told([Exchange(request_hash="a")], [Exchange(request_hash="b")])] == [
        "removed",
        "added",
    ]


def test_many_changes_are_paired_in_time():
    words = "All work and no play makes Jack a dull boy. " * 20
    old = [asked(f"a{n:03}", f"{n} {words}", at=f"{n:03}") for n in range(300)]
    new = [asked(f"b{n:03}", f"{n} {words} Yes.", at=f"{n:03}") for n in range(300)]
    assert told(old, new) == [(f"a{n:03}", f"b{n:03}", "request") for n in range(300)]
