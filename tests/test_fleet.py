"""The simulation of a fleet: deterministic, bounded by what its parts can do, and it names what was not measured."""

import argparse

import pytest
from bench.findings import Findings, Row, Table
from bench.fleet import Costs, measured_costs, parse_cost, render, shard_times_s, simulate, store_load
from msgspec.structs import replace

COSTS = Costs(case_us=1_000.0, start_s=1.0, think_us=1_000.0, network_us=200.0, store_us=None, ray_task_us=None)


def curves(costs):
    """A small fleet, as text."""
    return render(simulate(costs, cases=500, runners=(1, 10)))


def test_the_same_costs_give_the_same_curves():
    costs = replace(COSTS, store_us=20.0, ray_task_us=100.0)
    assert curves(costs) == curves(costs)


def test_shards_are_never_faster_than_their_share_of_the_work():
    alone_s, merging_s = shard_times_s(COSTS, 1, cases=2_000)
    assert merging_s == 0.0
    assert alone_s == pytest.approx(1.0 + 2.0, rel=0.05)
    for shards in (2, 8, 32):
        explored_s, merging_s = shard_times_s(COSTS, shards, cases=2_000)
        assert 1.0 + (alone_s - 1.0) / shards <= explored_s < alone_s
        assert merging_s == pytest.approx(2_000 * (COSTS.merged_case_us + COSTS.written_case_us) / 1e6)


def test_one_runner_waits_for_the_network_and_the_store_alone():
    assert store_load(COSTS, 1, store_us=50.0).wait_us == pytest.approx(250.0)


def test_a_store_gives_no_more_answers_than_it_has_time_for():
    loads = [store_load(COSTS, runners, store_us=50.0, calls=10) for runners in (1, 20, 200)]
    assert [load.rate for load in loads] == sorted(load.rate for load in loads)
    assert loads[-1].rate == pytest.approx(20_000, rel=0.05)
    assert loads[-1].rate <= 20_000
    assert loads[-1].busy > 0.95
    assert loads[-1].wait_us > 10 * loads[0].wait_us


def test_what_was_not_measured_is_left_out_and_named():
    assert "not measured, and left out: store_us, ray_task_us" in curves(COSTS)
    assert "one shared store" not in curves(COSTS)
    assert "one shared store" in curves(replace(COSTS, store_us=20.0))


def test_costs_are_taken_from_a_run_of_the_benchmark():
    rates = Table("cases", "runs/s", ["runs"], [Row("an exploration with all faults", [250.0])], base="")
    merged = Table("a case", "µs", ["few", "many"], [Row("reading and merging", [9.0, 7.0])], base="")
    costs = measured_costs([Findings("explore", [rates]), Findings("shards", [merged])], COSTS)
    assert costs.case_us == 4_000.0
    assert costs.merged_case_us == 7.0
    assert costs.replayed_call_us == COSTS.replayed_call_us


@pytest.mark.parametrize(
    "text", ["store=1", "store_us", "store_us=0", "store_us=-1", "store_us=nan", "store_us=inf", "="]
)
def test_a_cost_that_is_none_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_cost(text)
