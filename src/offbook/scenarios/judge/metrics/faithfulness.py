"""How true an answer is to what the agent was told."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
