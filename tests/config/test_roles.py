"""The source of a model call, by its step id."""

import pytest

from offbook.config.roles import RUN_CALLER, Caller, StepNames

NAMES = StepNames([("books", "a"), ("books/a/1/agent", "a"), ("", "a"), ("books", "b.c")])


@pytest.mark.parametrize(
    ("step", "caller"),
    [
        ("books/a/1/user", Caller("books", "a", "user")),
        ("books/a/12/judge.helpfulness", Caller("books", "a", "judge")),
        ("books/b.c/1/agent", Caller("books", "b.c", "agent")),
        ("books/a/1/agent.user", Caller("books", "a", "agent")),
        ("books/a/1/agent.x/a/1/user", Caller("books", "a", "agent")),
        ("books/a/1/agent/a/1/user", Caller("books/a/1/agent", "a", "user")),
        ("books/a/1/judge.error_groups", Caller("books", "a", "judge")),
        ("judge.error_groups", RUN_CALLER),
        ("judge.helpfulness", None),
        ("books/a/x/user", None),
        ("books/a/1/users", None),
        ("books/a/1/agents", None),
        ("books/z/1/user", None),
        (None, None),
    ],
)
def test_a_step_says_whose_it_is(step, caller):
    assert NAMES.caller(step) == caller
