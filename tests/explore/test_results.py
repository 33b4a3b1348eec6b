"""What a result shows of the data that a run accepted."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from offbook.explore.results import (
    broken_parts,
    claims_of,
    denies_success,
    is_empty_result,
    is_truncated,
    result_difference,
    takes_error_for_data,
)

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
        ({"ok": False, "reason": "timeout"}, {"ok": True, "reason": ""}),
        ({"error": f"the tool failed ({MARK})"}, {"error": None}),
        ({"reserved": False}, {"reserved": True}),
        (False, True),
        ({"table": {"reserved": False}}, {"table": {"reserved": True}}),
        ([{"booked": True}, {"booked": False}], [{"booked": True}, {"booked": True}]),
        ("Error: the till is closed", "Refunded."),
        ({"exit": 0, "stdout": '{"paid": false}', "files": {}}, {"exit": 0, "stdout": '{"paid": true}', "files": {}}),
    ],
)
def test_a_result_denies_success_by_its_structure(result, clean):
    assert denies_success(result, clean, [MARK])


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ("Sorry, I could not refund the order.", "Refunded."),
        ("Refunded twice.", "Refunded."),
        ({"status": "pending"}, {"status": "done"}),
        ({"reserved": True, "cached": False}, {"reserved": True, "cached": False, "by": "Ann"}),
        ({"reserved": False}, RESERVED),
        (f"Error code: 500 - an injected error ({MARK})", "Refunded."),
        ({"error": "was fine"}, {"error": "is fine"}),
        (None, True),
    ],
)
def test_words_deny_nothing(result, clean):
    assert not denies_success(result, clean, [MARK])


@pytest.mark.parametrize(
    ("result", "clean"),
    [
        (f"Error code: 500 - an injected error ({MARK})", "It is lost."),
        (f"TimeoutError: {MARK}", "It is lost."),
        (f'{{"error": "{MARK}"}}', "It is lost."),
        (f"The order: the tool failed {MARK}", "The order: lost"),
        (f"{MARK} is what we found.", "Your order is what we found."),
        ({"order": f"the order: {MARK}"}, {"order": "the order: lost"}),
    ],
)
def test_an_error_in_the_place_of_data_was_taken_for_data(result, clean):
    assert takes_error_for_data(result, clean, [MARK])


@pytest.mark.parametrize("result", [f"Es ging nicht ({MARK}).", f"Sorry: HTTP 500, {MARK}", {"why": f"no ({MARK})"}])
def test_in_its_own_words_a_result_may_quote_an_error(result):
    assert not takes_error_for_data(result, "The order is lost.", [MARK])


def test_the_claims_of_a_result_are_its_sentences_and_fields():
    def texts(result):
        return [claim.text for claim in claims_of(result)]

    assert texts("Order 42 is paid. Bye!\n* Ref: R-9") == ["order 42 is paid", "bye", "ref: r-9"]
    assert texts({"order": 42, "say": "Paid. Bye."}) == ["order: 42", "say: paid", "say: bye"]
    assert texts({"exit": 0, "stdout": '{"paid": true}\n'}) == ["paid: true"]
    assert texts({"exit": 0, "stdout": "", "files": {"a": "Paid."}}) == ["a: paid"]
    assert texts({"ending": "done", "turns": [{"user": "Pay 42", "agent": "Paid."}]}) == ["paid"]


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
