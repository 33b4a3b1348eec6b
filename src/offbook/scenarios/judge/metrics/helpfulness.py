"""How much an answer helps the user."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
