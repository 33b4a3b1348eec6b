"""What stands in a transcript for the messages that were dropped from it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType

_TEXT = re.compile(
    r"Earlier messages left out here to save space: (\d+)\. Tool calls in them: (\{.*\})\.(?:\n((?s:.*)))?"
)


class Summary(Struct, frozen=True):
    """How many messages were left out, how often each tool answered in them, and what is done and what is not."""

    left_out: int
    calls: Mapping[str, int]
    step_hint: str = ""

    @classmethod
    def read(cls, message: Message) -> Summary | None:
        """The summary that a message tells; None if it tells none, or one of another author."""
        told = _TEXT.fullmatch(message.content) if message.metadata.type == MessageType.SUMMARY else None
        if told is None:
            return None
        left_out, calls, step_hint = told.groups(default="")
        return cls(int(left_out), json.loads(calls), step_hint)

    @classmethod
    def of(cls, dropped: Iterable[Message], *, step_hint: str) -> Summary:
        """The summary of messages, among which there may be summaries; their hint holds if there is no newer one."""
        left_out, calls, older_hint = 0, Counter[str](), ""
        for message in dropped:
            older = cls.read(message)
            if older is not None:
                left_out, older_hint = left_out + older.left_out, older.step_hint
                calls.update(older.calls)
                continue
            left_out += 1
            if message.metadata.type == MessageType.TOOL_RESULT and message.tool_name is not None:
                calls[message.tool_name] += 1
        return cls(left_out, calls, step_hint or older_hint)

    def to_message(self, *, step_index: int | None) -> Message:
        """The message for the model to read."""
        calls = json.dumps(self.calls)
        text = f"Earlier messages left out here to save space: {self.left_out}. Tool calls in them: {calls}."
        content = f"{text}\n{self.step_hint}" if self.step_hint else text
        return Message(MessageRole.USER, content, MessageMeta(MessageType.SUMMARY, step_index))
