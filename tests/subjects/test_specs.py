"""Invariants in a file of the user."""

import pytest

from offbook.errors import InputError
from offbook.explore.run import Run
from offbook.subjects.specs import load_invariants

CHECKS = """\
from limits import MOST

def helper(run):
    return False

def invariant_few_calls(run):
    return len(run.calls) <= MOST

def invariant_no_error(run):
    assert run.error is None
"""


def test_functions_whose_names_say_so_are_invariants(project):
    project.write("limits.py", "MOST = 3\n")
    project.write("checks.py", CHECKS)
    found = load_invariants("checks.py")
    assert [each.__name__ for each in found] == ["invariant_few_calls", "invariant_no_error"]
    assert found[0](Run()) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [("x = 1\n", "it has no function whose name starts with invariant_"), ("1 / 0\n", "ZeroDivisionError")],
)
def test_a_file_without_any_or_that_fails_is_bad_input(project, text, reason):
    project.write("checks.py", text)
    with pytest.raises(InputError, match=reason):
        load_invariants("checks.py")


def test_a_file_that_is_not_there_is_bad_input(project):
    with pytest.raises(InputError, match=r"checks\.py: there is no such file"):
        load_invariants("checks.py")
