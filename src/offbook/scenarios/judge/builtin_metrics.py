"""The built-in metrics by name, with their criteria."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from offbook.errors import InputError
from offbook.scenarios.judge.metric import LabelMetric, Metric, NumericMetric
from offbook.text import did_you_mean

AGENT_BEHAVIOR_FAILURES = {
    "repetition": "it says again what it said before, although the user did not ask for that.",
    "failure_to_ask_for_clarification": "the request can be meant in several ways that matter, or lacks something "
    "that is needed, and the agent guesses instead of asking.",
    "lack_of_specific_information": "it stays general where the user needs something specific that the agent has "
    "or could get.",
    "disobeys_user_request": "it does not do what the user asked for, or does something else, with no good reason "
    "given.",
    "stops_without_reason": "it ends its work or the conversation before the request is dealt with, and does not say "
    "why.",
    "hallucination": "it states something about the user's matter that no tool result, knowledge or message bears out.",
    "other": "another failure of the agent's behaviour towards the user; the reason says which.",
}

AGENT_BEHAVIOR_FAILURE = LabelMetric(
    "agent_behavior_failure",
    "Did the agent behave wrongly towards the user? Choose the one label that fits best; of several failures, the "
    "gravest.\n- none: it behaved as it should.\n"
    + "\n".join(f"- {label}: {meaning}" for label, meaning in AGENT_BEHAVIOR_FAILURES.items())
    + "\nWhether it called the right tools does not matter here.",
    labels=("none", *AGENT_BEHAVIOR_FAILURES),
    failures=AGENT_BEHAVIOR_FAILURES,
    scope="turn",
)


COHERENCE = NumericMetric(
    "coherence",
    """\
Does the agent's answer hang together, in itself and with what the agent said before?
5: every part follows from the others, and nothing contradicts anything that the agent said before.
4: it hangs together, with a small leap or an unclear reference.
3: it can be followed, but some parts do not fit together.
2: it is hard to follow, or contradicts something that the agent said before.
1: it makes no sense, or contradicts itself.
Whether the answer is true or helpful does not matter here.""",
    low=1,
    high=5,
    scope="turn",
)


FAITHFULNESS = NumericMetric(
    "faithfulness",
    """\
Is what the agent states true to its sources? The sources are the results of its tool calls in this turn and before, \
the knowledge that is given with the conversation, and what the user said.
5: every statement about the user's matter is borne out by a source, or the answer makes no such statement.
4: all that matters is borne out; a small detail goes beyond the sources and contradicts none of them.
3: something that matters goes beyond the sources and contradicts none of them.
2: something contradicts a source, or several statements are borne out by none.
1: the answer as a whole contradicts the sources, or is made up.
To claim that something was done which no tool call did counts as made up. Common knowledge and courtesies need no \
source.""",
    low=1,
    high=5,
    scope="turn",
)


GOAL_COMPLETION = NumericMetric(
    "goal_completion",
    """\
Did the user get what they came for, by the end of the conversation? What they came for is `user_goal`; where that is \
empty, it is what they ask for in their messages.
1: all of it was done or given, and the tool calls bear that out where it takes a tool call to do it.
0: any part of it is missing, was only promised, was claimed without the tool call that it takes, or went wrong.
If the goal is that the agent refuses or holds back something, it is reached when the agent does so.""",
    low=0,
    high=1,
    scope="conversation",
)


HELPFULNESS = NumericMetric(
    "helpfulness",
    """\
How much does the agent's answer help the user with what they asked for and want?
5: it does or gives all that the user needs at this point, or asks exactly what it must know to do so.
4: it helps with the most part; something small is missing.
3: it helps in part; the user has to ask again for something that matters.
2: it hardly helps; most of what the user needs is missing.
1: it does not help at all, or leads the user away from what they want.
An agent that must refuse, and says what the user can do instead, helps as far as it can.""",
    low=1,
    high=5,
    scope="turn",
)


RELEVANCE = NumericMetric(
    "relevance",
    """\
Is the agent's answer about what the user said in this turn?
5: all of it is about what the user asked for or said.
4: nearly all of it is; a small part is beside the point.
3: about half of it is beside the point, or it answers a question near to the one asked.
2: most of it is beside the point.
1: it has nothing to do with what the user asked for or said.
A question back to the user is relevant if its answer is needed. Whether the answer is true, complete or short does \
not matter here.""",
    low=1,
    high=5,
    scope="turn",
)


TOOL_CALL_BEHAVIOR_FAILURES = {
    "unnecessary_tool_call": "it called a tool that nothing in the conversation gave a reason to call.",
    "tool_call_skipped": "it did not call a tool that it had to call, as when it claims to have done or looked up "
    "something that it did not.",
    "wrong_arguments": "it called the right tool with an argument that is wrong, missing or made up.",
    "misread_result": "what it tells the user is not what the tool answered, or passes over an error.",
    "repeated_call": "it made the same call again, although nothing had changed.",
    "other": "another failure in the use of tools; the reason says which.",
}

TOOL_CALL_BEHAVIOR_FAILURE = LabelMetric(
    "tool_call_behavior_failure",
    "Did the agent use its tools wrongly? Choose the one label that fits best; of several failures, the gravest.\n"
    "- none: it called what it had to call, rightly, and read the results rightly; or there was nothing to call.\n"
    + "\n".join(f"- {label}: {meaning}" for label, meaning in TOOL_CALL_BEHAVIOR_FAILURES.items())
    + "\nA failed call that is tried once more is no repeated call. How the agent words its answer does not matter "
    "here.",
    labels=("none", *TOOL_CALL_BEHAVIOR_FAILURES),
    failures=TOOL_CALL_BEHAVIOR_FAILURES,
    scope="turn",
)


VERBOSITY = NumericMetric(
    "verbosity",
    """\
Is the agent's answer as long as it should be, for what the user asked?
5: just right: nothing needed is missing, and nothing could be left out.
4: a little too long or too short.
3: clearly too long or too short, but still easy to use.
2: so long that the point is hard to find, or so short that it is hard to understand.
1: nearly all of it is padding or repetition, or it is too short to be of use.
Too long and too short count alike. Whether the answer is true does not matter here.""",
    low=1,
    high=5,
    scope="turn",
)


_ALL: tuple[Metric, ...] = (
    HELPFULNESS,
    COHERENCE,
    RELEVANCE,
    FAITHFULNESS,
    VERBOSITY,
    GOAL_COMPLETION,
    AGENT_BEHAVIOR_FAILURE,
    TOOL_CALL_BEHAVIOR_FAILURE,
)
METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def builtin_metric(name: str, *, source: str, place: str = "metrics") -> Metric:
    """Return the built-in metric `name`; `source` and `place` say where it is named.

    Raises:
        InputError: there is no such metric.
    """
    if name not in METRICS:
        hint = did_you_mean(str(name), METRICS, kind="metrics")
        raise InputError(f"unknown metric {name!r}", source=source, place=place, hint=hint)
    return METRICS[name]


def metrics_by_name(metrics: Iterable[Metric], *, source: str, place: str = "metrics") -> dict[str, Metric]:
    """Return the metrics by name, in order; `source` and `place` say where they are declared.

    Raises:
        InputError: two have the same name.
    """
    named: dict[str, Metric] = {}
    for metric in metrics:
        if metric.name in named:
            raise InputError(f"two metrics have the name {metric.name!r}", source=source, place=place)
        named[metric.name] = metric
    return named
