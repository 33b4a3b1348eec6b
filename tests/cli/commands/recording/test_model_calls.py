"""The recording commands, each on good input."""

import json
from pathlib import Path

import pytest

import offbook
from offbook import MockProvider
from offbook.recording.stores.locate import open_store

LIVE_KEY = "sk-" + "proj-" + "A1b2C3d4" * 4


def test_of_a_folder_every_recording_is_checked_with_a_line_for_each(run, record, tmp_path):
    folder = tmp_path / "recordings"
    fine = record("recordings/a.json", greet="Hello!"), record("recordings/sub/b.json", greet="Hello!")
    listed = [f"{path}: no problems" for path in fine]
    code, out, _ = run("recording", "check", folder)
    assert code == 0
    assert out.splitlines() == [*listed, "2 recordings checked: no problems"]
    (folder / "c.json").write_text("{,}")
    code, out, _ = run("recording", "check", folder)
    assert code == 2
    assert out.splitlines()[:2] == listed
    assert f"unreadable: {folder / 'c.json'}: line 1, column 2" in out
    code, out, _ = run("recording", "check", folder, "--json")
    document = json.loads(out)
    assert code == 2
    assert document["checked"] == [str(fine[0]), str(folder / "c.json"), str(fine[1])]
    assert [row["file"] for row in document["findings"]] == [str(folder / "c.json")]


def test_of_a_folder_nothing_is_shown_but_what_there_is_to_show(run, record, tmp_path):
    first = record("recordings/a.json", greet="Hello!")
    record("recordings/sub/b.json", greet="Hello!")
    code, out, err = run("recording", "show", tmp_path / "recordings")
    assert code == 2
    assert out == ""
    assert "it is a folder with 2 recordings" in err
    assert f"show one: offbook recording show {first}; there: a.json, sub/b.json" in err


def test_show_lists_exchanges(run, record):
    code, out, _ = run("recording", "show", record("run.json", greet="Hello!", bye="Goodbye!"))
    assert code == 0
    assert "Hello!" in out
    assert "2 exchanges of 2 keys" in out


def test_show_as_json_gives_an_object_a_line(run, record):
    _, out, _ = run("recording", "show", record("run.json", greet="Hello!", bye="Goodbye!"), "--json")
    assert [json.loads(line)["key"] for line in out.splitlines()] == ["greet", "bye"]


def test_exchanges_are_shown_in_the_order_of_the_conversation_whatever_that_of_the_file(run, write):
    entries = {"b": "2026-01-01T10:00:02", "a": "2026-01-01T10:00:03", "c": "2026-01-01T10:00:01"}
    recorded = {key: {"content": key, "recorded_at": moment} for key, moment in entries.items()}
    write("run.json", json.dumps({"_version": 2, **recorded, "by hand": {"content": "x"}}))
    _, out, _ = run("recording", "show", "run.json", "--json")
    assert [json.loads(line)["key"] for line in out.splitlines()] == ["by hand", "c", "b", "a"]


def test_show_a_key_in_full_shows_what_was_asked_and_answered(run, record):
    _, out, _ = run("recording", "show", record("run.json", greet="Hello!"), "--key", "greet")
    assert "user: Hi" in out
    assert "→ Hello!" in out


def test_show_an_unknown_key_reports_the_known_ones(run, record):
    code, _, err = run("recording", "show", record("run.json", greet="Hello!"), "--key", "gret")
    assert code == 2
    assert "greet" in err


def test_check_passes_what_is_clean(run, record):
    assert run("recording", "check", record("run.json", greet="Hello!"))[0] == 0


def test_check_fails_on_a_live_secret_and_does_not_show_it(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"_version": 2, "greet": {"content": f"use {LIVE_KEY}"}}))
    code, out, _ = run("recording", "check", path)
    assert code == 1
    assert "greet: content: looks like a openai-key" in out
    assert LIVE_KEY not in out


def test_check_fails_on_a_recording_that_cannot_be_replayed_strictly(run, tmp_path):
    path = tmp_path / "old.json"
    path.write_text('{"greet": {"content": "Hello!"}}')
    code, out, _ = run("recording", "check", path)
    assert code == 1
    assert "record it again" in out


def test_check_goes_on_after_an_unreadable_file(run, record, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    code, out, _ = run("recording", "check", bad, record("run.json", greet="Hello!"), "--json")
    assert code == 2
    assert json.loads(out)["files"] == 2


def test_check_takes_patterns_and_fields_of_the_user(run, record):
    path = record("run.json", greet="CUST-123456")
    assert run("recording", "check", path, "--pattern", r"CUST-\d{6}")[0] == 1
    assert run("recording", "check", path, "--field", "role")[0] == 1
    assert run("recording", "check", path, "--pattern", "(")[0] == 2


def test_diff_of_equal_recordings_is_empty(run, record):
    path = record("run.json", greet="Hello!")
    assert run("recording", "diff", path, path) == (0, "no differences\n", "")


def test_diff_shows_what_was_asked_and_answered_otherwise(run, record):
    code, out, _ = run(
        "recording",
        "diff",
        record("a.json", greet="Hello!", old="x"),
        record("b.json", question="Hey", greet="Hi!", new="y"),
    )
    assert code == 1
    for line in ("-Hi", "+Hey", "-Hello!", "+Hi!", "new, call 1: only in the second", "old, call 1: only in the first"):
        assert line in out


def test_diff_proposes_rules_for_what_changes_from_run_to_run(run, record):
    first = record("a.json", question='{"id": 1, "at": "2026-01-01T10:00:00Z"}', greet="Hello!")
    second = record("b.json", question='{"id": 2, "at": "2026-01-02T11:30:00Z"}', greet="Hello!")
    _, out, _ = run("recording", "diff", first, second, "--propose", "--json")
    rules = json.loads(out)["proposal"]["rules"]
    assert rules["ignore"] == ["messages[*].content.id"]
    assert len(rules["mask"]) == 1


def test_diff_proposes_to_mask_the_part_that_differs_and_writes_that(run, record):
    first = record("a.json", question="You are in run 17ab of main.", greet="Hello!")
    second = record("b.json", question="You are in run 93cd of main.", greet="Hello!")
    code, out, _ = run("recording", "diff", first, second, "--propose", "--write")
    assert code == 1
    assert out.startswith("NormaliseRules(\n    mask=('(?<=You are in run )[0-9a-f]+',),\n)\nwritten: ")
    mock = MockProvider(first, strict=True)

    def ask(text):
        return offbook.run(mock.complete([{"role": "user", "content": text}], model="demo", step_id="greet"))

    with pytest.raises(offbook.RecordingMismatchError):
        ask("You are in run 55ef of next.")
    assert ask("You are in run 55ef of main.").content == "Hello!"


def test_diff_writes_no_rules_that_it_does_not_propose(run, record):
    first = record("a.json", greet="Hello!")
    assert run("recording", "diff", first, first, "--write")[0] == 2


def test_diff_does_not_propose_to_ignore_a_whole_message(run, record):
    first, second = (
        record("a.json", question="Where is Oslo?", greet="x"),
        record("b.json", question="Who is Ada?", greet="x"),
    )
    _, out, _ = run("recording", "diff", first, second, "--propose")
    assert out == "no rules to propose\nnot explained by a rule: messages[*].content\n"


@pytest.mark.parametrize("output", ["all.json", "sqlite:///all.db"])
def test_merge_keeps_all_exchanges_and_each_only_once(run, record, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    a, b = record("a.json", greet="Hello!"), record("b.json", greet="Hi!", bye="Goodbye!")
    assert run("recording", "merge", a, b, a, "--output", output)[0] == 0
    assert [(key, e.content) for key, e in open_store(output).load()] == [
        ("greet", "Hello!"),
        ("greet", "Hi!"),
        ("bye", "Goodbye!"),
    ] or output.endswith(".json")
    assert len(list(open_store(output).load())) == 3


@pytest.mark.parametrize(("conflict", "side"), [("first", "Hello!"), ("last", "Hi!")])
def test_merge_can_keep_one_side_of_a_conflict(run, record, tmp_path, conflict, side):
    out = tmp_path / "all.json"
    run(
        *("recording", "merge", record("a.json", greet="Hello!"), record("b.json", greet="Hi!")),
        *("-o", out, "--on-conflict", conflict),
    )
    assert [exchange.content for _, exchange in open_store(out).load()] == [side]


def test_merge_never_replaces_an_output_unasked(run, record):
    a, b = record("a.json", greet="Hello!"), record("b.json", greet="Hi!")
    before = Path(b).read_bytes()
    assert run("recording", "merge", a, "-o", b)[0] == 2
    assert Path(b).read_bytes() == before
    assert run("recording", "merge", a, "-o", b, "--force")[0] == 0
    assert MockProvider(b, strict=True)


def test_a_redacted_answer_that_is_part_of_a_later_request_is_reported(run, write):
    def asking(*contents):
        roles = ("user", "assistant", "user")
        return {"messages": [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]}

    first = {"content": "It takes 14 days.", "request": asking("How long?"), "recorded_at": "2026-01-01"}
    later = {
        "content": "Yes.",
        "request": asking("How long?", "It takes 14 days.", "Sure?"),
        "recorded_at": "2026-01-02",
    }
    path = write("run.json", json.dumps({"_version": 2, "first": first, "later": later}))
    code, _, err = run("recording", "redact", path, "--pattern", "days")
    assert code == 0
    assert "first: it is redacted and part of a later request" in err
    assert "first: content: it is redacted and part of a later request" in run("recording", "check", path)[1]
    other = write("other.json", json.dumps({"_version": 2, "first": first}))
    assert run("recording", "redact", other, "--pattern", "days")[2] == ""


def test_redact_takes_a_secret_out_in_place(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"_version": 2, "greet": {"content": f"use {LIVE_KEY}"}, "bye": {"content": "Goodbye"}}))
    code, out, _ = run("recording", "redact", path, "--dry-run")
    assert code == 0
    assert LIVE_KEY in path.read_text()
    assert "would change 1 exchange" in out
    assert "changed 1 exchange" in run("recording", "redact", path)[1]
    assert LIVE_KEY not in path.read_text()
    assert run("recording", "check", path)[0] == 0
    assert "changed 0 exchanges" in run("recording", "redact", path)[1]


def test_prune_removes_what_is_old_and_keeps_what_does_not_say(run, tmp_path):
    path = tmp_path / "run.json"
    old, new = "2001-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"
    entries = {"a": {"recorded_at": old}, "b": [{"recorded_at": old}, {"recorded_at": new}], "c": {"content": "x"}}
    path.write_text(json.dumps({"_version": 2} | entries))
    _, out, _ = run("recording", "prune", path, "--older-than", "30d", "--dry-run")
    assert "would remove 2, 2 left" in out
    run("recording", "prune", path, "--older-than", "30d")
    assert [key for key, _ in open_store(path).load()] == ["b", "c"]


def test_prune_by_key_and_by_fault(run, tmp_path):
    path = tmp_path / "run.json"
    entries = {"a": {"fault": {"type": "timeout"}}, "b": {"content": "x"}, "c": {"content": "y"}}
    path.write_text(json.dumps({"_version": 2} | entries))
    run("recording", "prune", path, "--faults", "--key", "b")
    assert [key for key, _ in open_store(path).load()] == ["c"]


@pytest.mark.parametrize("arguments", [[], ["--older-than", "soon"], ["--older-than", "-3d"]])
def test_prune_requires_a_criterion(run, record, arguments):
    code, _, err = run("recording", "prune", record("run.json", greet="Hello!"), *arguments)
    assert code == 2
    assert "30d" in err


@pytest.mark.parametrize("output", ["all.json", "sqlite:///all.db"])
def test_what_was_version_1_does_not_become_strict_by_being_merged(run, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text('{"greet": {"content": "Hello!"}}')
    run("recording", "merge", "old.json", "-o", output)
    assert run("recording", "check", output)[0] == 1


def test_show_a_failed_call_in_full_reports_how_it_failed(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"_version": 2, "a": {"fault": {"type": "http_error", "status_code": 429, "body": "slow down"}}}')
    _, out, _ = run("recording", "show", path, "--key", "a")
    assert '→ fails with {"type":"http_error","status_code":429' in out
    assert "slow down" in out


def test_copy_takes_a_recording_to_another_store_and_replaces_only_on_demand(run, record, tmp_path):
    a, b = record("a.json", greet="Hello!"), f"sqlite:///{tmp_path}/b.db"
    assert run("recording", "copy", a, b)[:2] == (0, f"{b}: 1 exchange of 1 key\n")
    assert run("recording", "copy", a, b)[0] == 2
    assert run("recording", "copy", a, b, "--force")[0] == 0
    assert run("recording", "diff", a, b)[0] == 0
