"""What faults cost, and how far they spread."""

from msgspec.structs import replace

from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.recovery import Recovery, describe_spread, recovery_of, spread_of, summarize_recovery
from offbook.messages import Usage
from offbook.tools.effects import Effect
from tests.explore.runs import clean_run, fired_run, model_call, tool_run

ASKED = Usage(100, 20)
PLANS = model_call(1, identity="plan", agent="planner", usage=ASKED, model="gpt-4o", asks_for=(("refund", {}),))
SAYS = model_call(2, identity="say", agent="speaker", usage=ASKED, model="gpt-4o")
CLEAN = clean_run(calls=(PLANS, SAYS), tools=(tool_run(),), effects=(Effect(tool="refund"),), took_s=2.0)


def test_recovery_is_what_a_run_takes_more_than_the_clean_one():
    run = replace(CLEAN, calls=(PLANS, replace(SAYS, attempt=2), SAYS), took_s=5.5)
    recovery = recovery_of(run, CLEAN)
    assert (recovery.calls, recovery.tokens, recovery.took_s) == (1, 120, 3.5)
    assert recovery.cost_usd is not None
    assert recovery.cost_usd > 0


def test_the_cost_of_an_unknown_model_is_not_guessed():
    calls = (replace(PLANS, model="nobody-knows"),)
    assert recovery_of(fired_run(calls=calls), CLEAN).cost_usd is None


def test_recovery_reads_as_differences():
    assert str(Recovery(calls=1, tokens=212, cost_usd=0.0004, took_s=2.1)) == "+1 call, +212 tokens, +$0.0004, +2.1 s"
    assert str(Recovery(cost_usd=0.00001, took_s=0.01)) == str(Recovery()) == "+0 calls"


SPECIAL = {
    "call=1 attempt=1: http_error 401": {"calls": (PLANS,), "effects": ()},
    "call=1 attempt=1: http_error 403": {"calls": (PLANS, SAYS, SAYS)},
    "tool=refund call=1: tool_lost": {"effects": CLEAN.effects * 2},
}


class Spreading:
    """A subject whose runs are the clean one, but for what a fault changes."""

    name = "spreading"

    def __init__(self, clean):
        self._clean = clean

    def run(self, plan):
        fired = tuple(map(str, plan))
        return replace(
            self._clean, fired=fired, **{key: each for line in fired for key, each in SPECIAL.get(line, {}).items()}
        )


def exploration(faults="http_error 401,http_error 403,tool_lost", clean=CLEAN):
    variants = [replace(each, is_persistent=False) for each in select_variants(faults)]
    return Explorer(Spreading(clean), ExploreOptions(variants=variants)).explore()


def test_the_summary_counts_cases_that_recovered():
    summary = summarize_recovery(exploration())
    assert summary is not None
    assert (summary.cases, summary.recovered) == (5, 3)
    assert summary.worst.calls == 1
    assert summary.worst_case == "call=1 attempt=1: http_error 403"


def test_a_fault_spreads_to_later_calls_that_change_and_to_effects():
    first, second, tool = spread_of(exploration())
    assert (first.agent, first.cases, first.spreading) == ("planner", 2, 1)
    assert (first.changed, first.later, first.effects) == (1, 1, 1)
    assert second.spreading == 0
    assert (tool.call, tool.later, tool.effects) == ("refund 1", 1, 1)


LONG = replace(CLEAN, calls=(*CLEAN.calls, *(replace(SAYS, number=n, identity=f"say {n}") for n in (3, 4))))


def test_the_farthest_spread_is_said_on_one_line():
    line = "spread: call 1 (planner) reaches 3 of 3 later calls and 1 effect; 1 other less far, 3 nothing"
    assert list(describe_spread(exploration(clean=LONG))) == [line]


def test_nothing_is_said_of_a_short_run_and_where_all_calls_reach_as_far():
    assert list(describe_spread(exploration())) == []
    assert list(describe_spread(exploration("timeout", clean=LONG))) == []
