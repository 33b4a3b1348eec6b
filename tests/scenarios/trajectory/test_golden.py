"""Golden trajectories: what is a difference, what is not, and the file that keeps them."""

import orjson
import pytest

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.recording.match.fingerprint import NormaliseRules
from offbook.scenarios.trajectory.golden import (
    GoldenFile,
    describe_difference,
    golden_path,
    golden_variant,
    load_golden,
    recorded_turns,
    save_golden,
    turns_in,
)


def turn(*calls):
    """Calls of one answer, like `("refund", amount=10)` as a pair of a name and arguments."""
    return tuple(ToolCall(name, arguments, f"call_{index}") for index, (name, arguments) in enumerate(calls))


FIND, REFUND, MAIL = ("find", {"id": 7}), ("refund", {"amount": 10}), ("mail", {"to": "Ada"})
RUN = [turn(FIND), turn(REFUND, MAIL)]


def golden(*runs, rules=None):
    made = NormaliseRules() if rules is None else rules
    return GoldenFile(variants=[golden_variant(run, made) for run in runs], normalise=made)


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        [turn(FIND), turn(MAIL, REFUND)],
        [turn(FIND), turn(MAIL), turn(REFUND)],
        [turn(FIND, REFUND, MAIL)],
        [turn(MAIL, FIND, REFUND)],
    ],
    ids=["the same", "parallel the other way", "one after the other", "all at once", "all at once, in any order"],
)
def test_calls_of_one_answer_have_no_order(run):
    assert golden(RUN).match(run)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ([turn(FIND), turn(REFUND)], "missing: mail(to='Ada')"),
        ([*RUN, turn(MAIL)], "extra: call 4, mail(to='Ada')"),
        ([turn(REFUND), turn(FIND), turn(MAIL)], "misplaced: call 1, refund(amount=10), is expected at position 3"),
        (
            [turn(FIND), turn(("refund", {"amount": 12}), MAIL)],
            "arguments differ: call 3, refund: amount: expected 10, got 12",
        ),
        ([turn(FIND), turn(("refund", "{"), MAIL)], None),
        ([], "missing: find(id=7)"),
    ],
)
def test_other_calls_are_a_difference(run, reason):
    run = [tuple(ToolCall.parse(c.tool, c.args) if isinstance(c.args, str) else c for c in each) for each in run]
    match = golden(RUN).match(run)
    assert not match
    assert reason is None or match.reason == reason


def test_any_variant_is_accepted_and_the_nearest_one_is_shown():
    both = golden([turn(FIND)], RUN)
    assert both.match(RUN)
    assert both.match([turn(FIND)])
    shown = describe_difference(both.match([turn(FIND), turn(REFUND)]), both)
    assert shown.startswith("not as approved (nearest of 2 variants): ")
    assert describe_difference(golden(RUN).match([]), golden(RUN)).startswith("not as approved: missing")


def test_what_the_rules_of_the_recording_ignore_is_no_difference():
    rules = NormaliseRules(ignore=("messages[*].tool_calls[*].function.arguments.at",), mask=("run-[0-9]+",))
    approved = golden([turn(("log", {"id": "run-1", "at": 1, "n": 2}))], rules=rules)
    assert approved.variants[0].turns == [[{"tool": "log", "args": {"id": "<masked>", "n": 2}}]]
    assert approved.match([turn(("log", {"id": "run-9", "at": 5, "n": 2}))])
    assert not approved.match([turn(("log", {"id": "run-9", "at": 5, "n": 3}))])


def test_secrets_are_not_written_and_make_no_difference():
    key = "sk-proj-0123456789abcdef0123456789abcdef0123456789abcdef"
    approved = golden([turn(("login", {"key": key}))])
    assert key not in str(approved)
    assert approved.match([turn(("login", {"key": key}))])


def test_a_recording_gives_the_calls_of_its_answers_in_the_order_of_the_conversation():
    def exchange(at, *names, fault=None):
        calls = [RecordedToolCall(id=f"c{at}", name=name) for name in names] or None
        return Exchange(tool_calls=calls, recorded_at=f"2026-01-01T00:00:0{at}", fault=fault)

    document = Document()
    for key, each in {"b": exchange(2, "two", "too"), "a": exchange(1, "one"), "c": exchange(3)}.items():
        document.add(key, each)
    assert [[call.tool for call in each] for each in recorded_turns(document)] == [["one"], ["two", "too"]]


def test_a_file_comes_back_and_may_be_edited_to_accept_more(tmp_path):
    path = tmp_path / "runs" / "today.golden"
    save_golden(path, golden(RUN, []))
    assert load_golden(path) == golden(RUN, [])
    assert path.read_text().count("\n") < 20
    document = orjson.loads(path.read_bytes())
    document["variants"][0]["turns"] = [[{"tool": "find"}], [{"tool": "refund", "args": {}, "match": "partial"}]]
    path.write_bytes(orjson.dumps(document))
    assert load_golden(path).match([turn(("find", {"id": 99})), turn(REFUND)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "today.golden"),
        ('{"golden": 2}', "golden"),
        ('{"golden": 1, "variant": []}', "unknown field"),
        ('{"golden": 1, "variants": [{"turns": [[{"tol": "x"}]]}]}', "unknown key 'tol'"),
        ('{"golden": 1, "variants": [{"turns": [[{"args": {}}]]}]}', "expected the name of a tool"),
        ('{"golden": 1, "normalise": {"mask": ["("]}}', "mask"),
    ],
)
def test_a_file_that_is_none_is_refused_by_its_place(text, problem, tmp_path):
    path = tmp_path / "today.golden"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        load_golden(path)
    assert problem in str(refused.value)
    assert "today.golden" in str(refused.value)


def test_a_missing_file_and_a_database_have_no_golden_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        load_golden(tmp_path / "none.golden")
    with pytest.raises(InputError, match="no file next to this recording"):
        golden_path("sqlite:///runs/big.db")


def test_messages_are_turns_and_other_calls_come_one_by_one():
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": '{"x": 1}'}}] * 2}
    turns = turns_in([{"role": "user", "content": "Hi"}, message, {"name": "b", "args": {}}])
    assert [[call.tool for call in each] for each in turns] == [["a", "a"], ["b"]]
    with pytest.raises(InputError, match="expected a tool call"):
        turns_in([3])
