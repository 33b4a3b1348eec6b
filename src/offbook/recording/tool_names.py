"""The tools of a recording: the called ones, and the ones offered to its models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from offbook.messages import JsonObject
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.stores.locate import open_store

STEERING_TOOLS = frozenset(("exit_loop", "final_answer", "final_result", "set_model_response", "transfer_to_agent"))
"""Framework tools that end or redirect a run. They are never taken over or recorded."""

# Pydantic AI, and the agents SDK of OpenAI, in any version and language.
_STEERING = re.compile(
    r"The final response which ends this conversation|^Handoff to the .+ agent to handle the request"
)


def is_steering(function: JsonObject) -> bool:
    """Return whether an offered tool ends or redirects a framework's run, and changes nothing."""
    return _STEERING.search(str(function.get("description") or "")) is not None


class RecordedToolNames(Struct, frozen=True):
    """The tools of a recording: `called` are those that answers request, also in their text, or that were recorded, in
    order.

    `offered` are those that requests offer to the model. `arguments` are the names of a tool's arguments, from its
    schemas and from requested calls.
    """

    called: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    arguments: dict[str, set[str]] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        return frozenset((*self.called, *self.offered))


def recorded_tool_names(location: str | os.PathLike[str]) -> RecordedToolNames:
    """Return the tools of a recording, or of all recordings in a folder.

    Raises:
        InputError: a recording cannot be read.
    """
    documents = _documents(location)
    exchanges = [exchange for document in documents for _, exchange in document]
    offered = [function for exchange in exchanges for function in _offered(exchange)]
    arguments: dict[str, set[str]] = {}
    for function in offered:
        arguments.setdefault(function["name"], set()).update(_properties(function))
    for call in (call for exchange in exchanges for call in exchange.tool_calls or ()):
        given = call.arguments if isinstance(call.arguments, dict) else {}
        arguments.setdefault(call.name, set()).update(given)
    return RecordedToolNames(_called(documents), tuple(dict.fromkeys(each["name"] for each in offered)), arguments)


def called_tool_names(location: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the `called` tools alone, without a look into the requests. Raises like `recorded_tool_names`."""
    return _called(_documents(location))


def steering_tool_names(location: str | os.PathLike[str]) -> frozenset[str]:
    """Return the offered tools that end or redirect a run. Raises like `recorded_tool_names`."""
    exchanges = (exchange for document in _documents(location) for _, exchange in document)
    return frozenset(each["name"] for exchange in exchanges for each in _offered(exchange) if is_steering(each))


def answered_tool_names(location: str | os.PathLike[str]) -> frozenset[str]:
    """Return the tools with recorded results. Raises like `recorded_tool_names`."""
    return frozenset(tool for tool, _ in _tool_entries(location))


def replayable_tool_names(location: str | os.PathLike[str]) -> frozenset[str]:
    """Return the tools whose recorded results can all be rebuilt. Raises like `recorded_tool_names`."""
    entries = list(_tool_entries(location))
    opaque = {tool for tool, exchange in entries if exchange.is_opaque}
    return frozenset(tool for tool, _ in entries if tool not in opaque)


def _tool_entries(location: str | os.PathLike[str]) -> Iterator[tuple[str, ToolExchange]]:
    for document in _documents(location):
        for tool, entry in document.tools.items():
            if not is_mcp_key(tool):
                yield from ((tool, each) for each in (entry if isinstance(entry, list) else [entry]))


def _documents(location: str | os.PathLike[str]) -> list[Document]:
    text = os.fspath(location)
    is_folder = "://" not in text and Path(text).is_dir()
    files: Iterable[str | os.PathLike[str]] = sorted(Path(text).rglob("*.json")) if is_folder else [location]
    return [open_store(file).load() for file in files]


def _called(documents: Sequence[Document]) -> tuple[str, ...]:
    asked = [name for document in documents for _, each in document for name in _asked(each)]
    recorded = [tool for document in documents for tool in document.tools if not is_mcp_key(tool)]
    return tuple(dict.fromkeys([*asked, *recorded]))


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
