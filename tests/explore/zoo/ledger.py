"""What tools really did, written by the tools themselves to a file that the explorer does not know."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

VARIABLE = "ZOO_LEDGER"

Entry: TypeAlias = tuple[str, str]
"""A tool and its arguments as JSON."""


def note(tool: str, **arguments: Any) -> None:
    """Write an effect down, if somebody keeps a ledger."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        with Path(path).open("a") as ledger:
            ledger.write(json.dumps({"tool": tool, "arguments": arguments, "run": os.getpid()}) + "\n")


class Ledger:
    """The file. `take` returns what was written since the last time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def take(self) -> list[Entry]:
        lines = self.path.read_text().splitlines()
        self.path.write_text("")
        effects = [json.loads(line) for line in lines]
        return [(each["tool"], json.dumps(each["arguments"], sort_keys=True)) for each in effects]


PREVENTS = {
    *("tool_error", "tool_timeout", "mcp_error", "server_exit", "unauthorized", "session_gone", "tools_changed"),
    *("input_required_forever", "task_stuck"),
}
"""The faults of calls that never reach a tool."""


def would_do(
    calls: Sequence[Entry], faults: Sequence[tuple[tuple[str, int], str]], read_only: Collection[str]
) -> list[Entry]:
    """Return what tools would have done for these calls, if these faults, as pairs of a call and the name of the fault,
    came between."""
    counts: Counter[str] = Counter()
    done: list[Entry] = []
    gone: set[str] = set()
    for tool, arguments in calls:
        counts[tool] += 1
        fault = next((name for at, name in faults if at == (tool, counts[tool])), "")
        gone |= {tool} if fault == "tools_changed" else set()
        if tool not in gone and fault not in PREVENTS and tool not in read_only:
            done.append((tool, arguments))
    return done


def balance(entries: Sequence[Entry], undoes: Mapping[str, str]) -> Counter[Entry]:
    """Return the effects that are left: what one tool has undone of another is gone, both of them."""
    left: list[Entry] = []
    for tool, arguments in entries:
        undone = next((each for each in reversed(left) if each[0] == undoes.get(tool)), None)
        if undone is None:
            left.append((tool, arguments))
        else:
            left.remove(undone)
    return Counter(left)
