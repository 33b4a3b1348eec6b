"""The scenario of all agents here. Its mock keeps the ledger."""

from offbook import Trajectory, scenario
from tests.explore.zoo.ledger import note


def refund(args):
    note("refund", **args)
    return {"paid": args["order"]}


scenario(
    "refunds",
    turns=["Order 42 never came"],
    mocks={"refund": refund},
    side_effects=["refund"],
    assertions=Trajectory("contains", ["refund"]),
)
