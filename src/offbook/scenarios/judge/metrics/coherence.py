"""How well an answer hangs together."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
