"""A mock that answers from a recording."""

from __future__ import annotations

import os
from typing import Any

from offbook.clock import SYSTEM_CLOCK
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.file import document_from_dict
from offbook.recording.latency import Latency
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.tool_replay import RecordingInput, ReplayedTools
from offbook.scenarios.mocks.mock import Mock, MockAnswer, MockContext
from offbook.tools import Toolbox, ToolDef, ToolSpec

NO_LATENCY = Latency("constant", latency_ms=0.0, seed=0)


class ReplayMock(Mock):
    """Answers as a tool did when it was recorded, from the recording's first call on in each conversation."""

    def __init__(self, document: Document, *, source: str, tool: str | None, strict: bool) -> None:
        self._document, self._source, self._tool, self._strict = document, source, tool, strict

    def start(self) -> MockAnswer:
        shelf = MemoryReader(self._document, source=self._source)
        replay = ReplayedTools(
            Toolbox(), shelf, strict=self._strict, default=None, latency=NO_LATENCY, clock=SYSTEM_CLOCK
        )

        def answer(args: JsonObject, context: MockContext) -> Any:
            name = context.tool if self._tool is None else self._tool
            return replay.answer(ToolDef(ToolSpec(name), answer), args)

        return answer


def replayed(recording: RecordingInput, tool: str | None = None, *, strict: bool = True) -> Mock:
    """A mock that answers with what a tool gave, or raised, when it was recorded.

    A call is answered by the first unused exchange that was recorded with the same arguments, or without any.

    Args:
        recording: a path, `sqlite:///path.db`, or the same document as a dict. It is read here, once.
        tool: the tool's name in the recording; by default that of the mock.
        strict: whether a call that nothing fits raises RecordingMismatchError. If not, it is answered with
            the next exchange of the tool, else the last one, else None, and a warning of one line.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """
    document, source = _read(recording)
    if strict:
        check_strict(document.version, source=source)
    return ReplayMock(document, source=source, tool=tool, strict=strict)


def _read(recording: RecordingInput) -> tuple[Document, str]:
    if isinstance(recording, str | os.PathLike):
        store = open_store(recording)
        return store.load(), store.location
    return recording if isinstance(recording, Document) else document_from_dict(
        recording, source="recording"
    ), "recording"
