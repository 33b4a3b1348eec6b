"""The text of a difference, pinned because people read it."""

from textwrap import dedent

import pytest

from offbook import ToolCall
from offbook.scenarios import Trajectory, expected, match_trajectory

LOOK, MAIL = ToolCall("look", {"date": "2026-04-01"}), ToolCall("mail", {"to": "Ada"})
NINE, TEN = ToolCall("book", {"time": "09:00"}), ToolCall("book", {"time": "10:00", "name": "Ada"})


def message(calls, *args, **kwargs):
    return str(match_trajectory(calls, Trajectory(*args, **kwargs)))


def shown(text):
    return dedent(text).strip("\n")


def test_different_arguments_are_reported_under_the_call():
    nine = expected("book", args={"time": "09:00"}, match="exact")
    assert message([LOOK, TEN], "strict", ["look", nine]) == shown("""
        arguments differ: call 2, book: time: expected '09:00', got '10:00'
          expected (strict)      actual
          1. look(…)             1. look(date='2026-04-01')
        > 2. book(time='09:00')  2. book(time='10:00', name='Ada')  arguments differ
              time: expected '09:00', got '10:00'
              name: expected nothing, got 'Ada'
    """)


def test_missing_and_extra_calls_stand_alone_in_their_place():
    assert message([LOOK, MAIL, MAIL], "strict", ["look", "book", "mail"]) == shown("""
        extra: call 2, mail(to='Ada')
          expected (strict)  actual
          1. look(…)         1. look(date='2026-04-01')
        >                    2. mail(to='Ada')           extra
          2. book(…)                                     missing
          3. mail(…)         3. mail(to='Ada')
    """)


def test_a_misplaced_call_is_reported_where_it_is_and_where_it_should_be():
    assert message([NINE, LOOK, MAIL], "in_order", ["look", "book", "mail"]) == shown("""
        misplaced: call 1, book(time='09:00'), is expected at position 2
          expected (in_order)  actual
        >                      1. book(time='09:00')       misplaced
          1. look(…)           2. look(date='2026-04-01')
          2. book(…)                                       misplaced: call 1
          3. mail(…)           3. mail(to='Ada')
    """)


def test_a_call_that_comes_too_early_is_reported_with_what_should_come_before():
    assert message([NINE, LOOK], "contains", ["book"], before=[("look", "book")]) == shown("""
        misplaced: call 1, book(time='09:00'), comes before any look(…)
          expected (contains)  actual
        > 1. book(…)           1. book(time='09:00')       misplaced
              comes before any look(…)
                               2. look(date='2026-04-01')
    """)


def test_a_forbidden_call_is_the_most_informative():
    forbidden = [expected("book", args={"name": "Ada"})]
    assert message([MAIL, TEN], "strict", ["look"], forbidden=forbidden) == shown("""
        forbidden: call 2, book(time='10:00', name='Ada'), by book(name='Ada', …)
          expected (strict)  actual
                             1. mail(to='Ada')                  extra
        >                    2. book(time='10:00', name='Ada')  forbidden
          1. look(…)                                            missing
    """)


def test_what_is_missing_comes_last_where_order_does_not_matter():
    assert message([MAIL, LOOK], "unordered", ["look", expected("mail", exactly=2), "book"]) == shown("""
        missing: mail(…) exactly 2, found 1
          expected (unordered)  actual
          2. mail(…) exactly 2  1. mail(to='Ada')
          1. look(…)            2. look(date='2026-04-01')
        > 2. mail(…) exactly 2                              missing
          3. book(…)                                        missing
    """)


def test_a_call_over_the_limit_is_reported_with_the_limit():
    assert message([LOOK, LOOK, LOOK], "contains", [expected("look", at_most=2)]) == shown("""
        extra: call 3, look(date='2026-04-01'); expected look(…) at most 2
          expected (contains)   actual
          1. look(…) at most 2  1. look(date='2026-04-01')
          1. look(…) at most 2  2. look(date='2026-04-01')
        >                       3. look(date='2026-04-01')  extra
    """)


def test_different_arguments_are_reported_where_order_does_not_matter():
    nine = expected("book", args={"time": "09:00"})
    assert message([TEN, LOOK], "contains", ["look", nine]) == shown("""
        arguments differ: call 1, book: time: expected '09:00', got '10:00'
          expected (contains)       actual
        > 2. book(time='09:00', …)  1. book(time='10:00', name='Ada')  arguments differ
              time: expected '09:00', got '10:00'
          1. look(…)                2. look(date='2026-04-01')
    """)


def test_a_call_with_arguments_that_are_not_allowed_is_reported_beside_those_that_are():
    nine = expected("book", args={"time": "09:00"})
    assert message([NINE, TEN], "within", [nine]) == shown("""
        arguments differ: call 2, book: time: expected '09:00', got '10:00'
          expected (within)         actual
          1. book(time='09:00', …)  1. book(time='09:00')
        > 1. book(time='09:00', …)  2. book(time='10:00', name='Ada')  arguments differ
              time: expected '09:00', got '10:00'
    """)


def test_different_arguments_are_reported_only_between_calls_that_stand_in_the_same_place():
    nine = expected("book", args={"time": "09:00"})
    assert message([LOOK, TEN], "strict", [nine, "look"]) == shown("""
        missing: book(time='09:00', …)
          expected (strict)         actual
        > 1. book(time='09:00', …)                                     missing
          2. look(…)                1. look(date='2026-04-01')
                                    2. book(time='10:00', name='Ada')  extra
    """)


def test_calls_far_from_what_is_wrong_are_left_out():
    assert message([LOOK] * 5 + [MAIL] + [LOOK] * 5, "within", ["look"]) == shown("""
        extra: call 6, mail(to='Ada')
          expected (within)  actual
          …
          1. look(…)         4. look(date='2026-04-01')
          1. look(…)         5. look(date='2026-04-01')
        >                    6. mail(to='Ada')            extra
          1. look(…)         7. look(date='2026-04-01')
          1. look(…)         8. look(date='2026-04-01')
          …
    """)


def test_a_limit_of_lines_holds():
    lines = message([MAIL] * 100, "strict", []).splitlines()
    assert len(lines) == 62
    assert lines[-1] == "  … 41 more lines"


def test_long_calls_are_cut_to_100_columns():
    long = ToolCall("book", {"name": "Ada " * 50, "time": "09:00 " * 50})
    text = message([long], "strict", [expected("book", args={"name": "Ada " * 51, "time": "09:00 " * 51})])
    assert text == shown("""
        arguments differ: call 1, book: name: expected …Ada Ada Ada ', got …Ada Ada '
          expected (strict)                       actual
        > 1. book(name='Ada Ada Ada Ada Ada Ada…  1. book(name='Ada Ada Ada Ada Ada Ada…  arguments differ
              name: expected …Ada Ada Ada ', got …Ada Ada '
              time: expected …0 09:00 09:00 ', got …0 09:00 '
    """)


@pytest.mark.parametrize("tool", ["book\nnow", "\x1b[31mbook", "a\u202eb"])
def test_a_name_that_cannot_be_printed_does_no_harm(tool):
    text = message([ToolCall(tool)], "strict", [])
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) == 3
