"""What answers: something must, and plans for it have faults of models alone."""

import pytest

import offbook
from offbook.errors import InputError
from offbook.faults import At, FaultPlan, HttpError, ToolLost, parse_fault
from offbook.wire.stage import Stage, StageOptions, plan_of

LINE = "call=1: http_error 500"


@pytest.mark.parametrize(
    "given",
    [[LINE], [At(call=1).fail(HttpError(500))], FaultPlan([parse_fault(LINE)])],
    ids=["texts", "lines", "a plan"],
)
def test_a_plan_is_made_of_lines_or_taken_as_it_is(given):
    assert str(plan_of(given)) == LINE


@pytest.mark.parametrize(
    "given",
    [
        [LINE, "tool=refund call=1: tool_lost"],
        [At(tool="refund", call=1).fail(ToolLost())],
        FaultPlan([At(tool="refund", call=1).fail(ToolLost())]),
    ],
    ids=["texts", "lines", "a plan"],
)
def test_a_fault_of_a_tool_is_refused_because_tools_run_elsewhere(given):
    with pytest.raises(InputError) as caught:
        Stage(StageOptions(responses={}, faults=given))
    error = caught.value
    assert (error.source, error.place) == ("'tool=refund call=1: tool_lost'", "tool")
    assert error.reason == "tools run in the program under test"
    assert "inject_tools(tools, plan)" in error.hint


@pytest.mark.parametrize("stand_in", [offbook.serving, offbook.StandIn, offbook.http_client])
def test_who_is_given_nothing_to_answer_with_is_refused(stand_in):
    with pytest.raises(InputError, match="there is nothing to answer with") as caught:
        stand_in(strict=False, faults=[LINE])
    assert "give a recording, responses, a default_response, or record" in caught.value.hint


def test_a_default_alone_is_something_to_answer_with():
    assert offbook.StandIn(default_response="Hello!").calls == []


def test_a_text_is_no_list_of_faults():
    with pytest.raises(InputError, match="expected a list of faults, got a text"):
        plan_of(LINE)
