"""Bookings that go well, and those that must not be made."""

from offbook.messages import JsonObject
from offbook.scenarios import MockContext, Trajectory, any_of, expected, is_type, scenario, sequence, turn
from tools import TOOLS, Diary, tools_of

ADA = {"customer_id": "C-1", "name": "Ada"}
FREE = {"date": "2026-04-01", "slots": ["09:00", "10:30"]}
BOOKED = {"booking_id": "BK-1", "date": "2026-04-01", "time": "10:30"}


def in_diary(tool: str) -> object:
    """Return a mock that runs the real tool on the diary of the conversation."""

    def mock(args: JsonObject, ctx: MockContext) -> object:
        diary = ctx.state.setdefault("diary", Diary())
        return tools_of(diary)[tool](**args)

    return mock


scenario(
    "books a time that is free",
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=[
        turn(
            "Please book me in on 2026-04-01 at 10:30. I am ada@example.com.",
            assertions=Trajectory(
                "strict",
                [
                    expected("check_availability", args={"date": "2026-04-01"}, match="exact"),
                    expected("get_customer", args={"email": "ada@example.com"}, match="exact"),
                    expected("create_booking", args={"time": "10:30", "customer_id": "C-1"}),
                ],
            ),
        )
    ],
)

scenario(
    "asks for what it must know",
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=[
        turn("I need an appointment.", assertions=Trajectory("strict", [])),
        turn("On 2026-04-01.", assertions=Trajectory("strict", ["check_availability"])),
        turn("At 10:30, please.", assertions=Trajectory("strict", [])),
        turn("ada@example.com", assertions=Trajectory("strict", ["get_customer", "create_booking"])),
    ],
)

scenario(
    "offers what is free",
    mocks={"check_availability": FREE},
    schemas=TOOLS,
    turns=["What is free on 2026-04-01?"],
    assertions=Trajectory("within", [expected("check_availability", args={"date": is_type(str)})]),
)

scenario(
    "offers another time when the one asked for is taken",
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=[
        turn(
            "Book me in on 2026-04-01 at 15:30, I am ada@example.com.",
            assertions=Trajectory("contains", forbidden=["create_booking"]),
        ),
        turn(
            "Then at 10:30.",
            assertions=Trajectory("contains", [expected("create_booking", args={"time": any_of("09:00", "10:30")})]),
        ),
    ],
)

scenario(
    "knows what it has booked",
    mocks={tool: in_diary(tool) for tool in ("check_availability", "get_customer", "create_booking")},
    schemas=TOOLS,
    conversations=2,
    turns=[
        "Book me in on 2026-04-01 at 09:00. I am ada@example.com.",
        "What is free on 2026-04-01 now?",
        turn(
            "And my sister at 09:00? She is grace@example.com.",
            assertions=Trajectory("contains", forbidden=["create_booking"]),
        ),
    ],
    assertions=Trajectory("contains", [expected("create_booking", exactly=1)]),
)

scenario(
    "books a guest whom the salon does not know",
    mocks={"check_availability": FREE, "create_booking": BOOKED},
    unmocked="passthrough",
    turns=["Please book me in on 2026-04-01 at 10:30. I am alan@example.com."],
    assertions=Trajectory("in_order", ["get_customer", expected("create_booking", args={"customer_id": "guest"})]),
)

scenario(
    "looks at the diary before it books",
    mocks={"check_availability": FREE, "get_customer": ADA, "create_booking": BOOKED},
    schemas=TOOLS,
    turns=["Just book 2026-04-01 at 10:30 for ada@example.com, do not ask anything."],
    assertions=Trajectory(
        "contains",
        [expected("create_booking", exactly=1)],
        before=[("check_availability", "create_booking"), ("get_customer", "create_booking")],
    ),
)

scenario(
    "looks again when it is asked to",
    mocks={"check_availability": sequence([FREE | {"slots": []}, FREE])},
    schemas=TOOLS,
    turns=["What is free on 2026-04-01?", "Somebody just cancelled. What is free on 2026-04-01?"],
    assertions=Trajectory("strict", [expected("check_availability", exactly=2)]),
)
