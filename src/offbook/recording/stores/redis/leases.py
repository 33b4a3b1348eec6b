"""Locks and leases in Redis: one process has each, keeps it while it lives, and loses it when it dies."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from offbook.clock import pauses_until
from offbook.errors import InputError
from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.scripts import ACQUIRE, RELEASE, RENEW
from offbook.recording.stores.store import log_warning

LEASE_S = 10.0
"""After how many seconds the lease of a dead process is free."""

MAX_HELD_S = 1800.0
"""A lease that is held for longer is not renewed: whoever holds it has forgotten it."""


class Leases:
    """What this process holds of a recording. A thread renews it as long as it holds anything."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._guard = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.token = secrets.token_hex(8)
        self._process = os.getpid()
        self._held_since_s: dict[str, float] = {}
        self._renewer: threading.Thread | None = None

    def acquire(self, name: str) -> bool:
        """Take a lease, and return whether it was free. Nobody has it twice, not in this process either.

        Raises:
            InputError: the server cannot be reached.
        """
        with self._guard:
            if self._process != os.getpid():
                self._reset()
            if name in self._held_since_s or not self._connection.run(ACQUIRE, name, self.token, _MS):
                return False
            self._held_since_s[name] = time.monotonic()
            if self._renewer is None or not self._renewer.is_alive():
                self._renewer = threading.Thread(target=self._renew, name="offbook-leases", daemon=True)
                self._renewer.start()
            return True

    def release(self, name: str) -> None:
        """Give a lease back. Without effect if it is not ours any more.

        Raises:
            InputError: the server cannot be reached; the lease ends by itself.
        """
        if self.forget(name):
            self._connection.run(RELEASE, name, self.token)

    def forget(self, name: str) -> bool:
        """Stop renewing a lease, and return whether we had it."""
        with self._guard:
            return self._held_since_s.pop(name, None) is not None

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Wait for a lease, and hold it while the block runs."""
        for pause_s in pauses_until(lambda: self.acquire(name)):
            time.sleep(pause_s)
        try:
            yield
        finally:
            self.release(name)

    def _renew(self) -> None:
        while True:
            time.sleep(LEASE_S / 3)
            with self._guard:
                since_s = time.monotonic() - MAX_HELD_S
                names = [name for name, held_since_s in self._held_since_s.items() if held_since_s > since_s]
                if not names:
                    self._renewer = None
                    return
            try:
                self._connection.run(RENEW, self.token, _MS, *names)
            except InputError as error:
                log_warning("offbook.recording", "%s: a lease could not be renewed: %s", error.source, error.reason)


_MS = int(LEASE_S * 1000)
