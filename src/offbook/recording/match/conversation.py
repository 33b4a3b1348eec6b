"""Reads the messages of a request: the model's answers, its failed tool calls, and the messages since."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from offbook.faults.site import MARK_LETTERS
from offbook.messages import JsonObject, Response

_FAILURE = re.compile(
    r"error|fail|time[d ]?-?\s?out|unavailable|could ?n[o']t|unable|exception|traceback|\blost\b|\bbroke"
    r"|invalid|\bnot run\b|refused|denied|rejected|cannot|no such|not found"
    r"|connection (?:was |is |has been )?(?:closed|reset|aborted)|disconnected|session (?:terminated|expired)"
    r"|unauthori[sz]ed|unknown tool|missing argument|not supported|input[ _]required|still working"
    r"|\b(?:no|without an?) (?:content|output|result|response|answer)\b"
    r"|server (?:has |was )?(?:exited|ended|died|gone|stopped)|\boffbook-(?:stuck-task|asks-forever)",
    re.IGNORECASE,
)
_MARK_START = "fault-"
_MARK = re.compile(rf"\b{_MARK_START}[{MARK_LETTERS}]{{6}}\b")
_NOTHING = ("", "null", "none", "undefined", "{}", "[]", '""')
_MOST_NOTHING = max(map(len, _NOTHING))

# Reading a megabyte for all words of failure takes half a second, and every later request has the message again. What
# tells of a failure is short, or begins or ends with it.
MAX_READ_CHARS = 16_384
"""The length of a text's start and end that is searched for words of failure."""


class Utterance(Struct, frozen=True):
    """One answer of a model: its text, and its tool calls as pairs of a name and canonical arguments."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_message(cls, message: JsonObject) -> Utterance:
        calls = [call.get("function") for call in _tool_calls(message)]
        named = [call for call in calls if isinstance(call, dict)]
        return cls(message_text(message), tuple((str(call.get("name")), _canonical(call)) for call in named))

    @classmethod
    def of_response(cls, response: Response) -> Utterance:
        calls = [(call.tool, _canonical({"arguments": call.arguments})) for call in response.tool_calls]
        return cls(response.content.strip(), tuple(calls))

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.calls

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the requested tools."""
        return tuple(name for name, _ in self.calls)

    def is_part_of(self, other: Utterance) -> bool:
        """Return whether the other requests all tools that this one requests, with equal arguments."""
        return bool(self.calls) and set(self.calls) <= set(other.calls)


def _canonical(function: JsonObject) -> str:
    """Return the arguments of a call as JSON with sorted names. Only a JSON object starts with a brace."""
    arguments = function.get("arguments")
    try:
        value = orjson.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        return f"not JSON: {arguments}"
    return msgspec.json.encode(value or {}, order="sorted").decode()


def message_text(message: JsonObject) -> str:
    """Return the text of a message, whose content may be in parts."""
    return _text(message.get("content")).strip()


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, (_text(part) for part in content)))
    if isinstance(content, dict):
        inner = content.get("text", content.get("content"))
        return _text(inner) if inner is not None else ""
    return ""


class Exchanged(Struct, frozen=True):
    """An answer of the model in a conversation, and the messages that follow it before the next one."""

    said: Utterance
    ids: tuple[str, ...]
    after: tuple[JsonObject, ...]

    def failed_calls(self, known: Collection[str]) -> list[int]:
        """Return the positions of the failed tool calls, whose results are new and read like failures.

        `known` are texts of the clean run. A call without a result failed if something else is reported instead, one
        that a fault has broken if its result is new, and one with invalid JSON arguments always.
        """
        results, rejected = self._results, self.rejected_calls(known)
        rest = [message for message in self.after if not is_tool_result(message)]
        is_failure_told = any(reads_like_failure(message, known) for message in rest)
        failed = []
        for place, (call_id, (_, arguments)) in enumerate(zip(self.ids, self.said.calls, strict=False)):
            result = results.get(call_id)
            is_told = is_failure_told if result is None else reads_like_failure(result, known)
            if is_told or call_id in rejected or not arguments.startswith("{"):
                failed.append(place)
        return failed

    def rejected_calls(self, known: Collection[str]) -> set[str]:
        """Return the ids of calls that a fault has broken and whose results are new, in any words."""
        broken = {call_id for call_id, (_, text) in zip(self.ids, self.said.calls, strict=False) if _is_broken(text)}
        new = {call_id for call_id, result in self._results.items() if message_text(result) not in known}
        return broken & new

    @property
    def _results(self) -> dict[str, JsonObject]:
        return {str(message.get("tool_call_id")): message for message in self.after if is_tool_result(message)}

    def is_answered_by_failure(self, known: Collection[str]) -> bool:
        """Return whether a text that reads like a failure answered text without tool calls."""
        return not self.said.calls and bool(self.after) and reads_like_failure(self.after[0], known)


def exchanged(messages: Sequence[JsonObject]) -> list[Exchanged]:
    """Return the model's answers in these messages, each with the messages after it."""
    places = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    ends = [*places[1:], len(messages)]
    found = []
    for place, end in zip(places, ends[: len(places)], strict=True):
        ids = tuple(str(call.get("id")) for call in _tool_calls(messages[place]))
        found.append(Exchanged(Utterance.of_message(messages[place]), ids, tuple(messages[place + 1 : end])))
    return found


def _tool_calls(message: JsonObject) -> list[JsonObject]:
    """Return the tool calls of a message, without malformed ones."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list | tuple) else []


def is_tool_result(message: JsonObject) -> bool:
    """Return whether a message is the result of a tool."""
    return message.get("role") in ("tool", "function")


def reads_like_failure(message: JsonObject, known: Collection[str] = ()) -> bool:
    """Return whether a message is not among the `known` texts and reports a failure, or nothing."""
    text = message_text(message)
    if text in known:
        return False
    is_flagged = bool(message.get("is_error")) or (is_tool_result(message) and message.get("status") == "error")
    is_nothing = len(text) <= _MOST_NOTHING and text.lower() in _NOTHING
    has_failed = is_flagged or is_nothing or _has_mark(text) or _has_failure(text[:MAX_READ_CHARS])
    return has_failed or _has_failure(text[-MAX_READ_CHARS:])


@lru_cache(maxsize=1024)
def _has_failure(text: str) -> bool:
    """Return whether a text has words of failure. It stands in all later requests of its conversation."""
    return _FAILURE.search(text) is not None


def _has_mark(text: str) -> bool:
    """Return whether a text has the mark of a fault, which may stand anywhere in it."""
    return _MARK_START in text and _MARK.search(text) is not None


def tells_failure(messages: Sequence[JsonObject], known: Collection[str]) -> bool:
    """Return whether a request reports a failure to its model that the clean run did not have.

    It does if a message carries a fault's mark, or if a tool result is not `known`, and reads like a failure or answers
    a call that a fault has broken.
    """
    is_told = any(
        _has_mark(message_text(message)) or (is_tool_result(message) and reads_like_failure(message, known))
        for message in messages
    )
    return is_told or any(each.rejected_calls(known) for each in exchanged(messages))


def _is_broken(arguments: str) -> bool:
    """Return whether a fault has broken these canonical arguments: they are not JSON, or carry its mark."""
    return not arguments.startswith("{") or _has_mark(arguments)


def opening_of(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the messages before the model's first answer."""
    first = next((place for place, each in enumerate(messages) if each.get("role") == "assistant"), len(messages))
    return list(messages[:first])
