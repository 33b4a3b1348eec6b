"""Normalise rules: what a user declares to be noise is not seen by the fingerprint, and all else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MockProvider, NormaliseRules, RecordingProvider
from offbook.errors import InputError, RecordingFormatError, RecordingMismatchError
from offbook.messages import Request
from offbook.recording.match.fingerprint import fingerprint
from tests.fakes import Echo, user

WHERE = NormaliseRules(mask=(r"order-\d+",))


def asking(*contents, **options):
    return Request(tuple({"role": "user", "content": content} for content in contents), "m", **options)


def equal(rules, one, other):
    return fingerprint(one, rules) == fingerprint(other, rules)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("messages[*].content.at", '{"at": 1, "city": "Oslo"}', '{"at": 2, "city": "Oslo"}'),
        ("messages[*].content.at", '{"at": 1}', "{}"),
        ("messages[0].content.at", '{"at": 1}', '{"at": 2}'),
        ("messages.*.content.at", '{"at": 1}', '{"at": 2}'),
        ("messages[*].content.rows[*].id", '{"rows": [{"id": 1}, {"id": 2}]}', '{"rows": [{"id": 8}, {"id": 9}]}'),
        ("messages[*].content.rows[1]", '{"rows": [1, 2, 3]}', '{"rows": [1, 7, 3]}'),
        ("messages[*].content[0]", "[1, 2]", "[7, 2]"),
        ("messages[*].content.*.id", '{"a": {"id": 1}, "b": {"id": 2}}', '{"a": {"id": 3}, "b": {"id": 4}}'),
        ("messages[*].content.inner.at", '{"inner": "{\\"at\\": 1}"}', '{"inner": "{\\"at\\": 2}"}'),
        ("messages[*].content", "Hi", "Ho"),
        ("messages[*]", "Hi", "Ho"),
        ("messages", "Hi", "Ho"),
    ],
)
def test_an_ignored_path_does_not_matter(path, one, other):
    rules = NormaliseRules(ignore=(path,))
    assert equal(rules, asking(one), asking(other))
    assert not equal(NormaliseRules(), asking(one), asking(other))


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("messages[*].content.at", '{"at": 1, "city": "Oslo"}', '{"at": 1, "city": "Rome"}'),
        ("messages[1].content.at", '{"at": 1}', '{"at": 2}'),
        ("messages[*].content.rows[1]", '{"rows": [1, 2, 3]}', '{"rows": [7, 2, 3]}'),
        ("messages[*].content.at", "at 1", "at 2"),
        ("messages[*].content.at", '{"at": 1', '{"at": 2'),
        ("messages[*].content.at.deeper", '{"at": 1}', '{"at": 2}'),
    ],
)
def test_what_stands_beside_an_ignored_path_still_matters(path, one, other):
    assert not equal(NormaliseRules(ignore=(path,)), asking(one), asking(other))


def test_parts_of_a_content_and_extra_parameters_can_be_ignored():
    rules = NormaliseRules(ignore=("messages[*].content[*].id", "extra.user"))
    one = asking([{"type": "text", "text": "Hi", "id": 1}], extra={"user": "a", "seed": 1})
    other = asking([{"type": "text", "text": "Hi", "id": 2}], extra={"user": "b", "seed": 1})
    assert equal(rules, one, other)
    assert not equal(rules, one, asking([{"type": "text", "text": "Ho", "id": 1}], extra={"user": "a", "seed": 1}))
    assert not equal(rules, one, asking([{"type": "text", "text": "Hi", "id": 1}], extra={"user": "a", "seed": 2}))


def test_a_masked_pattern_does_not_matter_wherever_it_stands():
    assert equal(WHERE, asking("Where is order-1?"), asking("Where is order-22?"))
    assert equal(WHERE, asking([{"type": "text", "text": "order-1"}]), asking([{"type": "text", "text": "order-2"}]))
    assert not equal(WHERE, asking("Where is order-1?"), asking("Where was order-1?"))
    assert not equal(WHERE, asking("order-1 and order-2"), asking("order-1"))
    assert not equal(WHERE, asking("order-1", max_tokens=1), asking("order-1", max_tokens=2))


def test_runs_of_white_space_count_as_one_space_if_asked():
    rules = NormaliseRules(whitespace=True)
    assert equal(rules, asking("  Hello,\n\n  world "), asking("Hello, world"))
    assert not equal(rules, asking("Hello, world"), asking("Hello,world"))
    assert not equal(NormaliseRules(), asking("Hello,  world"), asking("Hello, world"))


@given(st.text(), st.text(), st.integers(), st.integers())
def test_rules_hide_what_they_name_and_nothing_else(left, right, first, second):
    rules = NormaliseRules(ignore=("messages[*].content.at",))
    contents = [json.dumps({"at": at, "text": text}) for at, text in ((first, left), (second, right))]
    assert equal(rules, asking(contents[0]), asking(contents[1])) == (left == right)


@pytest.mark.parametrize("path", ["", "a..b", "a[", "a[x]", "a[-1]", "[", "a.b]", "a."])
def test_a_path_that_cannot_be_read_is_refused(tmp_path, path):
    with pytest.raises(InputError, match="invalid path") as caught:
        RecordingProvider(Echo(), tmp_path / "run.json", normalise=NormaliseRules(ignore=(path,)))
    assert caught.value.source == "normalise"
    assert caught.value.place == "ignore"
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_pattern_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="invalid pattern") as caught:
        RecordingProvider(Echo(), tmp_path / "run.json", normalise=NormaliseRules(mask=("(",)))
    assert caught.value.source == "normalise"
    assert caught.value.place == "mask"


@pytest.mark.parametrize("rules", [NormaliseRules(ignore="messages"), NormaliseRules(mask="x")])
def test_a_text_where_a_list_belongs_is_refused(tmp_path, rules):
    with pytest.raises(InputError, match="expected a list"):
        RecordingProvider(Echo(), tmp_path / "run.json", normalise=rules)


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        ({"ignor": ["a"]}, "_meta.normalise"),
        ({"ignore": "a"}, "_meta.normalise.ignore"),
        ({"whitespace": "yes"}, "_meta.normalise.whitespace"),
        (["a"], "_meta.normalise"),
        ({"ignore": ["a..b"]}, "_meta.normalise.ignore"),
        ({"mask": ["("]}, "_meta.normalise.mask"),
    ],
)
def test_rules_that_a_recording_declares_wrongly_are_refused(declared, place):
    with pytest.raises(RecordingFormatError) as caught:
        MockProvider(responses={"_meta": {"normalise": declared}, "a": {"content": "x"}})
    assert caught.value.source == "responses"
    assert caught.value.place == place


@pytest.mark.parametrize("location", ["run.json", "sqlite:///run.db"])
async def test_rules_are_kept_in_the_recording_and_replay_obeys_them(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    async with RecordingProvider(Echo(), location, normalise=WHERE) as recorder:
        await recorder.complete(user("Where is order-1?"), "m")
        await recorder.complete(user("Where is order-1?"), "m", step_id="ask")
    mock = MockProvider(location, strict=True)
    assert (await mock.complete(user("Where is order-2?"), "m", step_id="ask")).content == "Where is order-1? #2"
    assert (await mock.complete(user("Where is order-3?"), "m")).content == "Where is order-1? #1"
    with pytest.raises(RecordingMismatchError):
        await mock.complete(user("Who is order-1?"), "m", step_id="ask")
    await mock.close()


async def test_rules_stand_readable_in_the_file(tmp_path):
    path = tmp_path / "run.json"
    rules = NormaliseRules(ignore=("messages[*].content.at",), mask=(r"\d+",), whitespace=True)
    await RecordingProvider(Echo(), path, normalise=rules).close()
    assert json.loads(path.read_text())["_meta"]["normalise"] == {
        "ignore": ["messages[*].content.at"],
        "mask": [r"\d+"],
        "whitespace": True,
    }


async def test_a_later_recorder_goes_on_with_the_rules_that_are_there(tmp_path):
    path = tmp_path / "run.json"
    async with RecordingProvider(Echo(), path, normalise=WHERE) as first:
        await first.complete(user("order-1"), "m", step_id="a")
    for rules in ({}, {"normalise": WHERE}):
        async with RecordingProvider(Echo(), path, **rules) as later:
            await later.complete(user("order-2"), "m", step_id="a")
    hashes = {entry["request_hash"] for entry in json.loads(path.read_text())["a"]}
    assert len(hashes) == 1


@pytest.mark.parametrize("location", ["run.json", "sqlite:///run.db"])
@pytest.mark.parametrize("record", ["append", "once", "new", "all"])
async def test_rules_cannot_change_once_there_are_exchanges(tmp_path, monkeypatch, location, record):
    monkeypatch.chdir(tmp_path)
    async with RecordingProvider(Echo(), location) as recorder:
        await recorder.complete(user("order-1"), "m")
    with pytest.raises(InputError, match="other normalise rules") as caught:
        RecordingProvider(Echo(), location, record=record, normalise=WHERE)
    assert caught.value.source == location
    assert caught.value.hint
    mock = MockProvider(location, strict=True)
    assert (await mock.complete(user("order-1"), "m")).content == "order-1 #1"
    await mock.close()


async def test_rules_may_change_while_a_recording_is_empty(tmp_path):
    path = tmp_path / "run.json"
    await RecordingProvider(Echo(), path, normalise=NormaliseRules(whitespace=True)).close()
    async with RecordingProvider(Echo(), path, normalise=WHERE) as recorder:
        await recorder.complete(user("order-1"), "m")
    assert (await MockProvider(path, strict=True).complete(user("order-9"), "m")).content == "order-1 #1"
