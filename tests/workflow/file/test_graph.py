"""The graph: order, levels, what comes before what, and branches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.workflow import Graph, LlmCallStep, RouterStep, parse_workflow
from offbook.workflow.file.schema import RouterCondition
from tests.workflow.samples import EXAMPLE


def step(step_id, *before):
    return LlmCallStep(id=step_id, prompt="x", depends_on=before)


def router(step_id, *targets, before=(), default=None):
    conditions = tuple(RouterCondition(expression="true", target=target) for target in targets)
    return RouterStep(id=step_id, conditions=conditions, default=default, depends_on=before)


@st.composite
def steps(draw):
    """Steps in any order, each of which depends on some that were drawn before it."""
    count = draw(st.integers(1, 12))
    drawn = [step(f"s{n}", *(f"s{m}" for m in range(n) if draw(st.booleans()))) for n in range(count)]
    return draw(st.permutations(drawn))


@given(steps())
def test_every_step_comes_after_all_that_it_depends_on(drawn):
    graph = Graph(drawn)
    place = {step_id: at for at, step_id in enumerate(graph.order)}
    assert sorted(graph.order) == sorted(step.id for step in drawn)
    assert not graph.cycle
    for one in drawn:
        assert all(place[before] < place[one.id] for before in one.depends_on)
        assert all(graph.comes_before(before, one.id) for before in one.depends_on)


@given(steps())
def test_a_level_holds_in_the_order_of_the_file_what_waits_for_the_level_before(drawn):
    graph = Graph(drawn)
    file_order = [step.id for step in drawn]
    for number, level in enumerate(graph.levels):
        assert list(level) == sorted(level, key=file_order.index)
        for step_id in level:
            before = graph.dependencies[step_id]
            assert not before if number == 0 else set(before) & set(graph.levels[number - 1])


@given(steps())
def test_two_steps_are_parallel_if_neither_comes_before_the_other(drawn):
    graph = Graph(drawn)
    for one in graph.steps:
        for other in graph.steps:
            ordered = graph.comes_before(one, other) or graph.comes_before(other, one)
            assert graph.are_parallel(one, other) is not ordered


def test_the_example_has_three_levels():
    graph = Graph(parse_workflow(EXAMPLE).steps)
    assert graph.levels == (("classify",), ("route",), ("answer", "general_response"))
    assert graph.dependants["route"] == ("answer", "general_response")
    assert graph.are_exclusive("answer", "general_response")
    assert graph.is_whole


def test_a_router_comes_before_its_targets_whether_they_say_so_or_not():
    graph = Graph([step("b"), router("r", "b", default="c", before=["a"]), step("a"), step("c", "r")])
    assert graph.order == ("a", "r", "b", "c")
    assert graph.dependencies["b"] == ("r",)
    assert graph.dependencies["c"] == ("r",)


def test_what_comes_after_different_branches_is_exclusive_and_what_joins_them_is_not():
    graph = Graph(
        [router("r", "a", "b"), step("a"), step("b"), step("a2", "a"), step("b2", "b"), step("join", "a", "b")]
    )
    assert graph.are_exclusive("a2", "b2")
    assert graph.are_exclusive("a", "b2")
    assert not graph.are_exclusive("a2", "join")
    assert not graph.are_parallel("a2", "b2")
    assert graph.are_parallel("a2", "join")


@pytest.mark.parametrize(
    ("steps", "cycle"),
    [
        ([step("a", "a")], ("a", "a")),
        ([step("a", "b"), step("b", "a")], ("a", "b", "a")),
        ([step("z"), step("after", "c"), step("c", "b"), step("b", "a", "z"), step("a", "c")], ("c", "b", "a", "c")),
        ([step("t"), router("r", "t", before=["x"]), step("x", "t")], ("t", "r", "x", "t")),
    ],
)
def test_a_circle_is_named_from_its_first_step_on(steps, cycle):
    graph = Graph(steps)
    assert graph.cycle == cycle
    assert not graph.is_whole
    assert not any(graph.comes_before(step.id, cycle[0]) for step in steps)


def test_a_faulty_workflow_has_a_graph_too():
    graph = Graph([step("a", "none"), step("a", "b"), step("b", "a")])
    assert graph.order == ("a", "b")
    assert not graph.is_whole
    assert not Graph([router("r", "none")]).is_whole


def test_a_chain_of_three_thousand_steps_is_put_in_order():
    chain = [step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 3_000))]
    assert Graph(reversed(chain)).order[:3] == ("s0", "s1", "s2")
