"""Whether the user got what they came for."""

from offbook.scenarios.judge.metrics.numeric import NumericMetric

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
