"""Fronts of `python -m bench.soak`, for as short as they can: they try something, and lose nothing."""

import pytest
from bench.soak import intruders, killed_tests
from bench.soak.front import Front


@pytest.mark.parametrize("attack", [intruders.attack, killed_tests.attack], ids=["intruders", "killed tests"])
def test_a_front_of_the_soak_makes_trials_and_loses_none(attack: Front) -> None:
    outcome = attack(seconds=0.0, seed=1)
    assert outcome.examples == []
    assert outcome.trials > 0
