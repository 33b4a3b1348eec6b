"""The verdict on a run that met a fault."""

import pytest

from offbook.explore.verdict import FINDINGS, VERDICTS, judge
from tests.explore.runs import DECLARED, UNDECLARED, clean_run, model_call, struck_run, tool_run

PAID = (tool_run(side_effect=True),)
UNPAID = (tool_run(side_effect=True, has_run=False, error="ToolFaultError: no"),)
FOUND = tool_run("find_order")
GARBLED = ("tool=find_order call=1: tool_garbled",)
EMPTY = ("tool=find_order call=1: tool_empty",)


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        ("recovered", struck_run(), clean_run()),
        ("not struck", clean_run(result="other"), clean_run()),
        ("degraded", struck_run(result="Sorry, not today."), clean_run()),
        ("failed cleanly", struck_run(result=None, error=DECLARED), clean_run()),
        ("crashed", struck_run(result=None, error=UNDECLARED), clean_run()),
        ("hung", struck_run(hung="it had not ended after 20 s"), clean_run()),
        ("diverged", struck_run(result=None, diverged="never recorded"), clean_run()),
        ("diverged", struck_run(diverged="never recorded", broken=("it said sorry",)), clean_run()),
        ("diverged", struck_run(diverged="never recorded", error=UNDECLARED), clean_run()),
        ("wrong", struck_run(broken=("it said sorry",)), clean_run()),
        ("repeated side effect", struck_run(tools=PAID + PAID), clean_run(tools=PAID)),
        ("repeated side effect", struck_run(tools=PAID + PAID, hung="for ever"), clean_run(tools=PAID)),
        ("repeated side effect", struck_run(tools=PAID + PAID, diverged="new"), clean_run(tools=PAID)),
        ("repeated side effect", struck_run(tools=PAID), clean_run()),
        ("wrong", struck_run(tools=UNPAID), clean_run(tools=PAID)),
        ("wrong", struck_run(), clean_run(tools=PAID)),
        ("degraded", struck_run(result="not refunded"), clean_run(tools=PAID)),
        ("failed cleanly", struck_run(error=DECLARED), clean_run(tools=PAID)),
        ("failed cleanly", struck_run(error=DECLARED, tools=PAID), clean_run(tools=PAID)),
        (
            "wrong",
            struck_run(error=DECLARED, tools=PAID),
            clean_run(tools=(*PAID, tool_run("send", side_effect=True))),
        ),
        ("degraded", struck_run(tools=(FOUND,)), clean_run()),
        ("recovered", struck_run(tools=(FOUND, FOUND)), clean_run(tools=(FOUND,))),
        ("silent", struck_run(result=""), clean_run()),
        ("silent", struck_run(result=None), clean_run()),
        ("silent", struck_run(result="do"), clean_run()),
        ("silent", struck_run(result={"exit": 0, "stdout": "\n"}), clean_run(result={"exit": 0, "stdout": "done\n"})),
        ("recovered", struck_run(result=None), clean_run(result=None)),
        ("silent", struck_run(struck=GARBLED, tools=(tool_run(result="{"),)), clean_run(tools=(tool_run(result="5"),))),
        ("silent", struck_run(struck=EMPTY, tools=(tool_run(),)), clean_run(tools=(tool_run(result="5"),))),
        ("recovered", struck_run(struck=EMPTY, tools=(tool_run(),)), clean_run(tools=(tool_run(),))),
        ("recovered", struck_run(struck=GARBLED, tools=(FOUND, FOUND)), clean_run(tools=(FOUND,))),
        ("degraded", struck_run(struck=EMPTY, result=None), clean_run()),
        ("wrong", struck_run(calls=(model_call(), model_call(attempt=2, is_too_soon=True))), clean_run()),
        ("wrong", struck_run(calls=(model_call(), model_call(2, forgot=3)), diverged="new"), clean_run()),
        (
            "diverged",
            struck_run(
                struck=("call=1 attempt=1: context_overflow",), calls=(model_call(2, forgot=3),), diverged="new"
            ),
            clean_run(),
        ),
    ],
)
def test_the_verdict_on_a_run_beside_the_clean_one(verdict, run, clean):
    assert judge(run, clean).verdict == verdict


@pytest.mark.parametrize(
    ("evidence", "run", "clean"),
    [
        ("refund ran 2 times, without the fault 1 time", struck_run(tools=PAID + PAID), clean_run(tools=PAID)),
        ("it says the same, and refund did not run", struck_run(), clean_run(tools=PAID)),
        ("KeyError: 'x'", struck_run(error=UNDECLARED), clean_run()),
        ("it gave nothing, and no error", struck_run(result=" "), clean_run()),
        ("it gave only a part of the result, and no error", struck_run(result="d"), clean_run()),
        ("the same result, with 0 further calls", struck_run(), clean_run()),
        ("the same result, with 1 further call and 7.5 s more", struck_run(took_s=8.0, calls=(model_call(),) * 2),
         clean_run(took_s=0.5)),
        (
            "call 1 try 2 came sooner than the answer before had asked for",
            struck_run(calls=(model_call(attempt=2, is_too_soon=True),)),
            clean_run(),
        ),
        (
            "after the failure it asked without 1 message of its conversation",
            struck_run(calls=(model_call(forgot=1), model_call(2, forgot=1))),
            clean_run(),
        ),
    ],
)  # fmt: skip
def test_a_verdict_rests_on_evidence(evidence, run, clean):
    assert judge(run, clean).evidence == (evidence,)


def test_what_is_half_done_is_told_with_the_error():
    both = (*PAID, tool_run("send", side_effect=True))
    judged = judge(struck_run(error=DECLARED, tools=PAID), clean_run(tools=both))
    assert judged.evidence == ("half done: refund ran, send did not", "GaveUp: no more")


def invariant_short(run):
    return len(run.calls) < 2


def invariant_told(run):
    if run.result != "done":
        raise AssertionError("it must be done")


def invariant_mute(run):
    if run.result != "done":
        raise AssertionError


def test_an_invariant_that_does_not_hold_makes_a_run_wrong():
    invariants = [invariant_short, invariant_told, invariant_mute]
    assert judge(struck_run(), clean_run(), invariants=invariants).verdict == "recovered"
    judged = judge(struck_run(result="no", calls=(model_call(),) * 2), clean_run(), invariants=invariants)
    assert judged.verdict == "wrong"
    assert judged.evidence == ("invariant_short", "invariant_told: it must be done", "invariant_mute")


def test_findings_are_the_worst_verdicts():
    assert set(VERDICTS[: len(FINDINGS)]) == FINDINGS
