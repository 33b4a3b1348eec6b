"""The connection to a Redis server: opened on demand, and safe across forks and threads."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from offbook.clock import polling_pauses_s
from offbook.errors import InputError, RecordingFormatError, RecordingUnavailableError
from offbook.recording.stores.redis.location import PASSWORD_VARIABLE, RedisLocation
from offbook.recording.stores.redis.scripts import LOCKED, LuaScript
from offbook.recording.stores.store import ForkGuarded
from offbook.text import mask_password

T = TypeVar("T")

IDLE_CHECK_S = 10
"""The idle time after which a connection is checked before use, because servers close idle ones."""

LOCK_WAIT_S = 60.0


def import_redis() -> Any:
    """Import redis-py.

    Raises:
        InputError: it is not installed.
    """
    try:
        import redis  # noqa: PLC0415 - an extra, and only recordings in Redis need it
    except ImportError as error:
        from offbook.installed import install_hint  # noqa: PLC0415

        raise InputError("redis is not installed", source="redis://", hint=install_hint("redis")) from error
    return redis


class RedisConnection(ForkGuarded):
    """A connection to the server of a location, closed before a fork and reopened on demand.

    A command is sent once. After a failure it is not repeated, because it may have been executed.
    """

    def __init__(self, location: RedisLocation) -> None:
        super().__init__()
        self.location, self.source = location, mask_password(location.text)
        self._meta = self._key("")
        self._redis = import_redis()
        self._client: Any = None
        self._disconnect: Callable[[], object] = _nothing

    def run(self, script: LuaScript, *arguments: Any, stage: str = "") -> Any:
        """Run a script with the keys of the recording, or of its stage, and return its result.

        Waits while another process edits the recording.

        Raises:
            InputError: the server cannot be reached, or refuses; nothing is written.
        """
        key, deadline_s, pauses_s = self._key(stage) if stage else self._meta, None, None
        while True:
            try:
                with self.guard:
                    return self._evaluate(self._connect(), script, key, arguments)
            except self._redis.exceptions.RedisError as error:
                if not str(error).startswith(LOCKED):
                    raise self._translate(error) from None
            pauses_s = pauses_s or polling_pauses_s()
            deadline_s = deadline_s or time.monotonic() + LOCK_WAIT_S
            if time.monotonic() > deadline_s:
                reason, hint = "another process edits the recording", "wait until it has ended"
                raise RecordingUnavailableError(reason, source=self.source, hint=hint)
            time.sleep(next(pauses_s))

    def run_each(self, script: LuaScript, calls: Sequence[Sequence[Any]], *, stage: str) -> None:
        """Run a script several times in one round trip.

        Raises:
            InputError: the server cannot be reached, or refuses; some may have been run.
        """

        def send(client: Any) -> None:
            client.execute_command("SCRIPT LOAD", script.text)
            with client.pipeline(transaction=False) as pipeline:
                for arguments in calls:
                    pipeline.execute_command("EVALSHA", script.digest, 1, self._key(stage), *arguments)
                pipeline.execute()

        self.call(send)

    def call(self, work: Callable[[Any], T]) -> T:
        """Call `work` with the client, and translate its errors.

        Raises:
            InputError: the server cannot be reached, or refuses.
        """
        try:
            with self.guard:
                return work(self._connect())
        except self._redis.exceptions.RedisError as error:
            raise self._translate(error) from None

    def close(self) -> None:
        """Close the connection. It is opened again when needed."""
        with self.guard:
            self._disconnect()
            self._client, self._disconnect = None, _nothing

    def _evaluate(self, client: Any, script: LuaScript, key: str, arguments: Sequence[Any]) -> Any:
        try:
            return client.execute_command("EVALSHA", script.digest, 1, key, *arguments)
        except self._redis.exceptions.NoScriptError:
            return client.execute_command("EVAL", script.text, 1, key, *arguments)

    def _key(self, stage: str) -> str:
        """The key that names the recording. Its braces keep all keys of a recording on one node of a cluster."""
        return f"{{{self.location.prefix}}}:{stage}meta"

    def _connect(self) -> Any:
        if self._client is None:
            at = self.location
            tls = {"ssl_ca_certs": at.ca or None, "ssl_certfile": at.cert or None, "ssl_keyfile": at.key or None}
            client = self._redis.Redis(
                host=at.host,
                port=at.port,
                db=at.database,
                username=at.username or None,
                password=at.password or os.environ.get(PASSWORD_VARIABLE) or None,
                ssl=at.has_tls,
                socket_timeout=at.timeout_s,
                socket_connect_timeout=at.timeout_s,
                retry=self._redis.retry.Retry(self._redis.backoff.NoBackoff(), 0),
                health_check_interval=IDLE_CHECK_S,
                single_connection_client=True,
                client_name="offbook",
                **(tls if at.has_tls else {}),
            )
            self._client, self._disconnect = client, weakref.finalize(self, client.close)
        return self._client

    def _translate(self, error: Exception) -> InputError:
        """Return the error for a redis-py error, whose own text may contain the password."""
        reason = mask_password(str(error)).partition("\n")[0]
        signs = {each.__name__ for each in type(error).__mro__}
        if self.location.has_tls and "reset by peer" in reason:  # all that some servers and Pythons show of a refusal
            signs.add(_NO_TLS)
        for sign, kind, text, hint in _KNOWN_ERRORS:
            if sign in reason or sign in signs:
                return kind(text.format(reason=reason, at=self.location), source=self.source, hint=hint)
        return InputError(f"the server refuses: {reason}", source=self.source, hint=_USER_HINT)


_NO_TLS = "_ssl.c"
_USER_HINT = "check the user, the password and the database in the URL"
_SERVER_HINT = "check that the server runs, host, port and timeout= in the URL, and whether it wants TLS: rediss://"
_KNOWN_ERRORS: tuple[tuple[str, type[InputError], str, str], ...] = (
    (
        "WRONGTYPE",
        RecordingFormatError,
        "not a recording: a key of another type is in its place",
        "name another prefix= or another database",
    ),
    (
        "used memory > 'maxmemory'",
        RecordingUnavailableError,
        "the server is out of memory",
        "raise its maxmemory, record with ttl= so that exchanges expire, or remove an unused recording",
    ),
    ("READONLY", InputError, "the server is a read-only replica", "name the primary"),
    ("MovedError", InputError, "another node of the cluster has it", "name the node that has the prefix"),
    ("AuthenticationError", InputError, "the server refuses the user or the password", _USER_HINT),
    ("NoPermissionError", InputError, "the user may not do that: {reason}", _USER_HINT),
    (
        "CERTIFICATE_VERIFY_FAILED",
        RecordingUnavailableError,
        "the certificate of the server is not trusted: {reason}",
        "name the authority that has signed it: ca=/path/ca.pem",
    ),
    (
        _NO_TLS,
        RecordingUnavailableError,
        "no TLS with the server: {reason}",
        "check the port, and whether the server wants a certificate: cert=/path/me.pem&key=/path/me.key; or use redis://",
    ),
    ("TimeoutError", RecordingUnavailableError, "no answer from the server in {at.timeout_s:g} s", _SERVER_HINT),
    ("ConnectionError", RecordingUnavailableError, "no connection to the server: {reason}", _SERVER_HINT),
)
"""The meanings of texts and classes of redis-py errors. The first that fits counts."""


def _nothing() -> None:
    """Do nothing, because there is no connection to close."""
