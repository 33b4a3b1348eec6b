"""What an agent does between its framework and its tools. Each defect has a sound twin of the same name.

A policy is called with the name of a tool, its arguments, and a function that runs it. It returns the text for the
model.
"""

import asyncio
import json
from contextlib import suppress

from shop import PATIENCE_S, GaveUpError, refund

REFUNDED = "refunded 7"


class Policy:
    """Runs every tool that is asked for, looks it up in `results` afterwards, and ends the run where one fails."""

    starts_over = False

    def __init__(self, *, sound):
        self.sound, self.results = sound, {}

    async def __call__(self, tool, arguments, run):
        text = str(await run())
        self.results[tool, arguments["order"]] = text
        return text

    def finish(self, text):
        """Return what the customer is told, whatever the last words of the model."""
        if self.results.get(("refund", 7)) != REFUNDED:
            raise GaveUpError("nobody knows whether order 7 is refunded")
        return "order 7 is refunded"


class Retrying(Policy):
    """Runs a tool again that has failed. The refund of the twin looks at its key first, which is the order."""

    async def __call__(self, tool, arguments, run):
        for _ in range(3):
            try:
                return await super().__call__(tool, arguments, run)
            except Exception as error:
                failed = error
        raise GaveUpError(f"{tool} failed") from failed


class Once(Policy):
    """Pays once in a run, whatever the model asks for."""

    async def __call__(self, tool, arguments, run):
        known = self.results.get((tool, arguments["order"]))
        return known if tool == "refund" and known else await super().__call__(tool, arguments, run)


class StartingOver(Once):
    """Runs all tools of an answer again when one has failed; the twin only that one, and only to look something up.

    Looking up takes longer than the refund. Some frameworks cancel what is under way when a tool fails.
    """

    def __init__(self, *, sound):
        super().__init__(sound=sound)
        self._has_refunded = asyncio.Event()

    @property
    def starts_over(self):
        return not self.sound

    async def __call__(self, tool, arguments, run):
        if tool == "find_order":
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_refunded.wait(), PATIENCE_S)
        try:
            return await self._use(tool, arguments, run)
        finally:
            if tool == "refund":
                self._has_refunded.set()

    async def _use(self, tool, arguments, run):
        if not self.sound:
            return await Policy.__call__(self, tool, arguments, run)
        for _ in range(2 if tool == "find_order" else 1):
            try:
                return await super().__call__(tool, arguments, run)
            except Exception as error:
                failed = error
        raise GaveUpError(f"{tool} failed") from failed


class Cheerful(Once):
    """Tells the model and the customer of a success, although the refund has failed; the twin gives up."""

    async def __call__(self, tool, arguments, run):
        try:
            return await super().__call__(tool, arguments, run)
        except Exception as error:
            if self.sound:
                raise GaveUpError(f"{tool} failed") from error
            self.results[tool, arguments["order"]] = REFUNDED
            return REFUNDED


class Stale(Policy):
    """Answers a look-up that fails from its cache: by the tool alone; the twin by the tool and its arguments.

    When the model has looked orders 7 and 8 up, and agrees, it pays what they cost.
    """

    def __init__(self, *, sound):
        super().__init__(sound=sound)
        self.cache = {}

    async def __call__(self, tool, arguments, run):
        key = (tool, arguments["order"]) if self.sound else tool
        try:
            text = await super().__call__(tool, arguments, run)
        except Exception as error:
            if key not in self.cache:
                raise GaveUpError(f"{tool} failed") from error
            text = self.results[tool, arguments["order"]] = self.cache[key]
        self.cache[key] = text
        return text

    def finish(self, text):
        if text != "Pay.":
            raise GaveUpError("the model does not want it")
        prices = {order: self._price(self.results.get(("find_order", order), "")) for order in (7, 8)}
        for order, price in prices.items():
            if refund(order, price) != f"refunded {order}":
                raise GaveUpError(f"nobody knows whether order {order} is refunded")
        return "orders 7 and 8 are refunded"

    @staticmethod
    def _price(text):
        try:
            price = json.loads(text)["price"]
        except (ValueError, KeyError, TypeError) as error:
            raise GaveUpError("an order cannot be read") from error
        if type(price) is not int:
            raise GaveUpError("an order has no price")
        return price


POLICIES = {"retries": Retrying, "starts_over": StartingOver, "is_cheerful": Cheerful, "is_stale": Stale}
