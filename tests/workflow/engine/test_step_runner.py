"""Which steps may run next."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.workflow import Graph, LlmCallStep, RouterStep
from offbook.workflow.engine.step_runner import Schedule
from offbook.workflow.file.schema import RouterCondition


def step(step_id, *depends_on):
    return LlmCallStep(id=step_id, prompt="x", depends_on=depends_on)


def router(step_id, *targets, depends_on=()):
    conditions = tuple(RouterCondition(expression="true", target=target) for target in targets)
    return RouterStep(id=step_id, conditions=conditions, depends_on=depends_on)


def take_steps(schedule):
    """The steps that are ready and those that are skipped, taken out."""
    ready, skipped = list(schedule.ready), dict(schedule.skipped)
    schedule.ready.clear()
    schedule.skipped.clear()
    return ready, skipped


def test_steps_without_dependencies_are_ready_at_once_in_the_order_of_the_file():
    schedule = Schedule(Graph([step("b"), step("a"), step("c", "a")]))
    assert take_steps(schedule) == (["b", "a"], {})


def test_a_step_is_ready_when_the_last_of_its_dependencies_is_done():
    schedule = Schedule(Graph([step("a"), step("b"), step("c", "a", "b")]))
    take_steps(schedule)
    schedule.settle("a", "open")
    assert take_steps(schedule) == ([], {})
    schedule.settle("b", "open")
    assert take_steps(schedule) == (["c"], {})


def test_all_that_comes_after_a_failure_is_skipped():
    schedule = Schedule(Graph([step("a"), step("b", "a"), step("c", "b"), step("d")]))
    take_steps(schedule)
    schedule.settle("a", "broken")
    assert take_steps(schedule) == ([], {"b": "a failed", "c": "b failed"})


def test_a_router_leads_to_its_choice_alone():
    schedule = Schedule(Graph([router("r", "x", "y"), step("x", "r"), step("y", "r"), step("after_y", "y")]))
    take_steps(schedule)
    schedule.settle("r", "open", chosen="x")
    assert take_steps(schedule) == (["x"], {"y": "no branch led here", "after_y": "no branch led here"})


def test_branches_meet_again_where_one_of_them_was_taken():
    schedule = Schedule(Graph([router("r", "x", "y"), step("x", "r"), step("y", "r"), step("join", "x", "y")]))
    take_steps(schedule)
    schedule.settle("r", "open", chosen="y")
    take_steps(schedule)
    schedule.settle("y", "open")
    assert take_steps(schedule) == (["join"], {})


def test_a_failed_branch_keeps_the_branches_from_meeting():
    schedule = Schedule(Graph([router("r", "x", "y"), step("x", "r"), step("y", "r"), step("join", "x", "y")]))
    take_steps(schedule)
    schedule.settle("r", "open", chosen="x")
    take_steps(schedule)
    schedule.settle("x", "broken")
    assert take_steps(schedule)[1] == {"join": "x failed"}


def test_what_depends_on_a_router_without_being_its_target_runs():
    schedule = Schedule(Graph([router("r", "x"), step("x", "r"), step("log", "r")]))
    take_steps(schedule)
    schedule.settle("r", "open", chosen=None)
    assert take_steps(schedule) == (["log"], {"x": "no branch led here"})


def test_long_chains_of_skipped_steps_are_no_trouble():
    steps = [step("s0"), *[step(f"s{number}", f"s{number - 1}") for number in range(1, 5000)]]
    schedule = Schedule(Graph(steps))
    take_steps(schedule)
    schedule.settle("s0", "broken")
    assert len(schedule.skipped) == 4999


@given(st.data())
def test_every_step_is_settled_exactly_once_whatever_happens(data):
    count = data.draw(st.integers(1, 12))
    steps = [
        step(f"s{number}", *data.draw(st.sets(st.sampled_from([f"s{other}" for other in range(number)]))))
        if number
        else step("s0")
        for number in range(count)
    ]
    schedule, seen = Schedule(Graph(steps)), []
    while schedule.ready or schedule.skipped:
        seen += [step_id for step_id, _ in schedule.skipped]
        schedule.skipped.clear()
        if schedule.ready:
            step_id = schedule.ready.popleft()
            seen.append(step_id)
            schedule.settle(step_id, data.draw(st.sampled_from(["open", "closed", "broken"])))
    assert sorted(seen) == sorted(each.id for each in steps)
