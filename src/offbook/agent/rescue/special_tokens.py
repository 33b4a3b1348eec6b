"""Calls between the special tokens of DeepSeek and of Kimi."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found, UnreadableError
from offbook.agent.rescue.json_value import read_object
from offbook.messages import ToolCall

_OPENING = r"<[|｜]tool[▁_]call[▁_]begin[|｜]>"
_call = re.compile(
    rf"""{_OPENING}\s*+
    (?: (?:functions\.)? (?P<numbered>[\w.-]+?) (?: :\d+ )? \s*+ <[|｜]tool[▁_]call[▁_]argument[▁_]begin[|｜]>
      | function <[|｜]tool[▁_]sep[|｜]> (?P<typed>[\w.-]+) \s*+ ```json
      | (?P<plain>[\w.-]+) <[|｜]tool[▁_]sep[|｜]> )
    \s*+ (?=\{{)""",
    re.VERBOSE,
)
_end = re.compile(r"(?:\s|```)*+(?:<[|｜]tool[▁_]call[▁_]end[|｜]>)?")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """One call.

    Raises:
        UnreadableError: it breaks off, or is written in another way.
    """
    call = _call.match(text, opening.start())
    if call is None:
        raise UnreadableError
    args, end = read_object(text, call.end())
    closing = _end.match(text, end)
    name = call["numbered"] or call["typed"] or call["plain"]
    return Found(opening.start(), closing.end() if closing else end, (ToolCall(name, args),))


FAMILY = Family(_OPENING, read)
