"""Bookings that go wrong: a tool fails, hangs or returns garbage."""

from offbook.messages import JsonObject
from offbook.scenarios import MockContext, Trajectory, expected, fails, garbled, hangs, scenario
from tools import TOOLS, Diary, tools_of

ADA = {"customer_id": "C-1", "name": "Ada"}
FREE = {"date": "2026-04-01", "slots": ["09:00", "10:30"]}
BOOKED = {"booking_id": "BK-1", "date": "2026-04-01", "time": "10:30"}
PLEASE_BOOK = "Please book me in on 2026-04-01 at 10:30. I am ada@example.com."


def availability(args: JsonObject, ctx: MockContext) -> object:
    """Return the free times in the diary of the conversation."""
    return ctx.state.setdefault("diary", Diary()).check_availability(**args)


def booking_without_answer(args: JsonObject, ctx: MockContext) -> object:
    """Make the booking, and lose the answer."""
    tools_of(ctx.state["diary"])["create_booking"](**args)
    raise TimeoutError("the diary did not answer in time")


scenario(
    "looks again before it tries again",
    mocks={
        "check_availability": FREE,
        "get_customer": ADA,
        "create_booking": fails("the diary is busy", times=1, then=BOOKED),
    },
    schemas=TOOLS,
    turns=[PLEASE_BOOK],
    assertions=Trajectory(
        "strict", ["check_availability", "get_customer", "create_booking", "check_availability", "create_booking"]
    ),
)

scenario(
    "does not book twice when the answer is lost",
    mocks={"check_availability": availability, "get_customer": ADA, "create_booking": booking_without_answer},
    schemas=TOOLS,
    turns=[PLEASE_BOOK],
    assertions=Trajectory("contains", [expected("create_booking", exactly=1)]),
)

scenario(
    "does not claim a booking that failed",
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": fails("the diary is down")},
    schemas=TOOLS,
    turns=[PLEASE_BOOK],
    assertions=Trajectory("contains", [expected("create_booking", at_least=1, at_most=2)]),
)

scenario(
    "does not book by a diary that it cannot read",
    mocks={"check_availability": garbled(), "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=[PLEASE_BOOK],
    assertions=Trajectory("contains", ["check_availability"], forbidden=["create_booking"]),
)

scenario(
    "waits for a slow diary",
    mocks={"check_availability": hangs(for_s=0.2, then=FREE), "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=[PLEASE_BOOK],
    assertions=Trajectory("contains", ["create_booking"]),
)
