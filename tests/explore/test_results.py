"""What a result shows of the data that a run accepted."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from offbook.explore.results import admits_failure, broken_parts, is_empty_result, is_truncated, result_difference

MARK = "fault-qgtdbc"
RESERVED = "Table reserved: R-9"


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("", "done"),
        (None, "done"),
        ([], ["done"]),
        ("The order is", "The order is lost."),
        ("The order is\nBye", "The order is lost.\nBye"),
        ({"exit": 0, "stdout": "The\n"}, {"exit": 0, "stdout": "The order\n"}),
        (["a", "be"], ["a", "bee"]),
        (["a"], ["a", "b"]),
        (["b"], ["a", "b"]),
        ({"stdout": "The"}, {"exit": 0, "stdout": "The order"}),
    ],
)
def test_what_lacks_a_part_is_truncated(result, whole):
    assert is_truncated(result, whole)


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("done", "done"),
        ("", ""),
        ("anything", None),
        ("Sorry.", "done"),
        ("The order\nwas found", "The order is lost.\nBye"),
        ("The order is lost.\nBye\nBye", "The order is lost.\nBye"),
        ({"exit": 1, "stdout": "The"}, {"exit": 0, "stdout": "The order"}),
        (["b", "a"], ["a", "b"]),
        (["a", "b", "c"], ["a", "b"]),
        (1, 12),
    ],
)
def test_what_says_something_else_is_not_truncated(result, whole):
    assert not is_truncated(result, whole)


@given(st.text(), st.text())
def test_every_beginning_is_truncated_from_its_whole(beginning, rest):
    whole = beginning + rest
    assert is_truncated(beginning, whole) == (beginning.strip() != whole.strip() and not is_empty_result(whole))


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("None", "The order is lost."),
        ("The answer is undefined.", "The answer is 42."),
        ({"exit": 0, "stdout": "null\n"}, {"exit": 0, "stdout": "refunded\n"}),
        ("Summary: [object Object]", "Summary: all is well"),
        (f"Error code: 500 ({MARK})", "The order is lost."),
        ({"order": f"42{MARK}"}, {"order": "42"}),
        ("The order is The order is lost.", "The order is lost."),
        ("It came. It came.", "It came."),
        ({"exit": 0, "stdout": "It is It is on its way.\n"}, {"exit": 0, "stdout": "It is on its way.\n"}),
        ({"exit": 0, "stdout": ""}, {"exit": 0, "stdout": "refunded\n"}),
        ("It is late.\nBye.", "Dear Ada,\nIt is late.\nBye."),
        ({"exit": 0, "stdout": "", "files": {"a": "\nlate"}}, {"exit": 0, "stdout": "", "files": {"a": "Ada\nlate"}}),
    ],
)
def test_broken_data_in_a_result_is_seen(result, clean):
    assert len(list(broken_parts(result, clean, [MARK]))) == 1


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("None of them is lost.", "None of them came."),
        ("Another answer altogether", "The order is lost."),
        ("The order is lost. We are looking for it.", "The order is lost."),
        ("It is annulled", "It is paid"),
        ("Bye.\nIt is late.", "Dear Ada,\nIt is late.\nBye."),
    ],
)
def test_another_result_is_not_broken_data(result, clean):
    assert not list(broken_parts(result, clean, [MARK]))


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("Sorry, I could not refund the order.", "Refunded."),
        ("The refund was not sent.", "Refunded."),
        ("ERROR: no refund", "Refunded."),
        ({"exit": 0, "stdout": "I can't help with that.\n"}, {"exit": 0, "stdout": "Refunded.\n"}),
        ({"exit": 0, "stdout": "", "files": {"a": "Sorry."}}, {"exit": 0, "stdout": "", "files": {"a": "Hi"}}),
        ({"exit": 0, "stdout": "failed", "files": {"a": "Hi"}}, {"exit": 0, "stdout": "ok", "files": {"a": "Hi"}}),
        ({"ok": False, "reason": "timeout"}, {"ok": True, "reason": ""}),
        ({"status": "failed"}, {"status": "done"}),
        ({"error": f"the tool failed ({MARK})"}, {"error": None}),
        ("I could not finish this (gave-up-qgtdbc)", "Refunded."),
        ("I was not able to reserve a table.", RESERVED),
        ("We aren't able to do that.", RESERVED),
        ("No table could be reserved.", RESERVED),
        ("Our booking system does not respond.", RESERVED),
        ("Sorry. We will tell you when a table is reserved.", RESERVED),
        ("Sorry, it failed. If a table is reserved, we write to you.", RESERVED),
        ("REJECTED", RESERVED),
        ({"status": "pending"}, RESERVED),
        ({"reserved": False}, RESERVED),
        (False, RESERVED),
        ({"table": {"reserved": False}}, {"table": {"reserved": True}}),
    ],
)
def test_a_result_that_admits_failure_is_recognised(result, clean):
    assert admits_failure(result, clean, [MARK])


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("Refunded twice.", "Refunded."),
        ({"exit": 0, "stdout": "ok", "files": {"a": "Sorry."}}, {"exit": 0, "stdout": "ok", "files": {"a": "Hi"}}),
        ("Refunded. A return is not needed.", "Refunded."),
        ("Refunded. Sorry for the wait.", "Refunded."),
        ({"status": f'{{"ok": 1, {MARK}'}, {"status": "ok"}),
        (f"Your answer: the tool failed ({MARK})", "Refunded."),
        (f"Error code: 500 - an injected error ({MARK})", "Refunded."),
        ("Sorry that it took so long: refunded.", "Sorry for the wait: refunded."),
        ({"status": ""}, {"status": "done"}),
        ({"status": None}, {"status": "done"}),
        ({"state": {"draft": ""}}, {"state": {"draft": "Hi"}}),
        ("Sorry for the wait! Your table is reserved.", RESERVED),
        ("No problem, your table is reserved. Call us if you can't come.", RESERVED),
        ("Your table is reserved; a cancellation is not possible within 24 h.", RESERVED),
        ({"reserved": True, "note": "smoking is not possible"}, RESERVED),
        ({"reserved": True, "cached": False}, {"reserved": True, "cached": False, "by": "Ann"}),
        ({"status": "pending"}, "The order is pending."),
        ("2 pending orders are paid.", "Paid."),
    ],
)
def test_a_result_that_says_nothing_of_failure_admits_none(result, clean):
    assert not admits_failure(result, clean, [MARK])


@pytest.mark.parametrize(
    ("result", "clean", "lines"),
    [
        ("Hi Eve", "Hi Ada", ["-Hi Ada", "+Hi Eve"]),
        ("one\nTWO\nthree", "one\ntwo\nthree", ["-two", "+TWO"]),
        ("one\ntwo", "one", ["+two"]),
        ("", "all\nof it", ["-all", "-of it", "+"]),
        ({"ok": False, "name": "Ada"}, {"name": "Ada", "ok": True}, ['-  "ok": true', '+  "ok": false']),
        (None, "Done.", ["-Done.", "+null"]),
        ("1", 1, ["-1", '+"1"']),
        ("a" * 500 + "x", "a" * 500 + "y", [f"-…{'a' * 39}y", f"+…{'a' * 39}x"]),
        ("y" * 500, "x" * 500, [f"-{'x' * 159}…", f"+{'y' * 159}…"]),
        ("\n".join("abcdefg"), "x", ["-x", "+a", "+b", "+c", "+d", "+… 3 more lines"]),
    ],
)
def test_the_difference_of_two_results_is_short(result, clean, lines):
    head, *shown = result_difference(result, clean).splitlines()
    assert head == "the result, without the fault (-) and with it (+):"
    assert shown == [f"  {line}" for line in lines]


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_difference_of_any_two_results_is_never_empty(result, clean):
    assume(result != clean)
    lines = result_difference(result, clean).splitlines()
    assert len(lines) > 1
