"""The tools of the agents with a framework, which announces them. Every real run is a line in the ledger."""

import json

from shop import PRICES, note

PAID = set()


def find_order(order: int) -> str:
    """Look an order up."""
    note("find_order", order=order)
    return json.dumps({"order": order, "price": PRICES[order]})


def refund(order: int) -> str:
    """Pay for an order."""
    note("refund", order=order)
    return f"refunded {order}"


def refund_once(order: int) -> str:
    """Pay for an order, unless that was done before: the order is the key."""
    if order not in PAID:
        PAID.add(order)
        note("refund", order=order)
    return f"refunded {order}"


refund_once.__name__ = "refund"


def tools_of(agent, twin):
    """Return the tools of an agent. One pays by itself, when its model has looked everything up."""
    refunds = {"is_stale": []}.get(agent, [refund_once if (agent, twin) == ("retries", "sound") else refund])
    return [find_order, *refunds]
