"""Explorations to report: of an agent that looks an order up and refunds it."""

from msgspec.structs import replace

from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.options import select_variants
from offbook.explore.run import ModelCall, Run, RunFailure, ToolRun, sites_of
from offbook.explore.schedule import LeftOutFault, LeftOutGroup
from offbook.explore.verdict import stored_assessment
from offbook.faults import At, ConnectionReset, ToolLost

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>&amp; ]]> \x00\x1b[31m \u202eevil\u202c ##[group]"
)
HOSTILE += "\n::error::owned\n| a | `b` | **c** <!-- % %0A {{data}} {{script}}"

ORDER = {"order_id": 42}
LOOKED_UP = ToolRun(tool="find_order", call=1, arguments=ORDER, result='{"status":"lost"}')
REFUNDED = ToolRun(tool="refund", call=1, arguments=ORDER, result="refunded", side_effect=True)


def model_call(number, *asks_for, **fields):
    """A call of the step `agent` that asks for tools."""
    calls = tuple((tool, ORDER) for tool in asks_for)
    options = {"step_id": "agent", "step_call": number, "model": "gpt-4o-mini", "has_tools": True}
    return ModelCall(number=number, asks_for=calls, **(options | fields))


CLEAN = Run(
    result="order 42 is refunded",
    calls=(model_call(1, "find_order"), model_call(2, "refund")),
    tools=(LOOKED_UP, REFUNDED),
)


def retried(case):
    """The run with a second try of the call at which the fault of the case fired."""
    failed = model_call(1, outcome="failed", error="ConnectionError: reset")
    calls = (failed, replace(CLEAN.calls[0], attempt=2), CLEAN.calls[1])
    return replace(CLEAN, calls=calls, fired=(str(case),), took_s=1.0, paths={"retry": 1})


def crashed(case, message="gave up"):
    failed = model_call(1, outcome="failed", error="ConnectionError: reset")
    return Run(calls=(failed,), fired=(str(case),), error=RunFailure("undeclared", "RuntimeError", message))


def refunded_twice(case):
    """The run in which the refund's answer was lost, and the agent did it again."""
    lost = replace(REFUNDED, result="", error="ToolFaultError: the result was lost")
    calls = (*CLEAN.calls, model_call(3, "refund"))
    return replace(CLEAN, calls=calls, tools=(LOOKED_UP, lost, replace(REFUNDED, call=2)), fired=(str(case),))


def judged(case, run, verdict, *evidence, reason=""):
    return CaseResult(case, run, stored_assessment(verdict, evidence, reason))


def cases(faults="connection_reset,tool_lost", clean=CLEAN):
    """Cases of faults of which only those of models last."""
    variants = [replace(each, is_persistent=not each.fault.is_for_tools) for each in select_variants(faults)]
    return cases_of(sites_of(clean), variants)


def naive(subject="refund_agent", *, left=0):
    """Four faults at calls of models, of which two are never recovered from, and two at tools, one of them grave."""
    first, second, first_always, second_always, look_up, refund = cases()
    return Exploration(
        subject,
        CLEAN,
        (
            judged(first, retried(first), "recovered", "the same result, with 1 further call and 1.0 s more"),
            judged(second, replace(CLEAN, result="later"), "not reached", "the run never reached this site"),
            judged(first_always, crashed(first_always), "crashed", "RuntimeError: gave up"),
            judged(second_always, crashed(second_always), "crashed", "RuntimeError: gave up"),
            judged(look_up, replace(CLEAN, diverged="asked anew"), "undecided", "asked anew:\n  messages[3]"),
            judged(refund, refunded_twice(refund), "repeated effect", "refund ran 2 times, usually once"),
        ),
        left_out=(LeftOutFault("model", "timeout", left, 0),) if left else (),
        left_groups=(LeftOutGroup("single faults", left, left + 6),) if left else (),
    )


def sound():
    """The same of an agent that does everything right."""
    explored = (judged(case, retried(case), "recovered", "the same result") for case in cases())
    return Exploration("refund_agent", CLEAN, tuple(explored))


def with_pair():
    """With a case of two faults, which has no place in the heatmap."""
    exploration = naive()
    lines = (
        At(step_id="agent", call=1, attempt=1).fail(ConnectionReset()),
        At(tool="refund", call=1).fail(ToolLost()),
    )
    case = FaultCase("0007", lines, ())
    pair = judged(case, refunded_twice(case), "repeated effect", "refund ran 2 times, usually once")
    return replace(exploration, results=(*exploration.results, pair))


def hostile():
    """With text in every place that would like to be something else."""
    tool = ToolRun(tool="look", call=1, arguments={HOSTILE: HOSTILE}, result=HOSTILE, error=HOSTILE)
    calls = (ModelCall(number=1, step_id=HOSTILE, step_call=1, model=HOSTILE, asks_for=((HOSTILE, {"a": HOSTILE}),)),)
    clean = Run(result={HOSTILE: HOSTILE}, calls=calls, tools=(replace(tool, error=None),))
    bad = Run(
        calls=calls,
        tools=(tool, tool),
        fired=("x",),
        error=RunFailure("undeclared", HOSTILE, HOSTILE),
        paths={HOSTILE: 1},
    )
    other = replace(bad, error=None, result=HOSTILE)
    made = cases("connection_reset,tool_error", clean)
    explored = (
        judged(case, bad if place else other, "undetected" if place else "crashed", HOSTILE)
        for place, case in enumerate(made)
    )
    return Exploration(HOSTILE, clean, tuple(explored))


def large(calls=40):
    """Of many calls, with all faults, all of which were recovered from but one in the last call."""
    clean = Run(calls=tuple(model_call(number) for number in range(1, calls + 1)))
    made = cases_of(sites_of(clean), select_variants("all"))
    explored = [judged(case, replace(clean, fired=("x",)), "recovered", "fine") for case in made]
    explored[-1] = judged(made[-1], clean, "hung", "it had not ended after 3600 s")
    return Exploration("large", clean, tuple(explored))


def reproduce(case):
    return f"offbook explore refund.py --only {case.id}"
