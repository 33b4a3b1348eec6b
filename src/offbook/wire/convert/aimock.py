"""Reads the fixtures of aimock: answers, with conditions on the requests that they answer."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import UNSET, Raw

from offbook.faults import HttpError
from offbook.messages import JsonObject, Usage
from offbook.recording.format.exchange import ABSENT, Exchange, RecordedToolCall
from offbook.wire.convert.trace import AnyRequestCall, Trace, Unmapped, read_each

KEY = "aimock"
_ANSWERS = ("content", "toolCalls", "blocks", "error")
_ORDER_CONDITIONS = frozenset(("userMessage", "sequenceIndex", "turnIndex", "hasToolResult", "model", "endpoint"))
"""Conditions that only restate the fixtures' order in an unchanged conversation."""


def read_fixtures(fixtures: list[Any]) -> Trace:
    """Return the answers of fixtures, in the order of the file.

    A fixture lacks the whole request, so its answer fits any request. Fixtures of other endpoints than chat, and
    fixtures with conditions beyond their order, are not mapped.
    """
    return read_each(fixtures, "fixture", _read_fixture, otherwise="not a fixture as aimock reads it")


def _read_fixture(fixture: JsonObject, place: str) -> AnyRequestCall | Unmapped:
    reason = _unmappable_reason(fixture)
    return Unmapped(place, reason) if reason else AnyRequestCall(place=place, key=KEY, exchange=_exchange(fixture))


def _unmappable_reason(fixture: JsonObject) -> str:
    match, response = fixture["match"], fixture["response"]
    if not any(name in response for name in _ANSWERS):
        return f"not an answer of a chat: {', '.join(sorted(response))}"
    if match.get("endpoint", "chat") != "chat":
        return f"not a chat: {match['endpoint']}"
    further = sorted(match.keys() - _ORDER_CONDITIONS)
    return f"it answers under a condition: {', '.join(further)}" if further else ""


def _exchange(fixture: JsonObject) -> Exchange:
    match, response = fixture["match"], fixture["response"]
    usage = response.get("usage") or {}
    texts, calls = (
        _blocks(response) if "blocks" in response else (response.get("content", ""), response.get("toolCalls"))
    )
    tool_calls = [_tool_call(call) for call in calls or ()]
    return Exchange(
        content=texts if isinstance(texts, str) else orjson.dumps(texts).decode(),
        model=response.get("model") or match.get("model") or "",
        usage=_usage(usage) if usage else None,
        latency_ms=float(fixture.get("latency") or 0.0),
        finish_reason=response.get("finishReason", UNSET),
        tool_calls=tool_calls or None,
        reasoning=response.get("reasoning"),
        fault=_fault(response) if "error" in response else None,
        request=_request(match),
    )


def _blocks(response: JsonObject) -> tuple[str, list[JsonObject]]:
    blocks = response["blocks"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "".join(texts), [block for block in blocks if block["type"] == "toolCall"]


def _tool_call(call: JsonObject) -> RecordedToolCall:
    arguments = call["arguments"]
    if isinstance(arguments, str):
        parsed = orjson.loads(arguments) if arguments.lstrip().startswith("{") else arguments
        return RecordedToolCall(id=call.get("id"), name=call["name"], arguments=parsed)
    return RecordedToolCall(id=call.get("id"), name=call["name"], arguments=arguments)


def _usage(usage: JsonObject) -> Usage:
    def count(*names: str) -> int:
        return next((int(usage[name]) for name in names if usage.get(name)), 0)

    prompt = count("prompt_tokens", "input_tokens", "promptTokenCount")
    return Usage.of(prompt, count("completion_tokens", "output_tokens", "candidatesTokenCount"))


def _fault(response: JsonObject) -> HttpError:
    status = int(response.get("status") or 500)
    headers = {"retry-after": f"{response.get('retryAfter') or 1}"} if status == 429 else {}
    return HttpError(status, headers, orjson.dumps({"error": response["error"]}).decode())


def _request(match: JsonObject) -> Raw:
    """Return the known part of the request, for readers of the recording."""
    if not isinstance(match.get("userMessage"), str):
        return ABSENT
    message = {"role": "user", "content": match["userMessage"]}
    return Raw(orjson.dumps({"messages": [message], "model": match.get("model", "")}, option=orjson.OPT_SORT_KEYS))
