"""What is easily overlooked in a command: options of offbook behind the program, and a config that is not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from offbook.settings import CONFIG_FILE, find_project, settings_of

COMMON_FLAGS = frozenset(("--json", "--model", "--quiet", "--report", "--seed", "--workers", "-q"))
"""Flags that many programs have themselves."""


def command_notes(command: Sequence[str], kind: type[Struct], *, name: str, reads_config: bool = True) -> Iterator[str]:
    """Yield what to say about the command of `offbook NAME`, whose options are of this kind.

    It `reads_config` unless another than the nearest is named.
    """
    if any(Path(word).name == "offbook" for word in command):
        return
    flags = {flag for setting in settings_of(kind).values() for flag in setting.flags} - COMMON_FLAGS
    if behind := [word for word in command[1:] if word.partition("=")[0] in flags]:
        yield f"the program gets {' and '.join(behind)}; options of offbook {name} come before the command"
    if reads_config and (unread := _unread_config(command)) is not None:
        yield f"{unread} is not read: a config is looked for in the working folder, and above it"


def _unread_config(command: Sequence[str]) -> Path | None:
    """Return the config beside the script of a command, if the working folder has another, or none."""
    script = next((Path(word) for word in command if _is_script(word)), None)
    beside = None if script is None else script.parent / CONFIG_FILE
    if beside is None or not beside.is_file():
        return None
    found = find_project()
    return beside if found is None or Path(found.source).resolve() != beside.resolve() else None


def _is_script(word: str) -> bool:
    try:
        return bool(Path(word).suffix) and Path(word).is_file()
    except (OSError, ValueError):  # it is the text of a program, or another one that no file can have as its name
        return False
