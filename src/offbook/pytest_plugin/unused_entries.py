"""Entries of a recording that its test did not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offbook.wording import counted

if TYPE_CHECKING:
    from offbook.recording.cursor import Unused

MAX_SHOWN = 10


def fail_if_unused(unused: list[Unused], recording: str) -> None:
    """Fail the test that is running if it left something unused."""
    __tracebackhide__ = True
    if unused:
        left = shown(named(unused))
        told = f"{counted(len(unused), 'entry', 'entries')} not used"
        hint = "remove what is stale, or record the test again"
        pytest.fail(f"{recording}: {told}: {left}\n  hint: {hint}", pytrace=False)


def named(unused: list[Unused]) -> list[str]:
    """The entries by their keys, of which fingerprints are cut, and their places in the keys' lists."""
    from offbook.recording.keys import short  # noqa: PLC0415 - this module is loaded with pytest

    return [f"{short(each.key)}[{each.position}]" for each in unused]


def shown(entries: list[str]) -> str:
    """The first entries, on one line."""
    return ", ".join(entries[:MAX_SHOWN]) + (", …" if len(entries) > MAX_SHOWN else "")
