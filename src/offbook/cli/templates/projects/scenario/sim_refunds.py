"""Conversations with customers whose orders never came."""

from offbook.scenarios import Trajectory, expected, scenario

scenario(
    "refunds what never came",
    turns=["Order 42 never came."],
    mocks={"refund": {"refunded": 42}},
    assertions=Trajectory("strict", [expected("refund", args={"order": 42})]),
    side_effects="refund",
)
