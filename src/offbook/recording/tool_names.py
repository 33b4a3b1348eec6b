"""The names of the tools that a recording shows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store


class RecordedToolNames(Struct, frozen=True):
    """The tools of a recording: `called` are those that answers ask for or that were recorded, in order.

    `offered` are those that requests offer to the model.
    """

    called: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()

    @property
    def known(self) -> frozenset[str]:
        return frozenset((*self.called, *self.offered))


def recorded_tool_names(location: str | os.PathLike[str]) -> RecordedToolNames:
    """Return the tools of a recording, or of all recordings in a folder.

    Raises:
        InputError: a recording cannot be read.
    """
    documents = _documents(location)
    offered = [name for document in documents for _, exchange in document for name in _offered(exchange)]
    return RecordedToolNames(_called(documents), tuple(dict.fromkeys(offered)))


def called_tool_names(location: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the `called` tools alone, without a look into the requests. Raises like `recorded_tool_names`."""
    return _called(_documents(location))


def _documents(location: str | os.PathLike[str]) -> list[Document]:
    text = os.fspath(location)
    is_folder = "://" not in text and Path(text).is_dir()
    files: Iterable[str | os.PathLike[str]] = sorted(Path(text).rglob("*.json")) if is_folder else [location]
    return [open_store(file).load() for file in files]


def _called(documents: Sequence[Document]) -> tuple[str, ...]:
    asked = [call.name for document in documents for _, each in document for call in each.tool_calls or ()]
    recorded = [tool for document in documents for tool in document.tools]
    return tuple(dict.fromkeys([*asked, *recorded]))


def _offered(exchange: Exchange) -> Iterator[str]:
    for tool in (exchange.request_fields() or {}).get("tools") or ():
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield function["name"]
