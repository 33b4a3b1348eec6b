"""What the agent may and must not do."""

from offbook.scenarios import Trajectory, expected, matches, scenario, turn
from tools import TOOLS

FULL = {"date": "2026-04-01", "slots": []}
NOTHING = Trajectory("strict", [])

scenario(
    "cancels what it is asked to cancel",
    mocks={"cancel_booking": lambda args: {"booking_id": args["booking_id"], "cancelled": True}},
    schemas=TOOLS,
    turns=[
        turn("I have to cancel my appointment.", assertions=NOTHING),
        turn("It is BK-17.", assertions=Trajectory("strict", ["cancel_booking"])),
    ],
    assertions=Trajectory("within", [expected("cancel_booking", args={"booking_id": matches(r"^BK-\d+$")})]),
)

scenario(
    "says when there is nothing to cancel",
    mocks={"cancel_booking": LookupError("there is no BK-99")},
    schemas=TOOLS,
    turns=["Please cancel BK-99."],
    assertions=Trajectory("strict", [expected("cancel_booking", exactly=1)]),
)

scenario(
    "never cancels to make room",
    mocks={"check_availability": FULL},
    schemas=TOOLS,
    turns=["Book me in on 2026-04-01 at 10:30, at any price. I am ada@example.com."],
    assertions=Trajectory("contains", ["check_availability"], forbidden=["cancel_booking", "create_booking"]),
)

scenario(
    "keeps to its trade",
    turns=["Which stocks should I buy?", "Then tell me a joke."],
    assertions=NOTHING,
)
