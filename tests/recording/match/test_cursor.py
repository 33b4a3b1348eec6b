"""The cursor: which exchange answers the next call, in which order, and why one is refused."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MockProvider, NormaliseRules, RecordingProvider, serving
from offbook.errors import RecordingMismatchError
from offbook.recording.format.file import document_from_dict
from offbook.recording.match.cursor import Cursor, without_home_names
from offbook.recording.stores.memory import MemoryReader
from tests.fakes import Echo, user


def entry(content, request_hash=None):
    return {"content": content} | ({} if request_hash is None else {"request_hash": request_hash})


def cursor_over(**responses):
    return Cursor(MemoryReader(document_from_dict(responses, source="responses"), source="responses"))


def served(cursor, step_id, fingerprint):
    """What answers a call, and why a strict reader would refuse it; it counts as served."""
    match = cursor.match(step_id, fingerprint)
    if match.stored is not None:
        cursor.use(match.stored)
    return match.stored and match.stored.exchange.content, match.matched_by, match.mismatch


def test_an_object_answers_every_call_of_its_key():
    cursor = cursor_over(a=entry("x", "f"))
    assert [served(cursor, "a", "f") for _ in range(3)] == [("x", "step_id", None)] * 3


@pytest.mark.parametrize(
    ("fields", "served_again"),
    [
        ({"recorded_at": "2026-01-01T00:00:00Z"}, [("a", 2)]),
        ({}, []),
        ({"recorded_at": "2026-01-01T00:00:00Z", "fault": {"type": "timeout"}}, []),
    ],
    ids=["recorded", "written by hand", "a failure that clients retry"],
)
def test_a_recorded_answer_is_overused_if_it_is_served_again(fields, served_again):
    request = {"model": "m", "messages": []}
    cursor = cursor_over(a=entry("A", "x") | {"request": request} | fields, b=[entry("B", "y") | fields])
    served(cursor, "a", "x")
    assert cursor.overused() == []
    served(cursor, "a", "x")
    served(cursor, "b", "y")
    assert [(each.key, each.served) for each in cursor.overused()] == served_again


def test_an_object_that_was_recorded_for_another_request_has_drifted():
    assert served(cursor_over(a=entry("x", "f")), "a", "g") == ("x", "step_id", "drifted")


def test_an_entry_without_a_hash_fits_every_request():
    cursor = cursor_over(a=entry("x"), b=[entry("y"), entry("z")])
    assert served(cursor, "a", "anything") == ("x", "step_id", None)
    assert [served(cursor, "b", name)[0] for name in ("p", "q")] == ["y", "z"]


def test_a_list_answers_in_order_and_once():
    cursor = cursor_over(a=[entry("1"), entry("2")])
    assert [served(cursor, "a", "f") for _ in range(3)] == [
        ("1", "step_id", None),
        ("2", "step_id", None),
        ("2", "step_id", "exhausted"),
    ]


def test_a_list_of_one_is_used_up_after_one_call():
    cursor = cursor_over(a=[entry("x", "f")])
    assert served(cursor, "a", "f") == ("x", "step_id", None)
    assert served(cursor, "a", "f") == ("x", "step_id", "exhausted")


def test_of_a_list_the_first_unused_entry_of_the_same_request_answers():
    cursor = cursor_over(a=[entry("1", "f"), entry("2", "g"), entry("3", "f")])
    assert [served(cursor, "a", name) for name in ("g", "f", "f")] == [
        ("2", "step_id", None),
        ("1", "step_id", None),
        ("3", "step_id", None),
    ]


def test_a_request_that_a_list_does_not_know_gets_the_next_in_order_and_has_drifted():
    cursor = cursor_over(a=[entry("1", "f"), entry("2", "g")])
    assert served(cursor, "a", "h") == ("1", "step_id", "drifted")
    assert served(cursor, "a", "h") == ("2", "step_id", "drifted")
    assert served(cursor, "a", "h") == ("2", "step_id", "exhausted")


def test_a_request_whose_answers_are_used_up_is_exhausted_even_if_others_are_left():
    cursor = cursor_over(a=[entry("1", "f"), entry("2", "g")])
    served(cursor, "a", "f")
    assert served(cursor, "a", "f") == ("2", "step_id", "exhausted")


def test_a_used_up_list_repeats_the_last_answer_to_the_same_request():
    cursor = cursor_over(a=[entry("1", "f"), entry("2", "g")])
    for name in ("f", "g"):
        served(cursor, "a", name)
    assert served(cursor, "a", "f") == ("1", "step_id", "exhausted")
    assert served(cursor, "a", "h") == ("2", "step_id", "exhausted")


def test_the_step_comes_before_the_fingerprint():
    cursor = cursor_over(a=entry("by step", "other"), f=entry("by hash", "f"))
    assert served(cursor, "a", "f") == ("by step", "step_id", "drifted")
    assert served(cursor, None, "f") == ("by hash", "prompt_hash", None)


def test_an_unknown_step_is_answered_by_its_fingerprint():
    cursor = cursor_over(f=entry("keyed by hash"), a=entry("of another step", "g"))
    assert served(cursor, "new", "f") == ("keyed by hash", "prompt_hash", None)
    assert served(cursor, "new", "g") == ("of another step", "prompt_hash", None)


def test_the_entry_under_the_fingerprint_comes_before_equal_requests_of_steps():
    cursor = cursor_over(a=entry("of a step", "f"), f=entry("under its own key", "f"))
    assert served(cursor, None, "f") == ("under its own key", "prompt_hash", None)


def test_equal_requests_are_served_first_in_first_out_over_all_steps():
    cursor = cursor_over(b=entry("1", "f"), a=[entry("2", "f"), entry("-", "g"), entry("3", "f")])
    assert [served(cursor, None, "f") for _ in range(4)] == [
        ("1", "prompt_hash", None),
        ("2", "prompt_hash", None),
        ("3", "prompt_hash", None),
        ("3", "prompt_hash", "exhausted"),
    ]


def test_the_last_of_equal_requests_goes_on_answering_if_it_is_an_object():
    cursor = cursor_over(a=entry("1", "f"), b=entry("2", "f"))
    assert [served(cursor, None, "f")[0] for _ in range(4)] == ["1", "2", "2", "2"]


def test_what_was_served_by_step_is_not_served_again_by_fingerprint():
    cursor = cursor_over(a=[entry("1", "f"), entry("2", "f")])
    assert served(cursor, "a", "f")[0] == "1"
    assert served(cursor, None, "f")[0] == "2"
    assert served(cursor, "a", "f") == ("2", "step_id", "exhausted")


def test_what_nothing_fits_is_missing():
    assert served(cursor_over(a=entry("x", "f")), "b", "g") == (None, "default", "missing")
    assert served(cursor_over(a=entry("hand-written")), None, "g") == (None, "default", "missing")
    assert served(cursor_over(), None, "g") == (None, "default", "missing")


def test_matching_alone_serves_nothing():
    cursor = cursor_over(a=[entry("1"), entry("2")])
    first = cursor.match("a", "f").stored
    assert cursor.match("a", "f").stored is first
    assert [position for position, _ in cursor.unserved()] == [0, 1]
    cursor.use(first)
    assert [position for position, _ in cursor.unserved()] == [1]
    assert cursor.match("a", "f").stored.exchange.content == "2"


@given(recorded=st.lists(st.sampled_from("fgh"), min_size=1, max_size=12), data=st.data())
def test_a_list_gives_each_request_its_own_answers_in_order_whatever_the_order_of_calls(recorded, data):
    cursor = cursor_over(a=[entry(f"{name}{place}", name) for place, name in enumerate(recorded)])
    answers = {name: [] for name in recorded}
    for name in data.draw(st.permutations(recorded)):
        content, matched_by, mismatch = served(cursor, "a", name)
        assert matched_by == "step_id"
        assert mismatch is None
        answers[name].append(content)
    assert answers == {
        name: [f"{name}{place}" for place, other in enumerate(recorded) if other == name] for name in recorded
    }


@given(
    entries=st.dictionaries(
        st.sampled_from("abf"), st.lists(st.sampled_from([None, "f", "g"]), min_size=1, max_size=4)
    ),
    calls=st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from("fgh")), max_size=20),
)
def test_nothing_of_a_list_is_served_twice_without_a_mismatch(entries, calls):
    responses = {
        key: [entry(f"{key}{place}", request_hash) for place, request_hash in enumerate(hashes)]
        for key, hashes in entries.items()
    }
    cursor = cursor_over(**responses)
    answers = [served(cursor, step_id, fingerprint) for step_id, fingerprint in calls]
    clean = Counter(content for content, _, mismatch in answers if mismatch is None)
    assert all(count == 1 for count in clean.values())


def test_an_object_still_answers_every_call_when_an_answer_is_written_beside_it():
    cursor = cursor_over(a=[entry("x", "f"), {"when": "any", "content": "by hand"}])
    assert [served(cursor, "a", "f") for _ in range(3)] == [("x", "step_id", None)] * 3


ANN = "Read /home/ann/project/notes.txt, please."


async def record(path, *contents, **options):
    async with RecordingProvider(Echo(), path, **options) as recorder:
        for content in contents:
            await recorder.complete(user(content), model="m", step_id=options.get("step_id"))
    return path


@pytest.mark.parametrize(
    "asked",
    [
        "Read /home/bob/project/notes.txt, please.",
        "Read /Users/bob.smith/project/notes.txt, please.",
        "Read /root/project/notes.txt, please.",
        "Read /srv/jenkins/project/notes.txt, please.",
    ],
)
async def test_a_recording_of_one_user_answers_another(tmp_path, monkeypatch, asked):
    monkeypatch.setenv("HOME", "/srv/jenkins")
    path = await record(tmp_path / "run.json", ANN)
    mock = MockProvider(path, strict=True)
    assert (await mock.complete(user(asked), model="m")).content == f"{asked} #1"
    assert mock.unused() == []


@pytest.mark.parametrize(
    "asked",
    [
        "Read /home/bob/other/notes.txt, please.",
        "Read /rooted/project/notes.txt, please.",
        "Read /homes/bob/project/notes.txt, please.",
        "Read https://x.org/home/bob/project/notes.txt, please.",
    ],
)
async def test_what_differs_in_more_is_a_mismatch(tmp_path, asked):
    mock = MockProvider(await record(tmp_path / "run.json", ANN), strict=True)
    with pytest.raises(RecordingMismatchError):
        await mock.complete(user(asked), model="m")


async def test_an_equal_request_comes_first_and_each_answer_is_served_once(tmp_path):
    eve = ANN.replace("ann", "eve")
    mock = MockProvider(await record(tmp_path / "run.json", ANN, eve), strict=True)
    assert (await mock.complete(user(eve), model="m")).content == f"{eve} #2"
    bob = ANN.replace("ann", "bob")
    assert (await mock.complete(user(bob), model="m")).content == f"{bob} #1"
    assert mock.unused() == []


async def test_a_rule_of_the_recording_makes_home_folders_count(tmp_path):
    path = await record(tmp_path / "run.json", ANN, normalise=NormaliseRules(home_paths=False))
    assert json.loads(path.read_text())["_meta"]["normalise"] == {"home_paths": False}
    with pytest.raises(RecordingMismatchError):
        await MockProvider(path, strict=True).complete(user(ANN.replace("ann", "bob")), model="m")


def tool_turn(**more):
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"order": null}'}, **more}
    return [
        *user("Find it."),
        {"role": "assistant", "tool_calls": [call], "content": [{"type": "text", "text": "Yes.", **more}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ]


@pytest.mark.parametrize(("recorded", "asked"), [({"caller": None}, {}), ({}, {"caller": None})])
async def test_null_fields_inside_messages_do_not_count(tmp_path, recorded, asked):
    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        await recorder.complete(tool_turn(**recorded), model="m")
    mock = MockProvider(tmp_path / "run.json", strict=True)
    assert (await mock.complete(tool_turn(**asked), model="m")).content == "found #1"
    assert mock.unused() == []
    with pytest.raises(RecordingMismatchError):
        await mock.complete(tool_turn(**asked, caller_id=1), model="m")


async def test_a_null_in_the_schema_of_a_tool_counts(tmp_path):
    def tools(**schema):
        return [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", **schema}}}]

    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        await recorder.complete(user("Find it."), model="m", tools=tools(default=None))
    with pytest.raises(RecordingMismatchError):
        await MockProvider(tmp_path / "run.json", strict=True).complete(user("Find it."), model="m", tools=tools())


async def test_windows_and_json_inside_of_json_are_known():
    inner = json.dumps({"path": r"C:\Users\ann\notes.txt"})
    outer = json.dumps({"content": inner, "beside": r"D:\Users\ann"}).encode()
    assert b"ann" not in without_home_names(outer)
    assert outer.replace(b"ann", b"bob") != outer
    assert without_home_names(outer) == without_home_names(outer.replace(b"ann", b"bob"))


async def test_over_http_too_also_for_what_is_no_model_call(tmp_path):
    import openai  # noqa: PLC0415 - large, and other tests here need not have it

    path = await record(tmp_path / "run.json", ANN)
    with serving(path) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        asked = user(ANN.replace("ann", "bob"))
        assert (
            client.chat.completions.create(model="m", messages=asked).choices[0].message.content
            == f"{asked[0]['content']} #1"
        )
        assert server.misses == []
