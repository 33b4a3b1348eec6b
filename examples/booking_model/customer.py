"""The role of the customer: the next message, or the end of the conversation."""

import re

import orjson

from booking_model.agent import BOOKING, DATE, EMAIL, TIME


def customer_line(instructions: str, case: str) -> str:
    """Return the customer's next move as JSON."""
    goal = _section(instructions, "What you want:")
    known = _section(instructions, "What you know:")
    if "<conversation>" not in case:
        return _says(f"Hello. I would like to {goal[0].lower()}{goal[1:]}", "I begin.")
    reply = str(_conversation(case)[-1]["agent"])
    if "You are booked" in reply or "is cancelled" in reply:
        return _stops("I have what I want.", is_satisfied=True)
    detail = _detail(reply, known)
    return _stops("I cannot get it here.") if detail is None else _says(f"{detail}, please.", "I was asked.")


def _detail(reply: str, known: str) -> str | None:
    """Return the detail that the agent asks for, if the customer knows it."""
    if "times are free" in reply:
        return next((f"At {time}" for time in re.findall(TIME, known) if time in reply), None)
    wanted = {"email": EMAIL, "Which booking": BOOKING, "which day": DATE, "what time": TIME}
    pattern = next((pattern for words, pattern in wanted.items() if words in reply), None)
    found = re.search(pattern, known) if pattern else None
    return found[0] if found else None


def _section(instructions: str, title: str) -> str:
    return instructions.partition(f"{title}\n")[2].partition("\n\n")[0]


def _conversation(case: str) -> list[dict[str, str]]:
    data = case.partition("<conversation>")[2].partition("</conversation>")[0]
    turns: list[dict[str, str]] = orjson.loads(data)
    return turns


def _says(message: str, reason: str) -> str:
    return orjson.dumps({"reason": reason, "message": message, "stop": False}).decode()


def _stops(reason: str, *, is_satisfied: bool = False) -> str:
    return orjson.dumps({"reason": reason, "message": None, "stop": True, "goal_reached": is_satisfied}).decode()
