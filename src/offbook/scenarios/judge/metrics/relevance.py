"""How much of an answer is about what was asked."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
