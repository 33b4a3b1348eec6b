"""What each record mode asks, writes and answers, on every face; and what a rerun replays."""

import json

import pytest

from tests.contract.applies import over
from tests.contract.faces import SECRET, said
from tests.contract.mcp_live import BROKEN


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.json"


@pytest.fixture
def record(recording, path):
    """Record a run that asks texts by one key, or by the key of each, and return the face and its outcomes."""

    def run(face, texts, mode="append", **options):
        with recording(face, path, mode=mode, **options) as opened:
            outcomes = [opened.ask(*(text if isinstance(text, tuple) else (text, "greet"))) for text in texts]
        return opened, outcomes

    return run


@over("recording")
def test_a_rerun_replays_what_was_recorded(face, record, replaying, path):
    _, outcomes = record(face, ["a", "b"])
    assert outcomes == [said("a #1"), said("b #2")]
    run = replaying(face, path=path)
    assert [run.ask("a", "greet"), run.ask("b", "greet")] == outcomes
    assert (run.unused(), run.misses) == ([], [])


@over("recording")
def test_equal_calls_are_all_recorded_and_replayed_in_order(face, record, replaying, path):
    _, outcomes = record(face, ["a", "a"])
    assert outcomes == [said("a #1"), said("a #2")]
    run = replaying(face, path=path)
    assert [run.ask("a", "greet"), run.ask("a", "greet")] == outcomes


@over("recording")
def test_an_answer_is_recorded_before_the_run_ends(face, recording, replaying, path):
    with recording(face, path) as opened:
        opened.ask("a", "greet")
        opened.hang_up()
        assert replaying(face, path=path).ask("a", "greet") == said("a #1")


@over("recorded failures")
def test_a_failure_is_recorded_and_fails_again(face, record, replaying, path):
    _, (outcome,) = record(face, [BROKEN])
    assert outcome.kind == "error"
    again = replaying(face, path=path).ask(BROKEN, "greet")
    assert again.kind == "error"
    assert "out of order" in outcome.text


@over("recording")
def test_secrets_are_removed_and_the_request_still_matches(face, record, replaying, path):
    asked = f"my key is {SECRET}"
    _, (outcome,) = record(face, [asked])
    assert outcome == said(f"{asked} #1")
    assert SECRET not in path.read_text()
    assert replaying(face, path=path).ask(asked, "greet").kind == "answer"


@over("recording")
def test_append_asks_everything_again_and_keeps_what_was_there(face, record, path):
    record(face, ["a"])
    before = answers_in(path)
    run, _ = record(face, ["a"], "append")
    assert run.live.asked[-1:] == ["a"]
    assert len(answers_in(path)) == len(before) + face.exchanges_of_one


@over("recording")
def test_once_asks_everything_if_nothing_is_recorded(face, record, path):
    run, outcomes = record(face, ["a"], "once")
    assert (outcomes, run.live.asked) == ([said("a #1")], ["a"])


@over("recording")
def test_once_asks_nothing_if_something_is_recorded(face, record, recording, path):
    record(face, ["a"])
    before = path.read_bytes()
    with recording(face, path, mode="once") as opened:
        asked = len(opened.live.asked)
        assert opened.ask("a", "greet") == said("a #1")
        assert opened.ask("b", "greet").kind == "miss"
        assert len(opened.live.asked) == asked
    assert path.read_bytes() == before


@over("new")
def test_new_asks_what_is_not_recorded_and_adds_it(face, record, replaying, path):
    record(face, ["a"])
    run, outcomes = record(face, ["a", "b"], "new")
    assert outcomes[0] == said("a #1")
    assert run.live.asked[-1] == "b"
    assert "a" not in run.live.asked[face.kept_asked :]
    again = replaying(face, path=path)
    assert [again.ask("a", "greet"), again.ask("b", "greet")] == outcomes


@over("keys in modes")
def test_all_replaces_the_keys_of_the_run_and_keeps_others(face, record, replaying, path):
    record(face, ["a", ("b", "part")])
    _, (renewed,) = record(face, ["c"], "all")
    run = replaying(face, path=path)
    assert [run.ask("c", "greet"), run.ask("b", "part")] == [renewed, said("b #2")]
    assert run.unused() == []
    assert len(answers_in(path)) == 2


@over("keys in modes")
def test_fresh_replaces_the_whole_recording(face, record, replaying, path):
    record(face, ["a", ("b", "part")])
    _, (renewed,) = record(face, ["c"], "fresh")
    run = replaying(face, path=path)
    assert run.ask("c", "greet") == renewed
    assert len(answers_in(path)) == 1


@over("replacing")
@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_recording_that_is_replaced_stays_until_the_run_ends(mode, face, record, recording, path):
    record(face, ["a"])
    before = path.read_bytes()
    with recording(face, path, mode=mode) as opened:
        opened.ask("b", "greet")
        opened.hang_up()
        assert path.read_bytes() == before
    assert path.read_bytes() != before


@over("failing runs")
@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_run_that_fails_replaces_nothing(mode, face, record, recording, path):
    def fail():
        with recording(face, path, mode=mode) as opened:
            opened.ask("b", "greet")
            opened.hang_up()
            raise KeyError("the agent has a bug")

    record(face, ["a"])
    before = path.read_bytes()
    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == before
    assert len(answers_in(path.with_name("run.json.failed"))) == face.exchanges_of_one


@over("replacing")
@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_run_that_records_nothing_replaces_nothing(mode, face, record, path):
    record(face, ["a"])
    before = path.read_bytes()
    record(face, [], mode)
    assert path.read_bytes() == before


@over("failed calls")
@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_calls_that_all_failed_replace_no_answer(mode, face, record, replaying, path):
    record(face, ["a"])
    record(face, [BROKEN], mode)
    assert replaying(face, path=path).ask("a", "greet") == said("a #1")


@over("faults while recording")
def test_a_fault_that_needs_no_answer_never_reaches_what_is_real(face, record, replaying, path):
    run, outcomes = record(face, ["a", "b"], faults=[f"{face.site('greet', call=1)}: {face.failing}"])
    assert [outcome.kind for outcome in outcomes] == ["error", "answer"]
    assert run.live.asked == ["b"]
    assert len(answers_in(path)) == 1


@over("faults while recording")
def test_a_fault_changes_what_the_caller_gets_and_not_what_is_recorded(face, record, replaying, path):
    _, (changed,) = record(face, ["a fine day"], faults=[f"{face.site('greet', call=1)}: {face.changing}"])
    assert changed != said("a fine day #1")
    assert replaying(face, path=path).ask("a fine day", "greet") == said("a fine day #1")


@over("recorded elsewhere")
def test_a_recording_of_one_face_answers_every_other_of_its_family(face, record, replaying, path):
    _, outcomes = record(face, ["a", "b"])
    for other in face.family_faces():
        run = replaying(other, path=path)
        assert [run.ask("a", "greet"), run.ask("b", "greet")] == outcomes, other.name


def answers_in(path):
    """The recorded exchanges of a file, in order."""
    document = json.loads(path.read_text())
    entries = [value for key, value in document.items() if not key.startswith("_")]
    entries += document.get("_tools", {}).values()
    return [each for entry in entries for each in (entry if isinstance(entry, list) else [entry])]
