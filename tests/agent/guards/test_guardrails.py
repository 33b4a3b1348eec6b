"""The guards in a loop of one's own."""

import pytest

from tests.agent.parts import FETCH, SUBMIT, tool
from understudy import Response
from understudy.agent import (
    AgentBudgetError,
    GuardPolicy,
    Guardrails,
    StepEnforcementError,
    TextResponse,
    ToolCall,
    ToolExecutionError,
)
from understudy.tools import ToolOutcome


def rails(**options):
    given = {"required_steps": ["fetch"], "terminal_tool": "submit"} | options
    return Guardrails([tool("fetch"), tool("submit")], **given)


def test_a_good_answer_is_to_be_carried_out():
    verdict = rails().check([FETCH])
    assert [call.tool for call in verdict.calls] == ["fetch"]
    [message] = verdict.messages
    assert message["tool_calls"][0]["id"] == verdict.calls[0].id
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_bad_answer_comes_with_what_to_say_to_it():
    verdict = rails().check([SUBMIT])
    assert verdict.calls == ()
    assert [message["role"] for message in verdict.messages] == ["assistant", "tool"]
    assert "cannot call submit yet" in verdict.messages[1]["content"]


def test_the_run_is_over_when_a_terminal_tool_has_run():
    guardrails = rails()
    assert guardrails.record(guardrails.check([FETCH]).calls) is False
    assert guardrails.record(guardrails.check([SUBMIT]).calls) is True


def test_text_is_an_answer_where_there_is_no_terminal_tool():
    guardrails = rails(terminal_tool=())
    assert guardrails.check(TextResponse("Done!")).answer is None
    guardrails.record([FETCH])
    assert guardrails.check(TextResponse("Done!")).answer == "Done!"


def test_a_call_written_as_text_is_carried_out_and_said_as_a_call():
    verdict = rails().check(TextResponse('{"tool": "fetch", "args": {"page": 2}}'))
    assert verdict.calls[0].args == {"page": 2}
    assert verdict.messages[0]["tool_calls"][0]["function"] == {"name": "fetch", "arguments": '{"page":2}'}


def test_rescue_can_be_switched_off():
    guardrails = rails(policy=GuardPolicy(rescue=False))
    assert guardrails.check(TextResponse('{"tool": "fetch", "args": {}}')).calls == ()


def test_a_model_that_will_not_listen_is_given_up():
    guardrails = rails(policy=GuardPolicy(max_premature_ends=1))
    guardrails.check([SUBMIT])
    with pytest.raises(StepEnforcementError):
        guardrails.check([SUBMIT])


def test_failures_are_counted_from_outcomes():
    guardrails = rails(policy=GuardPolicy(max_tool_errors=0))
    failed = ToolOutcome.of_error(FETCH, ValueError("no"))
    with pytest.raises(ToolExecutionError):
        guardrails.record([failed])
    assert guardrails.pending_steps() == ["fetch"]


def test_the_budget_ends_a_loop_between_its_calls():
    guardrails = rails(policy=GuardPolicy(budget_usd=1.0))
    verdict = guardrails.check(Response(tool_calls=(FETCH,), cost_usd=1.0))
    with pytest.raises(AgentBudgetError):
        guardrails.record(verdict.calls)


def test_plain_functions_are_tools():
    def fetch(page: int) -> str:
        """Fetch a page."""
        return "text"

    guardrails = Guardrails([fetch])
    assert guardrails.check([ToolCall("fetch", {"page": "two"})]).calls == ()
    assert guardrails.check([ToolCall("fetch", {"page": 2})]).calls[0].args == {"page": 2}
