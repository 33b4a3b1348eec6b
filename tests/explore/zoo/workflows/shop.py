"""The tools of the workflows. Their effects are in the ledger."""

from offbook import tool
from tests.explore.zoo.ledger import note


class RefusedError(Exception):
    """What the workflows are declared to fail with."""


def stop(reason: str) -> None:
    """End the workflow."""
    raise RefusedError(reason)


@tool(read_only=True)
def find_price(product: str) -> int:
    """Look up a price."""
    return 30


@tool(read_only=True)
def print_label(text: str) -> str:
    """Return a text as it is on a label."""
    return text


@tool(side_effect=True)
def publish(text: str) -> str:
    """Put a text on the page."""
    note("publish", text=text)
    return "published"


@tool(side_effect=True)
def pay(bill: int) -> str:
    """Pay a bill."""
    note("pay", bill=bill)
    return "paid"


PAID = set()


@tool(side_effect=True)
def pay_once(bill: int) -> str:
    """Pay a bill, and refuse to pay it again."""
    if bill in PAID:
        return "Error: the bill is paid already"
    PAID.add(bill)
    note("pay", bill=bill)
    return "paid"


@tool(side_effect=True)
def pay_each_time(bill: int) -> str:
    """Pay a bill, however often."""
    note("pay", bill=bill)
    return "paid"


@tool(side_effect=True)
def refund(order_id: int) -> str:
    """Give the customer the money back."""
    if order_id != 42:
        raise RefusedError("this is not the customer's order")
    note("refund", order_id=order_id)
    return "paid"


TRIED = set()


@tool(side_effect=True)
def refund_once(order_id: int) -> str:
    """Give the customer the money back, and never try it again."""
    if order_id in TRIED:
        raise RefusedError("this was tried before, and nobody knows whether it was paid")
    TRIED.add(order_id)
    return refund.callable(order_id)


@tool(read_only=True)
def reply(text: str) -> str:
    """Tell the customer how it ended."""
    return text


BOOKED = []


@tool(side_effect=True)
def book_hotel(city: str) -> str:
    """Book a room."""
    note("book_hotel", city=city)
    BOOKED.append(city)
    return "hotel"


@tool(side_effect=True)
def book_flight(city: str) -> str:
    """Book a seat."""
    note("book_flight", city=city)
    return "flight"


@tool(side_effect=True, undoes="book_hotel")
def cancel_hotel(city: str) -> str:
    """Give the room back."""
    if city not in BOOKED:
        raise RefusedError("there is no room to give back")
    note("cancel_hotel", city=city)
    return "cancelled"
