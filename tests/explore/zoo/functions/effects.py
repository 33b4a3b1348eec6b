"""Agents that refund or book, and repeat, change, skip or forget to undo what they did."""

from __future__ import annotations

import asyncio
from collections import Counter

from offbook import tool
from offbook.errors import ToolTimeoutError
from offbook.tools import Toolbox
from tests.explore.zoo.functions.desk import (
    DONE,
    FIND_AND_REFUND,
    REFUND,
    RETRYABLE,
    STEP,
    TOOLS,
    GaveUpError,
    Till,
    asking,
    asks_for,
    converse,
    serve,
    serves,
    text_of,
)
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction


async def starts_over(offbook, *, minds_what_was_paid):
    """Starts the conversation over when something fails; the twin only if nothing may have been paid yet."""
    for attempt in range(3):
        await asyncio.sleep(2.0 * attempt)
        till = Till(offbook.tools(TOOLS))
        try:
            return await serve(asking(offbook.provider), till)
        except GaveUpError as error:
            may_pass = getattr(error.__cause__, "status_code", 400) in RETRYABLE
            if not may_pass or (minds_what_was_paid and "refund" in till.tried):
                raise
    raise GaveUpError("it failed three times")


class StubbornTill(Till):
    """Runs a tool that failed again, up to so often."""

    def __init__(self, tools, tries):
        super().__init__(tools)
        self.tries = tries

    async def run(self, call):
        for attempt in range(self.tries):
            await asyncio.sleep(attempt)
            try:
                return self.check(self.tools[call.tool].callable(**call.args))
            except Exception as error:
                last = error
        raise GaveUpError("a tool keeps failing") from last


async def retries_what_was_lost(offbook, *, tries):
    """Runs every failed tool again; the twin only the one that changes nothing."""
    tools = offbook.tools(TOOLS)
    stubborn, once = StubbornTill(tools, 3), StubbornTill(tools, tries)

    async def use(call):
        return await (once if call.tool == "refund" else stubborn).use(call)

    text = await converse(asking(offbook.gateway), use)
    if not once.has_paid:
        raise GaveUpError("nothing was paid")
    return text


PAID_KEYS = set()


@tool(side_effect=True, idempotent="key")
def refund_with_key(order_id: int, key: str) -> dict:
    """Give the customer the money back, once for each key."""
    if key not in PAID_KEYS:
        PAID_KEYS.add(key)
        note("refund_with_key", order_id=order_id, key=key)
    return {"refunded": order_id}


async def allow(offbook):
    if await text_of(asking(offbook.gateway), "May order 42 be paid back?") != "Yes.":
        raise GaveUpError("the model does not allow it")


async def retries_with_a_key(offbook, *, is_new_each_time):
    """Tries a lost refund again under a new idempotency key; the twin under the same one."""
    tools = offbook.tools(refund_with_key)
    await allow(offbook)
    for attempt in range(3):
        key = f"refund-42-{attempt if is_new_each_time else 0}"
        await asyncio.sleep(attempt)
        try:
            result = tools["refund_with_key"].callable(order_id=42, key=key)
        except Exception:
            continue
        if result == {"refunded": 42}:
            return DONE
    raise GaveUpError("the bank does not answer")


@tool(side_effect=True)
def pay_back(order_id: int, amount: int) -> dict:
    """Give the customer money back."""
    note("pay_back", order_id=order_id, amount=amount)
    return {"paid": amount}


async def changes_the_amount(offbook, *, amounts):
    """Tries a failed payment again with less; the twin asks somebody."""
    pay = offbook.tools(pay_back)["pay_back"].callable
    await allow(offbook)
    for amount in amounts:
        try:
            result = pay(order_id=42, amount=amount)
        except Exception:
            continue
        if result == {"paid": amount}:
            return DONE
        raise GaveUpError("the bank says nothing that makes sense")
    raise GaveUpError("the bank does not pay")


class LenientTill(Till):
    """Says that everything went well, whatever a tool does."""

    async def run(self, call):
        try:
            return self.check(self.tools[call.tool].callable(**call.args))
        except Exception:
            return {"refunded": 42}


class PatientTill(Till):
    """Says that a tool that timed out is done."""

    async def run(self, call):
        try:
            return self.check(self.tools[call.tool].callable(**call.args))
        except ToolTimeoutError:
            return {"order_id": 42, "note": "it will be done soon"}
        except Exception as error:
            raise GaveUpError("a tool failed") from error


BOOKED = Counter()


@tool(side_effect=True)
def book_hotel(city: str) -> dict:
    """Book a room."""
    note("book_hotel", city=city)
    BOOKED["hotel"] += 1
    return {"booked": "hotel"}


@tool(side_effect=True)
def book_flight(city: str) -> dict:
    """Book a seat."""
    note("book_flight", city=city)
    BOOKED["flight"] += 1
    return {"booked": "flight"}


@tool(side_effect=True, undoes="book_hotel")
def cancel_hotel(city: str) -> dict:
    """Give a room back."""
    if not BOOKED["hotel"]:
        raise LookupError("there is no room to give back")
    note("cancel_hotel", city=city)
    return {"cancelled": "hotel"}


TRAVEL = Toolbox([book_hotel, book_flight, cancel_hotel])
TRIP = {STEP: [{"content": "Oslo"}, {"content": "Have a good trip."}]}


async def books_a_trip(offbook, *, cancels):
    """Books a hotel and then a flight. If there is no flight, the hotel is cancelled never, twice, or once."""
    tools, ask = offbook.tools(TRAVEL), asking(offbook.gateway)
    city = await text_of(ask, "Where to?")
    if city != "Oslo":
        raise GaveUpError("there is no such city")
    text = await text_of(ask, f"Say goodbye to somebody who goes to {city}.")
    try:
        book(tools["book_hotel"], city, "hotel")
        book(tools["book_flight"], city, "flight")
    except GaveUpError:
        for _ in range(cancels):
            cancel(tools["cancel_hotel"], city)
        raise
    return text


def book(booking, city, what):
    try:
        result = booking.callable(city=city)
    except Exception as error:
        raise GaveUpError(f"there may be no {what}") from error
    if result != {"booked": what}:
        raise GaveUpError(f"there may be no {what}")


def cancel(cancelling, city):
    try:
        cancelling.callable(city=city)
    except LookupError:
        return
    except Exception as error:
        raise GaveUpError("somebody has to call the hotel") from error


def is_no_hotel_without_a_flight(run):
    """Whether the hotel was cancelled, unless the flight may have been booked."""
    done = Counter(effect.tool for effect in run.effects)
    assert done["book_hotel"] - done["cancel_hotel"] <= done["book_flight"], "a hotel is booked, and no flight"


TWO_ORDERS = {
    STEP: [
        asks_for(("refund", {"order_id": 42})),
        asks_for(("refund", {"order_id": 43})),
        {"content": "Both are refunded."},
    ]
}
BOTH_AT_ONCE = {
    STEP: [
        asks_for(("refund", {"order_id": 42}), ("refund", {"order_id": 43})),
        {"content": "Both are refunded."},
    ]
}
BOTH = [{"role": "user", "content": "Orders 42 and 43 never came."}]


class Orders(Till):
    """Refunds each of two orders at most once, and runs a failed refund again up to so often."""

    def __init__(self, tools, tries):
        super().__init__(tools)
        self.tries = tries

    async def use(self, call):
        order = call.args.get("order_id")
        if call.tool != "refund" or order not in (42, 43):
            return "error: there is no such tool or order"
        if order not in self.results:
            self.results[order] = await self.pay(order)
        return "paid"

    async def pay(self, order):
        for attempt in range(self.tries):
            await asyncio.sleep(attempt)
            try:
                result = self.tools["refund"].callable(order_id=order)
            except Exception:
                continue
            if result != {"refunded": order}:
                raise GaveUpError("nobody knows whether it was paid")
            return result
        raise GaveUpError("it was not paid, or perhaps it was")

    def finish(self, text):
        if self.results.keys() != {42, 43}:
            raise GaveUpError("not everything was paid")
        return text


async def refunds_one_after_the_other(offbook, *, tries):
    """Makes two independent refunds, and tries each again; the twin does not."""
    orders = Orders(offbook.tools(TOOLS), tries)
    try:
        return orders.finish(await converse(asking(offbook.gateway), orders.use, ticket=BOTH))
    except GaveUpError as error:
        raise GaveUpError(f"{error}; refund has run for {list(orders.results)}") from error


async def refunds_in_parallel(offbook, *, all_again):
    """Makes two refunds at once. If one fails, it makes both again; the twin gives up."""
    tools, ask = offbook.tools(TOOLS), asking(offbook.gateway)
    answer = await ask(BOTH)
    orders = sorted({call.args.get("order_id") for call in answer.tool_calls if call.tool == "refund"}, key=str)
    if orders != [42, 43]:
        raise GaveUpError("the model wants something else")
    for attempt in range(2 if all_again else 1):
        await asyncio.sleep(attempt)
        paid = await asyncio.gather(*(pay_one(tools, order) for order in orders), return_exceptions=True)
        if not any(isinstance(each, Exception) for each in paid):
            break
    else:
        raise GaveUpError("refund has not run for all orders, but perhaps for some")
    results = [{"role": "tool", "tool_call_id": call.id, "content": "paid"} for call in answer.tool_calls]
    said = await ask([*BOTH, answer.to_message().to_dict(), *results])
    if said.tool_calls:
        raise GaveUpError("everything is paid, and the model goes on")
    return said.content


async def pay_one(tools, order):
    await asyncio.sleep(0.1)
    if tools["refund"].callable(order_id=order) != {"refunded": order}:
        raise GaveUpError("nobody knows whether it was paid")


UNDO = {"cancel_hotel": "book_hotel"}

PLANTED = [
    PlantedFunction(
        name="starts over",
        agent=starts_over,
        defect={"minds_what_was_paid": False},
        sound={"minds_what_was_paid": True},
        answers=REFUND,
        verdict="repeated effect",
        at="step=agent call=2 attempt=1: connection_reset",
        evidence="refund",
    ),
    PlantedFunction(
        name="retries what was lost",
        agent=retries_what_was_lost,
        defect={"tries": 3},
        sound={"tries": 1},
        answers=FIND_AND_REFUND,
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order_id=42)",
    ),
    PlantedFunction(
        name="retries with a new key",
        agent=retries_with_a_key,
        defect={"is_new_each_time": True},
        sound={"is_new_each_time": False},
        answers={STEP: [{"content": "Yes."}]},
        verdict="wrong effect",
        at="tool=refund_with_key call=1: tool_lost",
        evidence="refund-42-1",
        also=["repeated effect"],
    ),
    PlantedFunction(
        name="changes the amount",
        agent=changes_the_amount,
        defect={"amounts": [30, 15]},
        sound={"amounts": [30]},
        answers={STEP: [{"content": "Yes."}]},
        verdict="wrong effect",
        at="tool=pay_back call=1: tool_lost",
        evidence="amount=15",
    ),
    PlantedFunction(
        name="says done",
        agent=serves,
        defect={"till": LenientTill},
        sound={},
        answers=REFUND,
        verdict="missing effect",
        at="tool=refund call=1: tool_error",
        evidence="refund",
        also=["undetected (broken data)", "undetected (went on without)"],
    ),
    PlantedFunction(
        name="swallows a timeout",
        agent=serves,
        defect={"till": PatientTill},
        sound={},
        answers=REFUND,
        verdict="missing effect",
        at="tool=refund call=1: tool_timeout 60000",
        evidence="refund",
        also=["undetected (went on without)", "undetected (broken data)"],
    ),
    PlantedFunction(
        name="cancels never",
        agent=books_a_trip,
        defect={"cancels": 0},
        sound={"cancels": 1},
        answers=TRIP,
        verdict="left behind",
        also=["undetected (failed check)"],
        at="tool=book_flight call=1: tool_error",
        evidence="a hotel is booked, and no flight",
        undoes=UNDO,
        invariants=[is_no_hotel_without_a_flight],
    ),
    PlantedFunction(
        name="cancels twice",
        agent=books_a_trip,
        defect={"cancels": 2},
        sound={"cancels": 1},
        answers=TRIP,
        verdict="wrong effect",
        at="tool=book_flight call=1: tool_error",
        evidence="cancel_hotel",
        also=["repeated effect"],
        undoes=UNDO,
        invariants=[is_no_hotel_without_a_flight],
    ),
    PlantedFunction(
        name="retries one of two",
        agent=refunds_one_after_the_other,
        defect={"tries": 2},
        sound={"tries": 1},
        answers=TWO_ORDERS,
        verdict="repeated effect",
        at="tool=refund call=2: tool_lost",
        evidence="order_id=43",
    ),
    PlantedFunction(
        name="makes both again",
        agent=refunds_in_parallel,
        defect={"all_again": True},
        sound={"all_again": False},
        answers=BOTH_AT_ONCE,
        verdict="repeated effect",
        at="tool=refund call=2: tool_error",
        evidence="order_id=42",
    ),
]
