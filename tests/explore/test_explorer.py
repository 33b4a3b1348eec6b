"""Explorations of a subject: every case, run and judged."""

from typing import ClassVar

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.explorer import Exploration, Explorer, SerialExecutor
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.run import Run
from offbook.explore.schedule import LeftOutFault, LeftOutGroup, Pace
from tests.explore.runs import UNDECLARED, clean_run, model_call, streamed, tool_run

CLEAN = clean_run(calls=(model_call(1), model_call(2)), tools=(tool_run(),))


class Told:
    """A subject that does what it is told for each plan, and else nothing special."""

    name = "told"

    special: ClassVar[dict[str, dict[str, object]]] = {}

    def __init__(self, clean=CLEAN):
        self.clean, self.plans = clean, []

    def run(self, plan):
        self.plans.append(str(plan))
        if not plan.faults:
            return self.clean
        fired = tuple(str(line) for line in plan)
        for line, fields in self.special.items():
            if line in fired:
                return clean_run(fired=fired, **fields)
        return clean_run(fired=fired, calls=self.clean.calls, tools=self.clean.tools)


class Broken(Told):
    special: ClassVar[dict[str, dict[str, object]]] = {
        "call=2 attempt=1: http_error 401": {"error": UNDECLARED},
        "tool=refund call=1: tool_lost": {"hung": "for ever"},
    }


ONCE = ("http_error 401", "tool_lost")


def once(faults):
    """The variants of those names, of which only failures of a connection last."""
    variants = select_variants(faults)
    return [replace(each, is_persistent=each.is_persistent and each.name not in ONCE) for each in variants]


def explore(subject, faults="http_error 401,tool_lost", **options):
    return Explorer(subject, ExploreOptions(variants=once(faults), **options)).explore()


def test_every_case_is_run_once_behind_two_clean_runs_and_judged():
    subject = Broken()
    exploration = explore(subject)
    assert subject.plans == [
        "no faults",
        "since=1: slow 600",
        "tool=refund call=1: tool_lost",
        "call=1 attempt=1: http_error 401",
        "call=2 attempt=1: http_error 401",
    ]
    assert [each.title for each in exploration.results] == ["recovered", "crashed", "hung"]
    assert exploration.subject == "told"
    assert exploration.clean == CLEAN
    assert exploration.left == 0


def test_findings_come_worst_first_and_verdicts_are_counted():
    exploration = explore(Broken())
    assert [each.title for each in exploration.findings] == ["hung", "crashed"]
    assert exploration.counts == {"hung": 1, "crashed": 1, "recovered": 1}


def test_an_exploration_has_the_cells_of_a_picture():
    exploration = explore(Broken())
    assert exploration.rows == ["1", "2", "refund 1"]
    assert exploration.columns == ["http_error 401", "tool_lost"]
    assert exploration.at("2", "http_error 401").title == "crashed"
    assert exploration.at("2", "tool_lost") is None


def test_a_budget_says_how_many_are_left_out():
    exploration = explore(Broken(), budget=2)
    assert len(exploration.results) == 2
    assert exploration.left == 1


def test_who_watches_hears_of_the_clean_run_and_of_each_case():
    starts, results = [], []
    options = ExploreOptions(variants=once("http_error 401,tool_lost"))
    explorer = Explorer(Broken(), options, on_begin=lambda *values: starts.append(values), on_case=results.append)
    exploration = explorer.explore()
    assert starts == [(Exploration("told", CLEAN), 3)]
    assert sorted(results, key=lambda each: each.case.id) == list(exploration.results)
    assert [each.case.id for each in results] == ["0003", "0001", "0002"]


def test_some_cases_alone_can_be_run():
    explorer = Explorer(Broken(), ExploreOptions(variants=once("http_error 401"), pairs=True))
    exploration = explorer.explore(explorer.cases[1:])
    assert [each.title for each in exploration.results] == ["crashed"]


def test_an_executor_runs_the_cases_and_the_results_come_in_their_order():
    class Backwards(SerialExecutor):
        def run(self, cases, deadline):
            return iter(list(super().run([*cases][::-1], deadline))[::-1])

    subject = Broken()
    exploration = Explorer(
        subject, ExploreOptions(variants=once("http_error 401")), executor=Backwards(subject)
    ).explore()
    assert [each.title for each in exploration.results] == ["recovered", "crashed"]


def test_invariants_are_asked_of_every_run():
    def invariant(run):
        return run.error is None

    crashed = explore(Broken(), invariants=[invariant]).at("2", "http_error 401")
    assert crashed.title == "undetected (failed check)"
    assert crashed.evidence == ("invariant", "KeyError: 'x'")


@pytest.mark.parametrize(
    ("clean", "message"),
    [
        (clean_run(error=UNDECLARED), "KeyError: 'x'"),
        (clean_run(hung="for ever"), "for ever"),
        (clean_run(diverged="never recorded"), "never recorded"),
        (clean_run(broken=("it said sorry",)), "it said sorry"),
        (Run(result="done"), "made no call"),
        (clean_run(result="other"), "done"),
    ],
)
def test_a_run_that_fails_without_a_fault_cannot_be_explored(clean, message):
    def invariant_done(run):
        if run.calls and run.result == "other":
            raise AssertionError("it must be done")

    with pytest.raises(InputError, match=message) as refused:
        explore(Told(clean), invariants=[invariant_done])
    assert refused.value.source == "told"


def pairs(subject, faults):
    return [str(each.case) for each in explore(subject, faults, pairs=True).results if len(each.case.lines) > 1]


@pytest.mark.parametrize("faults", ["stream_truncate", "stream_stall,tool_lost"])
def test_faults_of_which_none_can_fire_are_no_exploration(faults):
    with pytest.raises(InputError, match="no call of the run can fail so: stream_"):
        explore(Told(clean_run(calls=(model_call(),))), faults)


def test_pairs_have_their_second_fault_behind_the_first():
    assert pairs(Told(), "connection_reset,http_error 401") == [
        "call=1 attempt=1: connection_reset; call=2 attempt=1: connection_reset",
        "call=1 attempt=1: http_error 401; call=2 attempt=1: connection_reset",
        "call=1: connection_reset; call=2 attempt=1: connection_reset",
    ]


def test_the_second_fault_may_fire_at_an_attempt_that_the_first_has_caused():
    class Retries(Told):
        def run(self, plan):
            run = super().run(plan)
            calls = (model_call(1, outcome="failed"), model_call(1, attempt=2)) if plan.faults else (model_call(1),)
            return clean_run(fired=run.fired, calls=calls)

    assert pairs(Retries(clean_run()), "connection_reset") == [
        "call=1 attempt=1: connection_reset; call=1 attempt=2: connection_reset",
    ]


def test_the_first_fault_may_fire_inside_a_stream():
    clean = clean_run(calls=(streamed("text"), model_call(2)))
    assert pairs(Told(clean), "stream_stall,timeout") == [
        "call=1 attempt=1: timeout 60000; call=2 attempt=1: timeout 60000",
        "call=1 attempt=1 chunk=0: stream_stall; call=2 attempt=1: timeout 60000",
        "call=1: timeout 60000; call=2 attempt=1: timeout 60000",
    ]


def test_pairs_are_numbered_behind_the_single_faults_within_the_budget():
    exploration = explore(Told(), "connection_reset", pairs=True, budget=5)
    assert [each.case.id for each in exploration.results] == ["0001", "0002", "0003", "0004", "0005"]
    assert [len(each.case.lines) for each in exploration.results] == [1, 1, 1, 1, 2]
    assert len(explore(Told(), "connection_reset", pairs=True, budget=2).results) == 2


def test_a_place_that_the_run_never_came_by_has_nothing_behind_it():
    class Short(Told):
        def run(self, plan):
            return super().run(plan) if not plan.faults else clean_run(calls=())

    assert pairs(Short(), "connection_reset") == []


def test_pairs_that_the_budget_leaves_out_are_counted():
    every = explore(Told(), "connection_reset", pairs=True)
    some = explore(Told(), "connection_reset", pairs=True, budget=5)
    only_singles = explore(Told(), "connection_reset", pairs=True, budget=4)
    assert every.left == 0
    assert [each.left for each in (some, only_singles)] == [len(every.results) - 5, len(every.results) - 4]


class SetClock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic_s(self):
        return self.now_s


class Slow(Broken):
    """A subject whose runs take a second each by a clock."""

    def __init__(self, clock, clean=CLEAN):
        super().__init__(clean)
        self._clock = clock

    def run(self, plan):
        self._clock.now_s += 1.0
        return super().run(plan)


def test_a_budget_of_time_starts_no_further_case_and_says_which_it_left_out():
    options = ExploreOptions(variants=once("http_error 401,tool_lost"), budget="4s")
    subject = Slow(clock := SetClock())
    exploration = Explorer(subject, options, clock=clock).explore()
    assert subject.plans[2:] == ["tool=refund call=1: tool_lost", "call=1 attempt=1: http_error 401"]
    assert [each.case.id for each in exploration.results] == ["0001", "0003"]
    assert exploration.left_out == (LeftOutFault("model", "http_error 401", 1, 1),)
    assert exploration.left_groups == (LeftOutGroup("single faults", 1, 3),)
    assert exploration.not_tried == {"call=2 attempt=1: http_error 401"}


def test_a_budget_of_time_is_the_beginning_of_the_whole_and_has_pairs():
    whole, cut = Slow(SetClock()), Slow(clock := SetClock())
    options = ExploreOptions(variants=once("connection_reset,http_error 401,tool_lost"), pairs=True)
    Explorer(whole, options).explore()
    exploration = Explorer(cut, replace(options, budget="6s"), clock=clock).explore()
    assert cut.plans == whole.plans[: len(cut.plans)]
    assert {each.case.group for each in exploration.results} == {"single faults", "pairs"}
    assert {each.group for each in exploration.left_groups} == {"single faults", "pairs"}


def test_time_for_reports_is_kept_free_twice_as_much_as_one_of_a_case_has_taken():
    clock, subject = SetClock(), Slow(SetClock())

    def report(_):
        clock.now_s += 4.0

    options = ExploreOptions(variants=once("http_error 401,tool_lost"), budget="12s")
    exploration = Explorer(subject, options, clock=clock, on_case=report).explore()
    # a second one would leave 4 s for 8 s of reports
    assert len(exploration.results) == 1
    assert clock.now_s == 4.0


def test_the_time_before_an_explorer_counts():
    clock = SetClock()
    clock.now_s = 100.0
    options = ExploreOptions(variants=once("http_error 401"), budget="10s")
    assert Explorer(Broken(), options, clock=clock, start_s=90.0).explore().results == ()
    assert Explorer(Broken(), options, clock=clock, start_s=99.0).explore().results


def test_a_case_that_would_end_after_the_budget_does_not_start():
    pace = Pace()
    explorer = Explorer(Broken(), ExploreOptions(variants=once("http_error 401"), budget="1h"), pace=pace)
    assert explorer.clean
    pace.clean_s = 3600.0
    assert explorer.explore().results == ()


def test_a_budget_that_is_over_before_the_first_case_leaves_out_all():
    options = ExploreOptions(variants=once("http_error 401"), budget="1s")
    exploration = Explorer(Slow(clock := SetClock()), options, clock=clock).explore()
    assert exploration.results == ()
    assert exploration.left == 2
