"""Tokens that stand around answers and calls and say nothing themselves."""

from __future__ import annotations

import re
from collections.abc import Collection

from offbook.agent.rescue.found import Family, Found, UnreadableError

_OPENING = (
    r"<\|(?:im_start|start_header_id|start)\|>\s*+\w*+(?:<\|end_header_id\|>)?"
    r"|<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|\[/TOOL_CALLS\]"
    r"|</(?:[a-z]{1,20}:|｜DSML｜)?(?:tool_calls?|function_calls?|functioncall|tools)>"
)
_other_speaker = re.compile(r"<\|(?:im_start|start_header_id|start)\|>\s*+(?!assistant)\w")


def read(text: str, opening: re.Match[str], tools: Collection[str]) -> Found:
    """The token.

    Raises:
        UnreadableError: it starts the words of somebody else, which the model made up.
    """
    if _other_speaker.match(text, opening.start()):
        raise UnreadableError
    return Found(opening.start(), opening.end())


FAMILY = Family(_OPENING, read)
