"""The template of a simulated user: filled once, and never with what is filled in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.user import DEFAULT_TEMPLATE, user_prompt

GREETER = Scenario("greeting", profile="Ada, in a hurry", goal="a refund", knowledge=("order 17", "paid 30 €"))


def test_the_default_template_says_who_the_user_is_and_how_to_play():
    prompt = user_prompt(GREETER)
    assert "Who you are:\nAda, in a hurry\n" in prompt
    assert "What you want:\na refund\n" in prompt
    assert "What you know:\n- order 17\n- paid 30 €\n" in prompt
    for rule in (
        "Stay in role",
        "one thing at a time",
        "Never play the agent",
        "Stop as soon as",
        "Start no other topic",
    ):
        assert rule in prompt


def test_a_user_without_profile_and_knowledge_is_an_ordinary_person():
    prompt = user_prompt(Scenario("s", goal="a refund"))
    assert "Who you are:\nan ordinary person\n" in prompt
    assert "What you know:\n- nothing beyond what you want\n" in prompt


def test_every_template_is_followed_by_how_to_answer():
    prompt = user_prompt(GREETER, 'You want {goal}. Never write {"json": {}} or { braces }.')
    assert prompt.startswith('You want a refund. Never write {"json": {}} or { braces }.\n\n')
    assert '"goal_reached": <true or false>}' in prompt


@given(st.text() | st.sampled_from(["{knowledge}", "{profile}", "{0}", "{goal.name}", r"\1 \g<0>", "{unknown}"]))
def test_what_is_filled_in_is_never_read_as_a_template(text):
    prompt = user_prompt(Scenario("s", profile=text, goal=text), "[{profile}|{goal}]")
    assert prompt.startswith(f"[{text or 'an ordinary person'}|{text}]\n\n")


def test_an_unknown_place_is_refused_with_the_one_that_was_meant():
    with pytest.raises(InputError, match=r"template: unknown place \{gaol\}\n  hint: did you mean 'goal'\?"):
        user_prompt(GREETER, DEFAULT_TEMPLATE + "{gaol}")
