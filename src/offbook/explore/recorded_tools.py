"""The tools of explored runs, answered from the recording where that has calls of tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offbook.errors import RecordingMismatchError
from offbook.explore.divergence import STOP, Divergence
from offbook.messages import JsonObject
from offbook.recording.cursor import Cursor, Match
from offbook.recording.json_form import json_arguments
from offbook.recording.script import Prompter, Script
from offbook.recording.stores.store import Row
from offbook.recording.tool_error import error_of
from offbook.recording.tool_exchange import ToolExchange, hash_of
from offbook.recording.tool_miss import tool_mismatch_error
from offbook.tools import ToolDef


class RecordedTools:
    """A recording of tools that many runs are answered from. The first run is the clean one and writes the script."""

    def __init__(self, row: Row[ToolExchange], divergence: Divergence = STOP) -> None:
        self.row, self.divergence = row, divergence
        self.script: Script[ToolExchange] = Script()

    @property
    def is_empty(self) -> bool:
        return len(self.row) == 0

    def clean(self) -> ExploredTools:
        """Tools for the clean run: a strict replay."""
        return ExploredTools(self, prompter=None)

    def again(self) -> ExploredTools:
        """Tools for a run with faults: a call that is made again has its recorded result again."""
        return ExploredTools(self, prompter=self.script.prompter())


class ExploredTools:
    """Answers the calls of tools of one run. `on_diverged` is told why a call has no recorded result.

    `on_end` is told of the refusal that ends the run.
    """

    def __init__(self, recorded: RecordedTools, *, prompter: Prompter[ToolExchange] | None) -> None:
        self._recorded, self._prompter = recorded, prompter
        self._cursor: Cursor[ToolExchange] = Cursor(recorded.row)
        self.on_diverged: Callable[[str], object] = lambda _: None
        self.on_end: Callable[[RecordingMismatchError], object] = lambda _: None

    def answer(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """What the call gives. Raises the error that was recorded, if one was."""
        exchange = self._known(tool.name, json_arguments(arguments))
        if exchange is None:
            return self._recorded.divergence.default_response
        if exchange.error is not None:
            raise error_of(exchange.error, tool=tool)
        return exchange.answer

    def _known(self, tool: str, arguments: JsonObject) -> ToolExchange | None:
        asked = hash_of(arguments)
        known = None if self._prompter is None else self._prompter.take(tool, asked)
        if known is not None:
            return known
        match = self._cursor.match_key(tool, "step_id", asked) or Match("default", mismatch="missing")
        stored = match.stored
        if stored is not None and match.mismatch is None and (self._prompter is None or stored.fingerprint == asked):
            self._cursor.use(stored)
            learn = self._recorded.script.add if self._prompter is None else self._prompter.learn
            learn(tool, asked, stored.exchange)
            return stored.exchange
        refusal = tool_mismatch_error(tool, arguments, match, self._recorded.row)
        self.on_diverged(str(refusal))
        if self._prompter is None or self._recorded.divergence.policy != "default":
            self.on_end(refusal)
            raise refusal
        return None
