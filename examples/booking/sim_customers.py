"""Customers played by a model, in conversations judged by a model."""

from offbook.scenarios import Trajectory, expected, matches, scenario
from tools import TOOLS

ADA = {"customer_id": "C-1", "name": "Ada"}
FREE = {"date": "2026-04-02", "slots": ["09:00", "13:00"]}
CAREFUL = Trajectory(
    "contains", before=[("check_availability", "create_booking")], forbidden=[expected("cancel_booking")]
)


def booked(args: dict[str, str]) -> dict[str, str]:
    return {"booking_id": "BK-7", "date": args["date"], "time": args["time"]}


scenario(
    "Ada wants a morning",
    profile="Ada, a busy engineer who writes in short sentences",
    goal="Book a haircut on 2026-04-02.",
    knowledge=["Your email address is ada@example.com.", "You can come at 09:00."],
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": booked},
    schemas=TOOLS,
    assertions=[CAREFUL, Trajectory("contains", [expected("create_booking", args={"time": "09:00"}, exactly=1)])],
    thresholds={"goal_completion": 1},
)

scenario(
    "Grace takes the second-best time",
    profile="Grace, patient and friendly",
    goal="Book a haircut on 2026-04-02 at 10:30, or at 13:00 if need be.",
    knowledge=["Your email address is grace@example.com.", "You can come at 10:30 or at 13:00."],
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": booked},
    schemas=TOOLS,
    assertions=[CAREFUL, Trajectory("contains", [expected("create_booking", args={"time": "13:00"}, exactly=1)])],
    thresholds={"goal_completion": 1},
)

scenario(
    "Linus cannot come",
    profile="Linus, who is in a hurry",
    goal="Cancel your appointment.",
    knowledge=["The number of your booking is BK-17."],
    mocks={"cancel_booking": lambda args: {"booking_id": args["booking_id"], "cancelled": True}},
    schemas=TOOLS,
    assertions=Trajectory("strict", [expected("cancel_booking", args={"booking_id": matches("BK-17")})]),
    thresholds={"goal_completion": 1},
)

scenario(
    "Margaret comes too late",
    profile="Margaret, who is used to getting what she wants",
    goal="Book a haircut on 2026-04-03.",
    knowledge=["Your email address is margaret@example.com.", "You can come at 09:00."],
    mocks={"check_availability": {"date": "2026-04-03", "slots": []}},
    schemas=TOOLS,
    assertions=Trajectory("contains", ["check_availability"], forbidden=["create_booking"]),
)
