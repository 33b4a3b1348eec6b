"""Whether an answer has the right length."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
