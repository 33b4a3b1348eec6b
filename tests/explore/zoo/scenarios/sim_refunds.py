"""The scenarios of the agents here. Their mocks keep the ledger."""

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


def charge(args):
    note("charge", **args)
    return {"charged": args["order"]}


def ship(args):
    note("ship", **args)
    return {"shipped": args["order"]}


scenario("sales", turns=["I take order 7"], mocks={"charge": charge, "ship": ship}, side_effects=["charge", "ship"])
