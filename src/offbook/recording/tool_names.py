"""The names of the tools that a recording shows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
    text = os.fspath(location)
    is_folder = "://" not in text and Path(text).is_dir()
    files: Iterable[str | os.PathLike[str]] = sorted(Path(text).rglob("*.json")) if is_folder else [location]
    documents = [open_store(file).load() for file in files]
    exchanges = [exchange for document in documents for _, exchange in document]
    called = [*(name for each in exchanges for name in _called(each)), *_recorded(documents)]
    offered = [name for each in exchanges for name in _offered(each)]
    return RecordedToolNames(tuple(dict.fromkeys(called)), tuple(dict.fromkeys(offered)))


def _called(exchange: Exchange) -> Iterator[str]:
    return (call.name for call in exchange.tool_calls or ())


def _recorded(documents: Iterable[Document]) -> Iterator[str]:
    return (tool for document in documents for tool in document.tools)


def _offered(exchange: Exchange) -> Iterator[str]:
    for tool in (exchange.request_fields() or {}).get("tools") or ():
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield function["name"]
