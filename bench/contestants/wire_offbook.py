"""Ours as a server: `offbook serve`."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Raw

from bench.contestants.wire_server import PIECE, PIECES, Case, WireContestant
from bench.library import Library, Spec
from bench.workload import request_of, response_of
from offbook.messages import TextDelta
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import TimedFrame, WireRecord
from offbook.recording.match.fingerprint import identify
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS


class OffbookServer(WireContestant):
    """Serves a recording, strictly, and prints nothing about its calls; in so many processes."""

    name = "offbook"

    def __init__(self, library: Library, *, processes: int = 1) -> None:
        self._library, self._processes = library, processes

    def command(self, case: Case) -> list[str]:
        recording = _stream(self._library.folder, case) if case.is_stream else self._json(case)
        command = str(Path(sys.executable).with_name("offbook"))
        return [command, "serve", "--replay", recording, "--quiet", "--json", "-o", f"processes={self._processes}"]

    def _json(self, case: Case) -> str:
        return self._library.json(Spec(case.size, "fingerprint"))


def _stream(folder: Path, case: Case) -> str:
    """A recording of one stream, frame by frame as it came."""
    path = folder / "wire-stream.json"
    call, codec = case.call(0), CODECS["openai_chat"]
    request_hash, fields = identify(request_of(call))
    message = codec.encode_stream(response_of(call), [TextDelta(PIECE)] * PIECES)
    frames: list[TimedFrame] = [
        (0.5 * number, frame.decode()) for number, frame in enumerate(message) if b'"choices":[]' not in frame
    ]
    wire = WireRecord(protocol=codec.name, headers={"content-type": codec.stream_type}, frames=frames)
    document = Document()
    document.add(request_hash, Exchange(content=call.answer, request_hash=request_hash, request=Raw(fields), wire=wire))
    open_store(path).save(document)
    return str(path)
