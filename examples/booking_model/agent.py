"""The role of the agent: an answer to the customer, or a tool call."""

import re
from collections.abc import Sequence
from typing import Any

import orjson

from offbook.messages import JsonObject, ToolCall

DATE, TIME, EMAIL, BOOKING = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}", r"\w+@\w+\.\w+", r"BK-\d+"
MOST_TRIES = 2


class Talk:
    """A conversation as the agent sees it."""

    def __init__(self, messages: Sequence[JsonObject]) -> None:
        self._messages = messages
        self._requests = [str(message["content"]) for message in messages if message["role"] == "user"]
        self.last_request = self._requests[-1]

    def last(self, pattern: str) -> str | None:
        """Return the last match of a pattern in the customer's messages."""
        found = re.findall(pattern, " ".join(self._requests))
        return str(found[-1]) if found else None

    def results(self, tool: str) -> list[Any]:
        """Return the results of the tool so far; None for a failed or unreadable one."""
        return [_result(message) for message in self._since(0) if message.get("name") == tool]

    def results_in_turn(self, tool: str) -> list[Any]:
        """Return the results of the tool since the customer's last message."""
        spoken = max(place for place, message in enumerate(self._messages) if message["role"] == "user")
        return [_result(message) for message in self._since(spoken) if message.get("name") == tool]

    def tools(self) -> list[str]:
        """Return the tools that have answered, in order."""
        return [str(message["name"]) for message in self._since(0)]

    def call(self, tool: str, **args: str) -> ToolCall:
        return ToolCall(tool, args, id=f"call_{len(self._messages)}")

    def _since(self, place: int) -> list[JsonObject]:
        return [message for message in self._messages[place:] if message["role"] == "tool"]


def _result(message: JsonObject) -> Any:
    try:
        result = orjson.loads(message["content"])
    except orjson.JSONDecodeError:
        return None
    return None if result is None or "error" in result else result


def agent_line(prompt: str, messages: Sequence[JsonObject]) -> str | ToolCall:
    """Return the agent's next answer or tool call. It checks the diary before it books only if `prompt` says so."""
    talk = Talk(messages)
    if "cancel " in talk.last_request or talk.last(BOOKING):
        return _cancelling(talk)
    if "free" in talk.last_request:
        return _looking(talk)
    if re.search(f"book|appointment|haircut|{DATE}|{TIME}|{EMAIL}", talk.last_request):
        return _booking(talk, is_careful="check_availability" in prompt)
    return "I can help you with appointments only."


def _cancelling(talk: Talk) -> str | ToolCall:
    booking_id, results = talk.last(BOOKING), talk.results("cancel_booking")
    if booking_id is None:
        return "Which booking is it? It has a number like BK-1."
    if not results:
        return talk.call("cancel_booking", booking_id=booking_id)
    return f"I could not cancel {booking_id}." if results[-1] is None else f"{booking_id} is cancelled."


def _looking(talk: Talk) -> str | ToolCall:
    date, results = talk.last(DATE), talk.results_in_turn("check_availability")
    if date is None:
        return "For which day?"
    return _offer(date, results[-1]) if results else talk.call("check_availability", date=date)


def _offer(date: str, availability: Any) -> str:
    if availability is None:
        return "I cannot read the diary at the moment. Please try again later."
    slots = _slots(availability)
    return f"On {date} these times are free: {', '.join(slots)}." if slots else f"On {date} all times are taken."


def _slots(availability: Any) -> list[str]:
    return [] if availability is None else list(availability.get("slots", []))


def _booking(talk: Talk, *, is_careful: bool) -> str | ToolCall:
    date, looked = talk.last(DATE), talk.results("check_availability")
    if date is None:
        return "For which day?"
    if talk.results_in_turn("create_booking"):
        return _after_booking(talk, date, str(talk.last(TIME)), is_careful=is_careful)
    if is_careful and not looked:
        return talk.call("check_availability", date=date)
    if looked and talk.last(TIME) not in _slots(looked[-1]):
        return _offer(date, looked[-1])
    return _details(talk, date)


def _details(talk: Talk, date: str) -> str | ToolCall:
    time, email = talk.last(TIME), talk.last(EMAIL)
    if time is None:
        return "At what time?"
    if email is None:
        return "What is your email address?"
    if not talk.results("get_customer"):
        return talk.call("get_customer", email=email)
    return _book(talk, date, time)


def _book(talk: Talk, date: str, time: str) -> ToolCall:
    customer = talk.results("get_customer")[-1] or {}
    return talk.call("create_booking", date=date, time=time, customer_id=customer.get("customer_id", "guest"))


def _after_booking(talk: Talk, date: str, time: str, *, is_careful: bool) -> str | ToolCall:
    tries = talk.results_in_turn("create_booking")
    if tries[-1] is not None:
        return f"You are booked for {date} at {time}: {tries[-1].get('booking_id', 'done')}."
    if not is_careful or len(tries) >= MOST_TRIES:
        return "I am sorry, the diary does not take the booking. Please try again later."
    if talk.tools()[-1] == "create_booking":
        return talk.call("check_availability", date=date)
    if time in _slots(talk.results("check_availability")[-1]):
        return _book(talk, date, time)
    return f"Something went wrong, and {time} is not free any more. Please call us, to see whether it is yours."
