"""A recording in Redis as a cache of many processes: what it has now, and leases on calls."""

from __future__ import annotations

from functools import cached_property

from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.leases import Leases
from offbook.recording.stores.redis.location import RedisLocation
from offbook.recording.stores.redis.reader import RedisReader
from offbook.recording.stores.redis.store import RedisWriter

_LEASE = "lease:"


class RedisSharedCalls:
    """The exchanges under a prefix, and a lease for each call that some process is making."""

    def __init__(self, location: RedisLocation) -> None:
        self._connection = RedisConnection(location)
        self._leases = Leases(self._connection)
        self.goes_on_live = location.on_error == "live"

    @cached_property
    def reader(self) -> RedisReader:
        return RedisReader(self._connection)

    @cached_property
    def _writer(self) -> RedisWriter:
        return RedisWriter(self._connection)

    def acquire(self, call: str) -> bool:
        return self._leases.acquire(f"{_LEASE}{call}")

    def append(self, key: str, exchange: Exchange, *, call: str) -> None:
        self._writer.append_call(key, exchange, lease=call, token=self._leases.token)
        self._leases.forget(f"{_LEASE}{call}")

    def append_tool(self, tool: str, exchange: ToolExchange, *, call: str) -> int:
        number = self._writer.append_tool_call(tool, exchange, lease=call, token=self._leases.token)
        self._leases.forget(f"{_LEASE}{call}")
        return number

    def release(self, call: str) -> None:
        self._leases.release(f"{_LEASE}{call}")

    def close(self) -> None:
        self._connection.close()
