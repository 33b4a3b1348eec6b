"""Chaos: faults by lot, the same for the same seed whatever else happens."""

import asyncio
import random
from collections import Counter

import pytest

from offbook.errors import InputError, ProviderError
from offbook.faults import (
    Chaos,
    ConnectionReset,
    EmptyResponse,
    FaultInjector,
    FaultPlan,
    HttpError,
    Site,
    Timeout,
    chaos,
)
from tests.fakes import Echo, user

FAULTS = (ConnectionReset(), HttpError(500), Timeout(5.0))
SITES = [
    Site("", f"step{step}", call, 1, attempt) for step in range(50) for call in range(1, 51) for attempt in (1, 2, 3, 4)
]


def drawn(lots, sites=SITES):
    return {site: fault for site in sites if (fault := lots.draw(site))}


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.9])
def test_the_share_of_attempts_that_fail_is_about_the_rate(rate):
    struck = drawn(Chaos(7, rate, FAULTS))
    assert len(SITES) == 10_000
    assert len(struck) / len(SITES) == pytest.approx(rate, abs=0.015)
    for kind, count in Counter(fault.type for fault in struck.values()).items():
        assert count / len(struck) == pytest.approx(1 / 3, abs=0.1), kind


def test_a_rate_of_nothing_spares_all_and_a_rate_of_one_spares_none():
    assert drawn(Chaos(7, 0.0, FAULTS)) == {}
    assert len(drawn(Chaos(7, 1.0, FAULTS))) == len(SITES)


def test_the_same_seed_draws_the_same_in_any_order():
    shuffled = random.Random(1).sample(SITES, len(SITES))
    assert drawn(Chaos(7, 0.2, FAULTS)) == drawn(Chaos(7, 0.2, FAULTS), shuffled)


def test_another_seed_draws_others():
    assert drawn(Chaos(7, 0.2, FAULTS)).keys() != drawn(Chaos(8, 0.2, FAULTS)).keys()


def test_what_is_drawn_stays_the_same_from_release_to_release():
    struck = drawn(Chaos(7, 0.001, FAULTS))
    assert [(site.step_id, site.call, site.attempt, str(fault)) for site, fault in struck.items()] == [
        ("step0", 1, 2, "connection_reset"),
        ("step8", 36, 1, "http_error 500"),
        ("step16", 17, 3, "connection_reset"),
        ("step19", 47, 2, "http_error 500"),
        ("step44", 10, 3, "timeout 5"),
        ("step47", 23, 1, "http_error 500"),
    ]


@pytest.mark.parametrize("field", [{"workflow": "x"}, {"step_id": "b"}, {"call": 2}, {"attempt": 2}])
def test_every_part_of_a_site_counts(field):
    fields = {"workflow": "", "step_id": "a", "call": 1, "overall": 1, "attempt": 1}
    lots = [Chaos(seed, 0.5, FAULTS) for seed in range(100)]
    assert [lot.draw(Site(**fields)) for lot in lots] != [lot.draw(Site(**fields | field)) for lot in lots]


async def test_calls_at_once_are_struck_like_calls_in_turn():
    async def call(injector, step):
        try:
            await injector.complete(user("Hi"), "m", step_id=step)
        except ProviderError as error:
            return step, str(error)
        return step, ""

    steps = [f"step{number}" for number in range(40)]
    plan = chaos(seed=7, rate=0.4, faults=[ConnectionReset(), HttpError(500)])
    in_turn = FaultInjector(Echo(), plan)
    one_by_one = [await call(in_turn, step) for step in steps]
    at_once = FaultInjector(Echo(), plan)
    together = await asyncio.gather(*(call(at_once, step) for step in reversed(steps)))
    assert dict(one_by_one) == dict(together)
    assert sorted(map(str, in_turn.fired)) == sorted(map(str, at_once.fired))
    assert 0 < len(in_turn.fired) < len(steps)


def test_chaos_is_printed_and_survives_a_file(tmp_path):
    plan = chaos(seed=7, rate=0.125, faults=[HttpError(500), Timeout(5000.0), EmptyResponse()])
    assert str(plan) == "chaos seed=7 rate=0.125: http_error 500 | timeout 5000 | empty_response"
    plan.save(tmp_path / "plan.json")
    loaded = FaultPlan.load(tmp_path / "plan.json")
    assert loaded.chaos == plan.chaos
    assert drawn(loaded.chaos) == drawn(plan.chaos)


@pytest.mark.parametrize(
    ("wrong", "place", "reason"),
    [
        ({"rate": 1.5}, "chaos.rate", "expected a number of at most 1"),
        ({"rate": -0.1}, "chaos.rate", "expected a number of at least 0"),
        ({"rate": float("nan")}, "chaos.rate", "expected a number, got null"),
        ({"faults": []}, "chaos.faults", "expected a list of length 1 or more"),
        ({"seed": "seven"}, "chaos.seed", "expected a whole number, got a text"),
        ({"faults": [Timeout(-5.0)]}, "chaos.faults[0].after_ms", "expected a number of at least 0"),
    ],
)
def test_chaos_that_makes_no_sense_is_refused(wrong, place, reason):
    with pytest.raises(InputError) as caught:
        chaos(**{"seed": 7, "rate": 0.5, "faults": FAULTS} | wrong)
    assert caught.value.place == place
    assert reason in caught.value.reason
