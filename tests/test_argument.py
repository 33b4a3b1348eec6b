"""Arguments of the wrong type are refused where they are given."""

import pytest

from offbook import InputError
from offbook.argument import check_argument, check_number, check_whole_number, described


def test_an_argument_of_its_kind_passes():
    check_argument("x", str, source="name")
    check_whole_number(3, source="count")
    check_number(2.5, source="wait_s")


def test_an_argument_of_another_kind_is_refused_with_what_to_pass():
    with pytest.raises(InputError) as caught:
        check_argument(3, dict, source="options", hint="options={}")
    assert str(caught.value) == "options: expected a dict, got int\n  hint: options={}"


@pytest.mark.parametrize("value", ["3", None, True, [3]])
@pytest.mark.parametrize("check", [check_number, check_whole_number])
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(InputError, match=r"count: expected a .*number, got "):
        check(value, source="count")


def test_a_fraction_is_no_whole_number():
    with pytest.raises(InputError, match=r"count: expected a whole number, got 2\.5"):
        check_whole_number(2.5, source="count")


@pytest.mark.parametrize(
    ("value", "said"), [(None, "None"), ("x", "a text"), ({}, "dict"), (dict, "the class dict itself")]
)
def test_what_was_given_is_said_in_short(value, said):
    assert described(value) == said
