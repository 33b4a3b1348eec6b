"""Cases that share a run are those that would make the same one."""

import pytest

from offbook import tool
from offbook.explore.explorer import Explorer, runs_of
from offbook.explore.options import ExploreOptions, select_variants
from offbook.subjects.function import FunctionSubject
from tests.every_case import sampled
from tests.explore.runs import write_recording
from tests.fakes import user


@tool(side_effect=True)
def pay(order: int) -> str:
    """Pay an order."""
    return f"order {order} is paid"


ENTRIES = {
    "plan": [{"content": "Pay order 7."}],
    "act": [{"tool_calls": [{"id": "c1", "name": "pay", "arguments": {"order": 7}}]}],
    "tell": [{"content": "It is paid."}],
}


async def ask(offbook, step, *, retries=0):
    for attempt in range(retries + 1):
        try:
            return await offbook.provider.complete(user(step), "m", step_id=step)
        except Exception:
            if attempt == retries:
                raise
    raise AssertionError


async def careless(offbook):
    """Goes on whatever fails, and tries nothing twice."""
    said = []
    for step in ("plan", "act", "tell"):
        try:
            answer = await ask(offbook, step)
            said += [
                answer.content,
                *(str(offbook.tools(pay)["pay"].callable(**each.args)) for each in answer.tool_calls),
            ]
        except Exception as error:
            said.append(f"{step} failed: {error}")
    return " ".join(said)


async def starting_over(offbook):
    """Goes on if its first call fails; if a later one does, it starts over, and makes the first call again."""
    for _ in range(2):
        try:
            plan = (await ask(offbook, "plan")).content
        except Exception:
            plan = "no plan"
        try:
            answer = await ask(offbook, "act")
            return plan + str([offbook.tools(pay)["pay"].callable(**each.args) for each in answer.tool_calls])
        except Exception:
            continue
    return "gave up"


async def retrying(offbook):
    return [(await ask(offbook, step, retries=2)).content for step in ("plan", "act", "tell")]


async def looping(offbook):
    """Asks until no tool is wanted, with what the tools have said."""
    messages, tools = user("Pay order 7."), offbook.tools(pay)
    while True:
        answer = await offbook.provider.complete(messages, "m", step_id="agent")
        if not answer.tool_calls:
            return answer.content
        messages.append(answer.to_message())
        for each in answer.tool_calls:
            try:
                said = str(tools[each.tool].callable(**each.args))
            except Exception as error:
                said = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": each.id, "content": said})


LOOP = {"agent": [ENTRIES["act"][0], {"content": "It is paid."}]}
FAULTS = "connection_reset,http_error 500,empty_response,tool_error,tool_lost"


def explored(function, tmp_path, faults=FAULTS, **options):
    entries = LOOP if function is looping else ENTRIES
    subject = FunctionSubject(function, write_recording(tmp_path / "run.json", entries))
    return subject, Explorer(subject, ExploreOptions(variants=select_variants(faults), **options)).explore()


@pytest.mark.parametrize("function", sampled([careless, starting_over, retrying]))
def test_every_case_that_shares_a_run_would_have_made_the_very_same(function, tmp_path):
    subject, exploration = explored(function, tmp_path, pairs=True)
    shared = [each for each in exploration.results if each.same_as]
    assert shared
    for each in shared:
        assert each.run in runs_of(subject, each.case.plan), str(each.case)


def test_a_fault_that_lasts_is_not_run_again_where_nothing_is_tried_twice(tmp_path):
    _, exploration = explored(careless, tmp_path, "connection_reset,tool_error")
    by_id = {each.case.id: each for each in exploration.results}
    shared = {str(each.case): str(by_id[each.same_as].case) for each in exploration.results if each.same_as}
    assert shared == {
        **{f"step={s} call=1: connection_reset": f"step={s} call=1 attempt=1: connection_reset" for s in ENTRIES},
        "tool=pay: tool_error": "tool=pay call=1: tool_error",
    }
    assert exploration.shared == (8, 4)


def test_a_fault_that_lasts_is_run_where_a_stubborn_model_meets_it_again(tmp_path):
    _, exploration = explored(looping, tmp_path, "tool_error")
    assert exploration.shared == (0, 0)


def test_a_fault_that_lasts_is_run_where_it_fires_again(tmp_path):
    _, exploration = explored(retrying, tmp_path, "connection_reset")
    assert exploration.shared == (0, 0)


def test_pairs_share_a_run_only_if_the_first_fault_does_not_return_after_the_second(tmp_path):
    _, exploration = explored(starting_over, tmp_path, "connection_reset", pairs=True)
    results = {str(each.case): each for each in exploration.results}
    assert results["step=plan call=1: connection_reset"].same_as
    pair = results["step=plan call=1: connection_reset; step=act call=1 attempt=1: connection_reset"]
    assert not pair.same_as  # it starts over, and meets the first fault again
    assert pair.run != results[f"step=plan call=1 attempt=1: connection_reset; {str(pair.case).split('; ')[1]}"].run


def test_marks_in_a_shared_run_are_those_of_the_case(tmp_path):
    _, exploration = explored(careless, tmp_path, "http_error 500")
    results = [each for each in exploration.results if "step=plan" in str(each.case)]
    once, lasting = [each.run for each in results]
    assert once.marks != lasting.marks
    assert lasting.marks[0] in lasting.result
    assert once.marks[0] not in lasting.result
