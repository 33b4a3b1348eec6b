"""The tools of a recording: those that were called, offered or answered, and what is known of a program's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from offbook.messages import JsonObject, tool_results
from offbook.recording.format.document import Document, RecordedProgram
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.stores.locate import open_store
from offbook.settings import ToolSettings

STEERING_TOOLS = frozenset(("exit_loop", "final_answer", "final_result", "set_model_response", "transfer_to_agent"))
"""Framework tools that end or redirect a run. They are never taken over or recorded."""

# Pydantic AI, and the agents SDK of OpenAI, in any version and language.
_STEERING = re.compile(
    r"The final response which ends this conversation|^Handoff to the .+ agent to handle the request"
)


def is_steering(function: JsonObject) -> bool:
    """Return whether an offered tool ends or redirects a framework's run, and changes nothing."""
    return _STEERING.search(str(function.get("description") or "")) is not None


class RecordedTools:
    """The names of the tools of a recording, or of all recordings in a folder.

    Raises:
        InputError: a recording cannot be read.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        text = os.fspath(location)
        is_folder = "://" not in text and Path(text).is_dir()
        files: Iterable[str | os.PathLike[str]] = sorted(Path(text).rglob("*.json")) if is_folder else [location]
        self._documents: list[Document] = [open_store(file).load() for file in files]
        known = [RecordedProgram.from_meta(each.meta, source=text) for each in self._documents]
        self.functions: dict[str, str] = {tool: at for each in known for tool, at in each.functions.items()}
        """Where a program's tools were that no framework announced, as `module:name`."""
        self._passed_on = {tool for each in known for tool in each.steering}

    @property
    def _exchanges(self) -> Iterator[Exchange]:
        return (exchange for document in self._documents for _, exchange in document)

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The tools that answers request, also in their text, or that were recorded, in order."""
        asked = [name for each in self._exchanges for name in _asked(each)]
        recorded = [tool for document in self._documents for tool in document.tools if not is_mcp_key(tool)]
        return tuple(dict.fromkeys([*asked, *recorded]))

    @cached_property
    def told(self) -> frozenset[str]:
        """The tools whose results recorded requests tell the model."""
        conversations = ((each.request_fields() or {}).get("messages") or () for each in self._exchanges)
        return frozenset(name for messages in conversations for name, _ in tool_results(messages))

    @property
    def known(self) -> frozenset[str]:
        """The tools that were called, or offered to a model."""
        return frozenset((*self.called, *(each["name"] for each in self._offered)))

    @property
    def answered(self) -> frozenset[str]:
        """The tools with recorded results."""
        return frozenset(tool for tool, _ in self._results())

    @property
    def replayable(self) -> frozenset[str]:
        """The tools whose recorded results can all be rebuilt."""
        return self.answered - {tool for tool, exchange in self._results() if exchange.is_opaque}

    @property
    def steering(self) -> frozenset[str]:
        """The tools that end or redirect a run, run another agent, or pass calls on to where they are recorded."""
        named = {each["name"] for each in self._offered if is_steering(each)}
        return frozenset(named | self._passed_on | (STEERING_TOOLS if self.answered else frozenset()))

    @cached_property
    def arguments(self) -> dict[str, set[str]]:
        """The names of each tool's arguments, from its schemas and from requested calls."""
        found: dict[str, set[str]] = {}
        for function in self._offered:
            found.setdefault(function["name"], set()).update(_properties(function))
        for call in (call for each in self._exchanges for call in each.tool_calls or ()):
            given = call.arguments if isinstance(call.arguments, dict) else {}
            found.setdefault(call.name, set()).update(given)
        return found

    @cached_property
    def _offered(self) -> list[JsonObject]:
        return [function for each in self._exchanges for function in _offered(each)]

    def _results(self) -> Iterator[tuple[str, ToolExchange]]:
        for document in self._documents:
            for tool, entry in document.tools.items():
                if not is_mcp_key(tool):
                    yield from ((tool, each) for each in (entry if isinstance(entry, list) else [entry]))


def with_recorded_functions(declared: Mapping[str, ToolSettings], recorded: RecordedTools) -> dict[str, ToolSettings]:
    """Return declared tools, and where the recorded ones were when they were taken over, unless that is declared."""
    found = dict(declared)
    for tool, place in recorded.functions.items():
        settings = found.get(tool, ToolSettings())
        found[tool] = replace(settings, function=settings.function or place)
    return found


# A text that asks for a tool has no other mark. Programs that act on it run their tools, and must not do so unannounced
# in every case of an exploration.
_ASKED_IN_TEXT = re.compile(
    r"^[ \t*]*Action:[ \t*]*([A-Za-z_][\w.-]*)[ \t]*(?:[\[(]|\n[ \t*]*Action Input:)"  # ReAct
    r"|^\[\[ ## next_tool_name ## \]\]\s*(?!finish\b)([A-Za-z_][\w.-]*)",  # DSPy, which calls the end of a run a tool
    re.MULTILINE,
)


def _asked(exchange: Exchange) -> list[str]:
    """Return the tools that an answer asks for: by calls, or in its text."""
    in_text = (name or other for name, other in _ASKED_IN_TEXT.findall(exchange.content))
    return [*(call.name for call in exchange.tool_calls or ()), *in_text]


def _offered(exchange: Exchange) -> Iterator[JsonObject]:
    for tool in (exchange.request_fields() or {}).get("tools") or ():
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield function


def _properties(function: JsonObject) -> list[str]:
    """Return the argument names in a tool's schema, or none."""
    schema = function.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []
