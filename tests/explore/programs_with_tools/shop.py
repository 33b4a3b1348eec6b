"""What the programs of this folder share: the tools of a shop, and a desk that uses them with care.

Every real run of a tool is a line in the ledger that ZOO_LEDGER names.
"""

import json
import os
import sys
from pathlib import Path

GAVE_UP = 3
PATIENCE_S = 5.0
PRICES = {7: 30, 8: 50}
INTEGER = {"type": "integer"}
PARAMETERS = {
    "find_order": {"type": "object", "properties": {"order": INTEGER}, "required": ["order"]},
    "refund": {"type": "object", "properties": {"order": INTEGER, "amount": INTEGER}, "required": ["order", "amount"]},
}


class GaveUpError(Exception):
    """The program cannot go on, and says so by its exit code."""


def note(tool, **arguments):
    """Write a real run of a tool into the ledger."""
    with Path(os.environ["ZOO_LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")


def find_order(order: int) -> dict:
    """Look an order up."""
    note("find_order", order=order)
    return {"order": order, "price": PRICES[order]}


def refund(order: int, amount: int) -> str:
    """Pay for an order."""
    note("refund", order=order, amount=amount)
    return f"refunded {order}"


class Shop:
    """The same tools, as methods of an object that has no JSON form."""

    def __init__(self, prices=None):
        self.prices = prices or PRICES

    def find_order(self, order: int) -> dict:
        note("find_order", order=order)
        return {"order": order, "price": self.prices[order]}

    async def find_order_later(self, order: int) -> dict:
        return self.find_order(order)

    def refund(self, order: int, amount: int) -> str:
        note("refund", order=order, amount=amount)
        return f"refunded {order}"


class Desk:
    """Serves a customer: looks orders up, twice if that fails, and pays for each at most once."""

    def __init__(self, *orders):
        self.orders, self.prices, self.paid = orders, {}, []

    def refusal(self, tool, arguments):
        """Return what is wrong with a call that the model asks for; empty if it may run."""
        order = arguments.get("order") if isinstance(arguments, dict) else None
        allowed = [{"order": order}] if tool == "find_order" else []
        if tool == "refund" and order in self.prices:
            allowed = [{"order": order, "amount": self.prices[order]}]
        if type(order) is not int or order not in self.orders or arguments not in allowed:
            return f"error: not a call for {self.orders}"
        return f"refunded {order}" if tool == "refund" and order in self.paid else ""

    def tries(self, tool):
        return 2 if tool == "find_order" else 1

    def accept(self, tool, arguments, result):
        """Check a result, and return the text for the model."""
        order = arguments["order"]
        if tool == "refund":
            if result != f"refunded {order}":
                raise GaveUpError(f"nobody knows whether order {order} is refunded")
            self.paid.append(order)
            return result
        if not isinstance(result, dict) or type(result.get("price")) is not int or result.get("order") != order:
            raise GaveUpError(f"order {order} cannot be read")
        self.prices[order] = result["price"]
        return json.dumps(result)

    def use(self, tools, tool, arguments):
        """Run a tool that the model asks for, and return the text for the model."""
        refusal = self.refusal(tool, arguments)
        if refusal:
            return refusal
        for _ in range(self.tries(tool)):
            try:
                return self.accept(tool, arguments, tools[tool](**arguments))
            except (OSError, RuntimeError) as error:
                failed = error
        raise GaveUpError(f"{tool} failed") from failed

    def finish(self):
        """Return what the customer is told."""
        if sorted(self.paid) != sorted(self.orders):
            raise GaveUpError("not everything is refunded")
        return ", ".join(f"order {order}: {self.prices[order]} refunded" for order in self.orders)


def parsed(arguments):
    """Return arguments that a model gave as text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def end(serve):
    """Run a program: it prints what it tells the customer, or gives up."""
    try:
        text = serve()
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(GAVE_UP)
    sys.stdout.write(f"{text}\n")
