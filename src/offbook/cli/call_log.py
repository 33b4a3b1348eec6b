"""A line for each call that comes to a server."""

from __future__ import annotations

import logging
from contextlib import suppress
from queue import Full, Queue
from threading import Thread
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.text import Text

from offbook.wire.log import WireCall
from offbook.wording import printable

MAX_WAITING = 1_000
CLOSING_S = 0.3
STYLES = {"missed": "bold red", "refused": "bold red", "default": "yellow", "struck": "magenta"}
FAILED_STYLE = "bold red"


class CallLog(logging.Handler):
    """Writes a line a call to the error output, and what the server itself has to say.

    It writes on a thread of its own: a reader of the error output who is slow holds up no answer. Lines that nobody
    reads are dropped beyond a thousand. If quiet, calls are not told.
    """

    def __init__(self, *, is_quiet: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._is_quiet = is_quiet
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._lines: Queue[Text | None] = Queue(MAX_WAITING)
        self._thread = Thread(target=self._write, name="offbook-call-log", daemon=True)

    def on_call(self, call: WireCall) -> None:
        if not self._is_quiet:
            self._put(call_line(call))

    def emit(self, record: logging.LogRecord) -> None:
        self._put(Text(printable(self.format(record)), style="red"))

    def __enter__(self) -> Self:
        logging.getLogger("offbook.wire").addHandler(self)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.getLogger("offbook.wire").removeHandler(self)
        with suppress(Full):
            self._lines.put(None, timeout=CLOSING_S)
        self._thread.join(CLOSING_S)

    def _put(self, line: Text) -> None:
        with suppress(Full):
            self._lines.put_nowait(line)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            self._console.print(line)


def call_line(call: WireCall) -> Text:
    """`POST /v1/chat/completions 200 served gpt-4o`, with the try, the fault, the session and how the real API failed,
    where there are such."""
    status = "no answer" if call.status is None else str(call.status)
    more = [
        call.model,
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        f"fault {call.fault}" if call.fault else "",
        f"session {call.session}" if call.session else "",
        f"failed: {call.failure}" if call.failure else "",
    ]
    style = FAILED_STYLE if call.failure else STYLES.get(call.outcome, "green")
    told = "".join(f"  {part}" for part in more if part)
    return Text.assemble(
        printable(f"{call.method} {call.place}  {status}  "), (call.outcome, style), printable(told).replace("\n", " ")
    )
