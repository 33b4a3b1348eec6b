"""Who asks, by the step of a call."""

import pytest

from offbook.config.step_names import OF_THE_RUN, Asker, StepNames

NAMES = StepNames([("books", "a"), ("books/a/1/agent", "a"), ("", "a"), ("books", "b.c")])


@pytest.mark.parametrize(
    ("step", "asker"),
    [
        ("books/a/1/user", Asker("books", "a", "user")),
        ("books/a/12/judge.helpfulness", Asker("books", "a", "judge")),
        ("books/b.c/1/agent", Asker("books", "b.c", "agent")),
        ("books/a/1/agent.user", Asker("books", "a", "agent")),
        ("books/a/1/agent.x/a/1/user", Asker("books", "a", "agent")),
        ("books/a/1/agent/a/1/user", Asker("books/a/1/agent", "a", "user")),
        ("books/a/1/judge.error_groups", Asker("books", "a", "judge")),
        ("judge.error_groups", OF_THE_RUN),
        ("judge.helpfulness", None),
        ("books/a/x/user", None),
        ("books/a/1/users", None),
        ("books/a/1/agents", None),
        ("books/z/1/user", None),
        (None, None),
    ],
)
def test_a_step_says_whose_it_is(step, asker):
    assert NAMES.asker(step) == asker
