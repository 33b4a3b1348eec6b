"""Printing in style, where there is a terminal that shows it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from offbook.wording import printable


def say(label: str, text: str, *, style: str = "bold", is_err: bool = False) -> None:
    """Print a styled label and the text behind it, without anything in them that a terminal could obey.

    Elsewhere than on a terminal, and with NO_COLOR, there are no colours.
    """
    told = Text.assemble((printable(label), style), printable(text))
    Console(stderr=is_err, soft_wrap=True, highlight=False).print(told)
