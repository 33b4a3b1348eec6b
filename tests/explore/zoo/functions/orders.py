"""Agents that do several things at once, and rely on the order in which those end."""

from __future__ import annotations

import asyncio

from offbook import tool
from offbook.errors import ProviderError
from tests.explore.zoo.functions.desk import DONE, GaveUpError
from tests.explore.zoo.ledger import note
from tests.explore.zoo.planted import PlantedFunction

OFFERS = {"rail": [{"content": "40"}], "bus": [{"content": "25"}]}
ONE_QUESTION = {"desk": [{"content": "Yes."}]}
FAULTS = "http_error 500,tool_error,orders"


async def price_of(offbook, step):
    try:
        answer = await offbook.gateway.complete([{"role": "user", "content": f"By {step}?"}], "gpt-4o", step_id=step)
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error
    return int(answer.content)


@tool(side_effect=True)
async def book(by: str, price: int) -> str:
    """Book a journey."""
    note("book", by=by, price=price)
    return "booked"


async def use(callable, **arguments):
    try:
        return await callable(**arguments)
    except Exception as error:
        raise GaveUpError("a tool failed, somebody has to look at it") from error


async def takes_an_offer(offbook, *, last_wins):
    """Asks for two offers at once, and books the one that came last; the twin the cheaper one."""
    offers, last = {}, ""

    async def ask(step):
        nonlocal last
        offers[step] = await price_of(offbook, step)
        last = step

    await asyncio.gather(ask("rail"), ask("bus"))
    chosen = last if last_wins else min(offers, key=offers.__getitem__)
    await use(offbook.tools(book)["book"].callable, by=chosen, price=offers[chosen])
    return DONE


@tool(read_only=True)
async def find_price(order_id: int) -> int:
    """Look up what an order has cost."""
    return 10 * order_id


@tool(side_effect=True)
async def pay_back(order_id: int, amount: int) -> str:
    """Give the customer money back."""
    note("pay_back", order_id=order_id, amount=amount)
    return "paid"


async def pays_two_back(offbook, *, by_position):
    """Looks up two orders at once, and takes the results in the order in which they come; the twin by their orders."""
    tools = offbook.tools(find_price, pay_back)
    if await price_or_yes(offbook) != "Yes.":
        raise GaveUpError("the model does not allow it")
    orders = [42, 43]
    lookups = [asyncio.ensure_future(use(tools["find_price"].callable, order_id=order)) for order in orders]
    amounts = [await each for each in asyncio.as_completed(lookups)] if by_position else await asyncio.gather(*lookups)
    for order, amount in zip(orders, amounts, strict=True):
        try:
            await use(tools["pay_back"].callable, order_id=order, amount=amount)
        except GaveUpError as error:
            raise GaveUpError(f"order {order} failed; pay_back has run for those before it") from error
    return DONE


async def price_or_yes(offbook):
    try:
        messages = [{"role": "user", "content": "May orders 42 and 43 be paid back?"}]
        return (await offbook.gateway.complete(messages, "gpt-4o", step_id="desk")).content
    except ProviderError as error:
        raise GaveUpError("the model does not answer") from error


async def pays_both_at_once(offbook, *, keeps_errors):
    """Pays two orders at once, and both again if one of them fails; the twin keeps each error by its order."""
    pay = offbook.tools(pay_back)["pay_back"].callable
    if await price_or_yes(offbook) != "Yes.":
        raise GaveUpError("the model does not allow it")
    open_orders = [42, 43]
    for _ in range(2):
        calls = [pay(order_id=order, amount=10) for order in open_orders]
        try:
            results = await asyncio.gather(*calls, return_exceptions=keeps_errors)
        except Exception:  # the first error hides what has become of the other
            continue
        open_orders = [order for order, each in zip(open_orders, results, strict=True) if isinstance(each, Exception)]
        if not open_orders:
            return DONE
    raise GaveUpError(f"not paid: {open_orders}; for the others pay_back has run")


@tool(side_effect=True)
async def debit(account: str, amount: int) -> str:
    """Take money from an account."""
    note("debit", account=account, amount=amount)
    return "done"


@tool(side_effect=True)
async def credit(account: str, amount: int) -> str:
    """Give money to an account."""
    note("credit", account=account, amount=amount)
    return "done"


@tool(side_effect=True, undoes="debit")
async def cancel_debit(account: str, amount: int) -> str:
    """Take a debit back."""
    note("cancel_debit", account=account, amount=amount)
    return "done"


async def transfers(offbook, *, swallows):
    """Moves money in two steps, and ends as usual if it is cancelled in between; the twin takes the first step back."""
    tools = offbook.tools(debit, credit, cancel_debit)
    if await price_or_yes(offbook) != "Yes.":
        raise GaveUpError("the model does not allow it")
    await use(tools["debit"].callable, account="ann", amount=30)
    try:
        await use(tools["credit"].callable, account="bob", amount=30)
    except (asyncio.CancelledError, GaveUpError) as error:
        if not swallows or isinstance(error, GaveUpError):
            await use(tools["cancel_debit"].callable, account="ann", amount=30)
            raise
    return DONE


PLANTED = [
    PlantedFunction(
        name="takes the last offer",
        agent=takes_an_offer,
        defect={"last_wins": True},
        sound={"last_wins": False},
        answers=OFFERS,
        faults=FAULTS,
        verdict="wrong effect",
        at="step=rail call=1 attempt=1: held_until step=bus call=1",
        evidence='book(by="rail", price=40)',
    ),
    PlantedFunction(
        name="matches results by position",
        agent=pays_two_back,
        defect={"by_position": True},
        sound={"by_position": False},
        answers=ONE_QUESTION,
        faults=FAULTS,
        verdict="wrong effect",
        at="tool=find_price call=1: held_until tool=find_price call=2",
        evidence="pay_back(order_id=42, amount=430)",
    ),
    PlantedFunction(
        name="pays both again",
        agent=pays_both_at_once,
        defect={"keeps_errors": False},
        sound={"keeps_errors": True},
        answers=ONE_QUESTION,
        faults=FAULTS,
        verdict="repeated effect",
        at="tool=pay_back call=1: tool_error",
        evidence="pay_back(order_id=43, amount=10) ran 2 times",
    ),
    PlantedFunction(
        name="swallows a cancellation",
        agent=transfers,
        defect={"swallows": True},
        sound={"swallows": False},
        answers=ONE_QUESTION,
        faults=FAULTS,
        verdict="missing effect",
        also=["undetected (went on without)"],
        at="tool=credit call=1: cancelled",
        evidence="credit",
        undoes={"cancel_debit": "debit"},
    ),
]
