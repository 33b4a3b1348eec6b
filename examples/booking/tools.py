"""The tools of the salon: its diary."""

from collections.abc import Callable

from pydantic import BaseModel

from offbook.tools import Toolbox

TIMES = ("09:00", "10:30", "13:00", "15:30")
CUSTOMERS = {"ada@example.com": ("C-1", "Ada"), "grace@example.com": ("C-2", "Grace")}


class Availability(BaseModel):
    """The free times of a day."""

    date: str
    slots: list[str]


class Booking(BaseModel):
    """An appointment."""

    booking_id: str
    date: str
    time: str


class Cancellation(BaseModel):
    """A cancelled appointment."""

    booking_id: str
    cancelled: bool


class Customer(BaseModel):
    """A customer of the salon."""

    customer_id: str
    name: str


class Diary:
    """The appointments of the salon, in memory."""

    def __init__(self) -> None:
        self.bookings: dict[str, Booking] = {}

    def check_availability(self, date: str) -> Availability:
        """Say which times of a day are free.

        Args:
            date: as 2026-04-01
        """
        booked = {booking.time for booking in self.bookings.values() if booking.date == date}
        return Availability(date=date, slots=[time for time in TIMES if time not in booked])

    def create_booking(self, date: str, time: str, customer_id: str) -> Booking:
        """Make an appointment."""
        if time not in self.check_availability(date).slots:
            raise ValueError(f"{time} is not free")
        booking = Booking(booking_id=f"BK-{len(self.bookings) + 1}", date=date, time=time)
        self.bookings[booking.booking_id] = booking
        return booking

    def cancel_booking(self, booking_id: str) -> Cancellation:
        """Cancel an appointment."""
        del self.bookings[booking_id]
        return Cancellation(booking_id=booking_id, cancelled=True)

    def get_customer(self, email: str) -> Customer:
        """Look up a customer."""
        customer_id, name = CUSTOMERS[email]
        return Customer(customer_id=customer_id, name=name)


def tools_of(diary: Diary) -> dict[str, Callable[..., BaseModel]]:
    """Return the tools of the agent by name."""
    return {
        "check_availability": diary.check_availability,
        "create_booking": diary.create_booking,
        "cancel_booking": diary.cancel_booking,
        "get_customer": diary.get_customer,
    }


TOOLS = tools_of(Diary())
FUNCTIONS = Toolbox(TOOLS).functions
