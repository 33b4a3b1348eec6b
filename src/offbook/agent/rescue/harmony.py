"""Calls and thoughts in the channels of gpt-oss."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found, UnreadableError
from offbook.agent.rescue.json_value import read_object
from offbook.messages import ToolCall

_OPENING = r"<\|start\|>assistant|<\|channel\|>"
_header = re.compile(
    r"""(?:<\|start\|>assistant \s*+ (?:to=(?P<early>[\w.-]+))? \s*+)?
    <\|channel\|> \s*+ (?P<channel>\w+) \s*+ (?:to=(?P<late>[\w.-]+))? \s*+
    (?:<\|constrain\|>)? (?:json)? \s*+ <\|message\|> \s*+""",
    re.VERBOSE,
)
_end = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z")
_call_end = re.compile(r"\s*+(?:<\|(?:call|end)\|>)?")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """One message: a call if it goes to a tool, thinking if it is analysis; of others the header alone.

    Raises:
        UnreadableError: it has no header, or goes to a tool without a JSON object.
    """
    start = opening.start()
    header = _header.match(text, start)
    if header is None:
        raise UnreadableError
    recipient = header["early"] or header["late"]
    if recipient:
        args, end = read_object(text, header.end())
        closing = _call_end.match(text, end)
        call = ToolCall(recipient.removeprefix("functions."), args)
        return Found(start, closing.end() if closing else end, (call,))
    if header["channel"] != "analysis":
        return Found(start, header.end())
    closing = _end.search(text, header.end())
    until = closing or header
    return Found(start, until.end(), thought=(header.end(), until.start()))


FAMILY = Family(_OPENING, read)
