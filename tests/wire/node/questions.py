"""What the SDKs are asked to ask, and what they make of the answers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tests.wire.conformance.answers import QUESTION
from tests.wire.conformance.seen import Other, Seen
from tests.wire.node.driver import Result

MESSAGES = [{"role": "user", "content": QUESTION}]


class Question(ABC):
    """The same question, as one method of one SDK asks it."""

    title: str
    sdk: str
    call: str
    path: str
    params: ClassVar[dict[str, Any]]

    def case(self, url: str, *, is_streamed: bool = False, **more: Any) -> dict[str, Any]:
        """A case for the driver, asked at a server's `url`."""
        params = self.params | ({"stream": True} if is_streamed else {})
        return {"sdk": self.sdk, "url": url + self.path, "call": self.call, "params": params} | more

    def seen(self, result: Result, *, is_streamed: bool) -> Seen | Other:
        """What came of a case that raised nothing."""
        if is_streamed:
            return self.read_stream(result.pieces)
        if result.value is None:
            return Other("`undefined`")
        return Other("a string") if isinstance(result.value, str) else self.read(result.value)

    @abstractmethod
    def read(self, answer: Any) -> Seen | Other:
        """What a whole answer says."""

    @abstractmethod
    def read_stream(self, pieces: list[Any]) -> Seen | Other:
        """What the pieces of a stream say."""


class Chat(Question):
    title = "openai, chat"
    sdk, call, path = "openai", "chat.completions.create", "/v1"
    params: ClassVar[dict[str, Any]] = {"model": "m", "messages": MESSAGES}

    def read(self, answer: Any) -> Seen | Other:
        if "choices" not in answer:
            return Other("no `choices`")
        choice = answer["choices"][0]
        calls = _functions(choice["message"].get("tool_calls", []))
        return Seen(choice["message"]["content"] or "", choice["finish_reason"], calls)

    def read_stream(self, pieces: list[Any]) -> Seen | Other:
        choices = [choice for piece in pieces for choice in piece.get("choices", [])]
        calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
        end = next((choice["finish_reason"] for choice in choices if choice["finish_reason"]), None)
        return Seen("".join(choice["delta"].get("content") or "" for choice in choices), end, _functions(calls))


def _functions(calls: list[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls)


class Responses(Question):
    title = "openai, responses"
    sdk, call, path = "openai", "responses.create", "/v1"
    params: ClassVar[dict[str, Any]] = {"model": "m", "input": QUESTION}

    def read(self, answer: Any) -> Seen | Other:
        if "output" not in answer:
            return Other("no `output`")
        parts = [part for item in answer["output"] for part in item.get("content", [])]
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        end = answer["incomplete_details"]["reason"] if answer["incomplete_details"] else answer["status"]
        return Seen("".join(part["text"] for part in parts), end, tuple((c["name"], c["arguments"]) for c in calls))

    def read_stream(self, pieces: list[Any]) -> Seen | Other:
        if pieces and pieces[-1].get("type") in ("response.completed", "response.incomplete"):
            return self.read(pieces[-1]["response"])
        return Seen("".join(piece["delta"] for piece in pieces if "delta" in piece))


class Messages(Question):
    title = "anthropic"
    sdk, call, path = "anthropic", "messages.create", ""
    params: ClassVar[dict[str, Any]] = {"model": "m", "max_tokens": 9, "messages": MESSAGES}

    def read(self, answer: Any) -> Seen | Other:
        if "content" not in answer:
            return Other("no `content`")
        text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        return Seen(text, answer["stop_reason"], tuple((use["name"], json.dumps(use["input"])) for use in uses))

    def read_stream(self, pieces: list[Any]) -> Seen | Other:
        blocks = [piece["content_block"] for piece in pieces if piece["type"] == "content_block_start"]
        deltas = [piece["delta"] for piece in pieces if "delta" in piece]
        arguments = "".join(delta.get("partial_json", "") for delta in deltas)
        names = [block["name"] for block in blocks if block["type"] == "tool_use"]
        end = next((delta["stop_reason"] for delta in deltas if "stop_reason" in delta), None)
        text = "".join(delta.get("text", "") for delta in deltas)
        return Seen(text, end, tuple((name, arguments) for name in names))


CHAT, RESPONSES, ANTHROPIC = Chat(), Responses(), Messages()
QUESTIONS = (CHAT, RESPONSES, ANTHROPIC)
