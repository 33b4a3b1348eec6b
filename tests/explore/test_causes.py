"""How the causes of findings were found, and when that is enough."""

import pytest

from offbook.errors import InputError
from offbook.explore.causes import Discovery, QuietRule
from offbook.explore.explorer import Explorer, SerialExecutor
from offbook.explore.options import ExploreOptions, select_variants
from offbook.shard import Shard
from tests.explore.runs import UNDECLARED
from tests.explore.test_explorer import CLEAN, Told, explore

FAULTS = "http_error 401,http_error 404,http_error 403,tool_lost"


HANGS = {"call=1 attempt=1: http_error 401": {"hung": "for ever"}}
NEEDS_MORE = {"call=1 attempt=1: http_error 401": {"calls": CLEAN.calls * 3}}
CRASHES = {f"call={number} attempt=1: http_error 401": {"error": UNDECLARED} for number in (1, 2)}


def told(special, clean=CLEAN):
    subject = Told(clean)
    subject.special = special
    return subject


class InAnyOrder(SerialExecutor):
    """Finishes cases last first, as workers may."""

    workers = 4

    def run(self, cases, deadline=None):
        yield from reversed(list(super().run(cases)))


def test_the_discovery_counts_cases_in_the_order_of_the_schedule():
    exploration = explore(told(HANGS), FAULTS)
    assert exploration.discovery.cases == len(exploration.results)
    assert len(exploration.discovery.found) == 1


def test_an_exploration_ends_when_cases_in_a_row_find_nothing_new():
    exploration = explore(told(HANGS), FAULTS, until_quiet=2)
    assert exploration.discovery.stopped_after == 2
    assert len(exploration.results) == exploration.discovery.cases
    assert exploration.left > 0


def test_any_order_of_completion_gives_the_same_report():
    def results(executor):
        options = ExploreOptions(variants=select_variants(FAULTS), until_quiet=2)
        subject = told(HANGS)
        return Explorer(subject, options, executor=executor(subject)).explore().results

    assert results(InAnyOrder) == results(SerialExecutor)


def test_a_shard_cannot_wait_for_quiet():
    with pytest.raises(InputError, match="a shard does not know"):
        explore(Told(), until_quiet=2, shard=Shard(1, 2))


def test_quiet_is_counted_in_whole_cases():
    with pytest.raises(InputError, match="expected a number of cases"):
        QuietRule(0)


def test_the_bound_follows_from_the_cases_since_the_last_cause():
    assert Discovery(412, (1, 3, 61)).bound == pytest.approx(0.0085, abs=1e-4)
    assert Discovery(5, (5,)).bound == 1.0


def test_another_cause_is_only_spoken_of_while_cases_are_left():
    (line,) = Discovery(412, (1, 61)).describe(left=0)
    assert "%" not in line
    (line,) = Discovery(412, (1, 61)).describe(left=10)
    assert "at most 0.85 % (95 %)" in line


def test_nothing_is_said_without_a_finding():
    assert list(Discovery(412).describe(left=3)) == []


def test_more_calls_than_allowed_are_a_finding():
    assert not explore(told(NEEDS_MORE), "http_error 401").findings
    (found,) = explore(told(NEEDS_MORE), "http_error 401", max_recovery_calls=3).findings
    assert found.title == "bad retry (storm)"
    assert found.evidence == ("it took 4 further calls, and max_recovery_calls allows 3",)


def test_an_error_is_a_cause_however_often_it_occurs():
    assert len(explore(told(CRASHES), "http_error 401").discovery.found) == 1
