"""Which pairs of faults there are, which come first, and in which turns they run with single faults."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.options import select_variants
from offbook.explore.pairs import Pairs, Waves, pairs_of
from offbook.explore.run import sites_of
from offbook.explore.schedule import schedule
from offbook.faults import parse_fault
from tests.explore.runs import clean_run, model_call, tool_run

RUN = clean_run(calls=tuple(model_call(number) for number in range(1, 6)), tools=(tool_run(),))
VARIANTS = select_variants("connection_reset,http_error 500,http_error 401,tool_lost")
SINGLES = cases_of(sites_of(RUN), VARIANTS)
NEAR = clean_run(calls=(model_call(1), model_call(2), model_call(3, asks_for=(("refund", {}),))), tools=(tool_run(),))


def pairs_behind(run, singles, findings=()):
    pairs = Pairs(run, VARIANTS, first_number=101)
    for case in singles:
        pairs.add(case, run, is_finding=str(case) in findings)
    return pairs


def single(text, run=RUN):
    return next(case for case in cases_of(sites_of(run), VARIANTS) if str(case) == text)


TWO_CALLS = sites_of(clean_run(calls=(model_call(1), model_call(2, has_tools=True)), tools=(tool_run(),)))


def test_a_pair_has_a_second_fault_at_another_site():
    first = FaultCase("0001", (parse_fault("call=1 attempt=1: connection_reset"),), ())
    pairs = list(pairs_of(first, TWO_CALLS, select_variants("timeout,tool_lost")))
    assert ["; ".join(map(str, lines)) for lines, _ in pairs] == [
        "call=1 attempt=1: connection_reset; call=2 attempt=1: timeout 60000",
        "call=1 attempt=1: connection_reset; tool=refund call=1: tool_lost",
    ]
    assert [row for _, row in pairs] == ["2", "refund 1"]


def test_pairs_are_numbered_as_they_are_found_and_each_is_one_whichever_fault_was_first():
    pairs = pairs_behind(RUN, SINGLES)
    assert [case.id for case in pairs.cases] == [f"0{number}" for number in range(101, 101 + len(pairs.cases))]
    assert len({frozenset(map(str, case.lines)) for case in pairs.cases}) == len(pairs.cases) > 50


def test_each_fault_is_a_second_one_first_and_then_what_is_behind_findings_and_near_effects_gets_more():
    first = [single(f"call={call} attempt=1: http_error 401", NEAR) for call in (1, 2)]
    pairs = pairs_behind(NEAR, first, findings={str(first[0])})
    assert [str(case) for case in pairs.take(5)] == [
        "call=1 attempt=1: http_error 401; tool=refund call=1: tool_lost",
        "call=1 attempt=1: http_error 401; call=3 attempt=1: connection_reset",
        "call=1 attempt=1: http_error 401; call=3 attempt=1: http_error 500",
        "call=2 attempt=1: http_error 401; tool=refund call=1: tool_lost",
        "call=2 attempt=1: http_error 401; call=3 attempt=1: connection_reset",
    ]


def test_no_kind_of_pair_gets_its_second_before_each_has_its_first():
    pairs = pairs_behind(RUN, [case for case in SINGLES if case.rows == ("2",) and not case.lasts])
    kinds = {tuple(str(line).partition(": ")[2] for line in case.lines) for case in pairs.take(9)}
    assert len(kinds) == 9


def test_pairs_are_taken_once():
    pairs = pairs_behind(RUN, SINGLES)
    taken = [case.id for count in (1, 7, 1000) for case in pairs.take(count)]
    assert sorted(taken) == sorted(case.id for case in pairs.cases)
    assert pairs.waiting == 0


def test_how_many_pairs_to_expect_follows_the_clean_run_and_then_what_was_found():
    whole = pairs_behind(RUN, SINGLES)
    lasting = [case for case in whole.cases if case.lines[0].at.attempt is None]
    pairs = Pairs(RUN, VARIANTS, first_number=1)
    once = [case for case in SINGLES if not case.lasts]
    assert pairs.expected_behind(once) == len(whole.cases) - len(lasting)
    for case in once[:4]:  # nothing comes after them
        pairs.add(case, clean_run(calls=RUN.calls[:1]), is_finding=True)
    assert pairs.expected_behind(once[4:]) == 0


def dealt(most=None, *, wanted=True):
    """Everything that is dealt if each single fault has the same run."""
    pairs = Pairs(RUN, VARIANTS if wanted else (), first_number=101)
    waves, expected = Waves(schedule(SINGLES, ()), pairs, most=most), []
    while wave := waves.deal():
        singles, count = waves.to_come()
        expected.append(len(waves.dealt) + len(singles) + count)
        for case in wave:
            if case.group != "pairs":
                pairs.add(case, RUN, is_finding=False)
    return waves.dealt, expected


WHOLE: list[FaultCase] = dealt()[0]


@given(st.integers(1, len(WHOLE) + 5))
def test_a_smaller_budget_is_the_beginning_of_a_larger_one(budget):
    assert dealt(budget)[0] == WHOLE[:budget]


def test_everything_is_dealt_once_and_what_is_expected_comes_true():
    cases, expected = dealt()
    assert len({case.id for case in cases}) == len(cases) == len(SINGLES) + len(pairs_behind(RUN, SINGLES).cases)
    assert set(expected) == {len(cases)}
    assert set(dealt(40)[1]) == {40}


def test_a_pair_comes_after_one_case_of_each_family_and_half_of_the_rest_are_pairs():
    groups = [case.group for case in WHOLE]
    assert groups[:4] == ["single faults", "single faults", "pairs", "single faults"]
    start = len(groups) - groups[::-1].index("single faults")
    turns = groups[groups.index("pairs", 3) - 1 : start]
    assert abs(turns.count("pairs") - len(turns) / 2) <= 1


def test_without_pairs_all_is_one_wave():
    assert dealt(wanted=False) == (schedule(SINGLES, ()).within(None), [len(SINGLES)])
