"""A connection that answers where it stands: what is due at once needs no task, and leaves in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from offbook.wire.begun import BEGUN, Begun
from offbook.wire.connection import Connection
from offbook.wire.http_call import HttpCall

MAX_HELD_BYTES = 1024 * 1024


class DirectConnection(Connection, asyncio.BufferedProtocol):
    """Holds a call until all of it has come, and has it begun. An answer that is due at once is sent there and then.

    All else is handed to the application: what was begun already, and calls that are no plain POST, are large, or
    come before an earlier one is answered.

    `buffer` is what connections of one loop read into, one after the other; a new one for each read would cost more
    than all that is done with what was read.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        loop: asyncio.AbstractEventLoop | None,
        *,
        begin: Callable[[HttpCall], Begun | None],
        buffer: memoryview,
    ) -> None:
        super().__init__(config, server_state, {}, loop)
        self._begin, self._buffer = begin, buffer
        self._is_held = False
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    @property
    def is_in_body(self) -> bool:
        return self._is_held or super().is_in_body

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def on_head(self) -> None:
        if self._may_be_held():
            self.scope["method"] = "POST"
            self._is_held = True
            self._pieces, self._held_bytes = [], 0
        else:
            super().on_head()

    def on_body(self, body: bytes) -> None:
        if not self._is_held:
            super().on_body(body)
            return
        self._pieces.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > MAX_HELD_BYTES:
            self._hand_over()

    def on_message_complete(self) -> None:
        if self._is_held:
            begun = self._begin(self._call())
            data = None if begun is None or begun.answer is None else begun.answer.at_once
            if data is not None and not self.flow.write_paused:
                self._is_held = False
                self.transport.write(data)
                return
            self.scope[BEGUN] = begun  # type: ignore[literal-required]
            self._hand_over()
        super().on_message_complete()

    def _may_be_held(self) -> bool:
        is_idle = self.cycle is None or self.cycle.response_complete
        parser = self.parser
        is_plain = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        return is_idle and is_plain and not self.expect_100_continue

    def _call(self) -> HttpCall:
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        return HttpCall(
            "POST",
            unquote(path) if "%" in path else path,
            url.query.decode("latin-1") if url.query else "",
            {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers},
            self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces),
        )

    def _hand_over(self) -> None:
        """Leave the call to the application after all."""
        self._is_held = False
        super().on_head()
        if self._pieces:
            super().on_body(b"".join(self._pieces))
