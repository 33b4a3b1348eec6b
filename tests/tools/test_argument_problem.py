"""Problems with arguments are few, short and told once."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.tools.argument_problem import arguments_error, path_to, unfit


def test_a_path_reads_like_code():
    assert path_to(["items", 0, "price"]) == "items[0].price"
    assert path_to([0]) == "[0]"
    assert path_to([]) == ""


def test_a_long_value_is_cut():
    problem = unfit("text", "is too long", "a" * 1000)
    assert problem.startswith("text: is too long (got 'aaaa")
    assert problem.endswith("aaa…)")
    assert len(problem) < 120


def test_a_problem_that_is_found_twice_is_told_once():
    assert arguments_error(["a: missing", "b: missing", "a: missing"], tool="t").problems == (
        "a: missing",
        "b: missing",
    )


def test_a_problem_takes_one_line():
    assert arguments_error(["a: not\neven"], tool="t").problems == ("a: not even",)


def test_of_many_problems_the_first_are_told_and_the_others_counted():
    told = arguments_error((f"a{number}: missing" for number in range(20)), tool="t").problems
    assert told[:2] == ("a0: missing", "a1: missing")
    assert told[7:] == ("a7: missing", "and 12 more")


@given(st.lists(st.text(min_size=1, max_size=2000), max_size=40))
def test_no_error_is_endless(problems):
    error = arguments_error(problems, tool="t")
    assert len(error.problems) <= 9
    assert len(str(error)) < 3000
    assert len(str(error).splitlines()) == 1 + len(error.problems)
