"""The role of the judge: a judgement of a conversation by one metric."""

from itertools import pairwise
from typing import Any

import orjson

from offbook.messages import JsonObject

CLAIMS = {"You are booked": "create_booking", "is cancelled": "cancel_booking"}


def judge_line(instructions: str, case: str) -> str:
    """Return the judgement as JSON."""
    turns = orjson.loads(case.partition("<conversation>")[2].partition("</conversation>")[0])["turns"]
    calls = [call for turn in turns for call in turn["tool_calls"]]
    is_of_goal = "one criterion: goal_completion" in instructions
    return orjson.dumps(_goal(calls) if is_of_goal else _use_of_tools(calls, turns[-1]["agent"])).decode()


def _goal(calls: list[dict[str, Any]]) -> JsonObject:
    if _is_done(calls, "create_booking") or _is_done(calls, "cancel_booking"):
        return {"reason": "A tool call bears it out.", "score": 1}
    return {"reason": "Nothing was booked or cancelled.", "score": 0}


def _use_of_tools(calls: list[dict[str, Any]], said: str) -> JsonObject:
    tools = [call["tool"] for call in calls]
    claimed = [tool for words, tool in CLAIMS.items() if words in said and not _is_done(calls, tool)]
    if claimed:
        return {"reason": f"It passes over the error of {claimed[0]}.", "label": "untrue", "severity": "high"}
    if "create_booking" in tools and "check_availability" not in tools:
        return {"reason": "It did not look first.", "label": "blind", "severity": "medium"}
    if ("create_booking", "create_booking") in pairwise(tools):
        return {"reason": "It booked again at once.", "label": "repeated", "severity": "medium"}
    return {"reason": "It did as it should.", "label": "sound", "severity": None}


def _is_done(calls: list[dict[str, Any]], tool: str) -> bool:
    return any(call["tool"] == tool and "result" in call for call in calls)
