"""Results of runs to report."""

from offbook.scenarios.mocks import MockedCall
from offbook.scenarios.result import (
    AssertionOutcome,
    ConversationResult,
    ErrorGroup,
    Failure,
    Judgement,
    ScenarioResult,
    SuiteResult,
    TurnRecord,
)

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>&amp; ]]> \x00\x1b[31m \u202eevil\u202c ##[group]"
)
HOSTILE += "\n::error::owned\n| a | `b` | **c** <!-- \ud800 % %0A {{data}} {{script}}"
DIFFERENCE = "- find_order(id=7)\n+ refund(id=7)"
PLACE = "tests/refunds.py:12"


def call(tool="find_order", args=None, **fields):
    return MockedCall(
        tool, {"id": 7} if args is None else args, **({"result": {"ok": True}, "is_answered": True} | fields)
    )


def conversation(index=0, *, failures=(), agent="small", user="Refund order 7.", said="Done.", **fields):
    """A conversation of one turn, with a tool call, a verdict and a judgement."""
    matched = not failures
    values = {
        "turns": (TurnRecord(0, user, said, (call(),), 0.5),),
        "assertions": (
            AssertionOutcome(matched, "" if matched else "a call is missing", "" if matched else DIFFERENCE),
        ),
        "judgements": (Judgement("helpfulness", 4.0 + index, "It helped.", turn_index=0),),
        "tokens": 100,
        "cost_usd": 0.01,
        "latency_s": 0.5,
    }
    ending = "error" if any(failure.kind == "error" for failure in failures) else "goal_reached"
    return ConversationResult(
        id=f"c{index}",
        scenario="refunds",
        agent=agent,
        index=index,
        ending=ending,
        failures=tuple(failures),
        **(values | fields),
    )


def scenario(name="refunds an order", agent="small", *, passes=1, runs=1, source=PLACE, kind="assertion", **fields):
    """A scenario of so many conversations, of which the first pass."""
    failure = Failure(kind, "a call is missing", DIFFERENCE)
    conversations = tuple(
        conversation(index, agent=agent, failures=() if index < passes else (failure,)) for index in range(runs)
    )
    return ScenarioResult(name, agent, source, **({"conversations": conversations} | fields))


def hostile():
    """A scenario full of text that would like to be something else."""
    bad = conversation(
        failures=[Failure("assertion", HOSTILE, HOSTILE)],
        user=HOSTILE,
        said=HOSTILE + "x" * 3_000_000,
        turns=(TurnRecord(0, HOSTILE, HOSTILE + "x" * 3_000_000, (call(HOSTILE, {HOSTILE: HOSTILE}, error=HOSTILE),)),),
        judgements=(Judgement(HOSTILE, HOSTILE, HOSTILE, severity=HOSTILE),),
    )
    return ScenarioResult(HOSTILE, HOSTILE, f"{HOSTILE}.py:3", (bad,), never_called=(HOSTILE,))


def suite(*scenarios, **fields):
    return SuiteResult(scenarios, **({"latency_s": 1.5} | fields))


def two_agents():
    """Two scenarios with two agents each: one fails with the small agent in two of three conversations."""
    return suite(
        scenario(passes=1, runs=3),
        scenario(agent="large", passes=3, runs=3),
        scenario("says hello", source="tests/hello.py:3"),
        scenario("says hello", "large", source="tests/hello.py:3", never_called=("wave",)),
    )


def grouped(*groups, failures=2):
    """A run of so many conversations that failed, `c0` and so on, with these groups; with one of all by default."""
    ids = tuple(f"c{index}" for index in range(failures))
    found = groups or (ErrorGroup("a call is missing", "high", ids, "Tell it to look first."),)
    return suite(scenario(passes=0, runs=failures), scenario("says hello", conversations=()), groups=found)


def hostile_group():
    return ErrorGroup(HOSTILE, "critical", (HOSTILE, "c0"), HOSTILE)
