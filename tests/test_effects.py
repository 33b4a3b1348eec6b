"""Side effects are reported with one line, and read as they were written."""

import subprocess
import sys
import threading
from datetime import date

import pytest

import offbook
from offbook.effects import Effect, collect_effects, parse_effects, prefer_reported, read_effect_lines
from offbook.errors import InputError

REFUND = Effect(tool="refund", arguments={"order": 42})


def test_an_effect_outside_a_run_does_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFBOOK_EFFECTS", raising=False)
    monkeypatch.chdir(tmp_path)
    offbook.effect("refund", order=42)
    assert list(tmp_path.iterdir()) == []


def test_an_effect_inside_a_run_is_a_line_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("OFFBOOK_EFFECTS", str(tmp_path / "effects.jsonl"))
    offbook.effect("refund", order=42)
    offbook.effect("pay", "failed", on=date(2026, 1, 2), outcome="odd")
    data = (tmp_path / "effects.jsonl").read_bytes()
    assert data.splitlines()[0] == b'{"tool":"refund","arguments":{"order":42}}'
    paid = Effect(tool="pay", arguments={"on": "2026-01-02", "outcome": "odd"}, outcome="failed")
    assert read_effect_lines(data, source="f") == [REFUND, paid]


def test_processes_that_report_at_once_do_not_mix_their_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("OFFBOOK_EFFECTS", str(tmp_path / "effects.jsonl"))
    code = "import offbook\nfor _ in range(200): offbook.effect('refund', text='x' * 500)"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    assert len(read_effect_lines((tmp_path / "effects.jsonl").read_bytes(), source="f")) == 400


def test_effects_are_collected_in_a_block_whatever_the_thread(tmp_path, monkeypatch):
    monkeypatch.setenv("OFFBOOK_EFFECTS", str(tmp_path / "effects.jsonl"))
    with collect_effects() as collected:
        thread = threading.Thread(target=offbook.effect, args=["refund"], kwargs={"order": 42})
        thread.start()
        thread.join()
    assert collected == [REFUND]
    assert list(tmp_path.iterdir()) == []


def test_reports_are_an_object_or_a_list_and_may_have_further_fields():
    assert parse_effects(b'{"tool": "refund", "arguments": {"order": 42}, "at": 17}', source="f") == [REFUND]
    assert parse_effects(b'[{"tool": "a"}, {"tool": "b", "outcome": "unknown"}]', source="f") == [
        Effect(tool="a"),
        Effect(tool="b", outcome="unknown"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("refunded 42", "f: line 2: it is not JSON"),
        ("42", "f: line 2: expected an object"),
        ('{"arguments": {}}', "f: line 2: the field tool is missing"),
        ('{"tool": "refund", "arguments": [42]}', "f: line 2: expected an object"),
        ('{"tool": "refund", "outcome": "maybe"}', "f: line 2: unknown value 'maybe'"),
        ('{"tool": "refund", "argumnets": {}}', "unknown field 'argumnets'\n  hint: did you mean 'arguments'?"),
        ('{"tool": "refund", "args": {}}', "unknown field 'args'\n  hint: did you mean 'arguments'?"),
    ],
)
def test_a_line_that_is_not_an_effect_is_refused_by_its_number(line, message):
    with pytest.raises(InputError) as error:
        read_effect_lines(f'{{"tool": "a"}}\n{line}\n'.encode(), source="f")
    assert message in str(error.value)


def test_the_last_line_of_a_program_that_was_killed_may_be_broken():
    data = b'{"tool": "refund", "arguments": {"order": 42}}\n{"tool": "re'
    assert read_effect_lines(data, source="f", is_cut_off=True) == [REFUND]
    with pytest.raises(InputError):
        read_effect_lines(data, source="f")
    with pytest.raises(InputError):
        read_effect_lines(data + b"\n", source="f", is_cut_off=True)


def test_what_is_reported_replaces_what_is_inferred_of_the_same_tool():
    inferred = [Effect(tool=name, source="inferred") for name in ("refund", "mail", "pay")]
    assert prefer_reported([REFUND], inferred, reporting=["pay"]) == (inferred[1], REFUND)
