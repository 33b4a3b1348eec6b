"""How far sessions are in a recording in Redis, for all processes that answer their calls.

`{p}:pos:<session>` is a hash of the ids that a session was served, and its epoch. `{p}:log:<session>` has the changes.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.scripts import BASE, Script
from offbook.recording.stores.store import Claim

POSITION_TTL_S = 3600
"""After how many seconds without a call a session starts from the beginning."""

CHANGES_BATCH = 1000

_POSITION = """
local used, log = base .. 'pos:' .. ARGV[1], base .. 'log:' .. ARGV[1]
"""

CLAIM = Script(
    BASE
    + _POSITION
    + f"""
local epoch, read = redis.call('HGET', used, 'epoch'), tonumber(ARGV[4])
if not epoch then
  epoch = ARGV[5]
  redis.call('DEL', log)
  redis.call('HSET', used, 'epoch', epoch)
end
local is_current = epoch == ARGV[3] or ARGV[3] == ''
if not is_current then read = 0 end
local changes = redis.call('LRANGE', log, read, read + {CHANGES_BATCH} - 1)
if #changes == {CHANGES_BATCH} then is_current = false end
for _, change in ipairs(changes) do
  if string.sub(change, 1, 1) == '-' then is_current = false end
end
local claimed = ''
for at = 6, is_current and #ARGV or 0 do
  if redis.call('HSETNX', used, ARGV[at], 1) == 1 then
    claimed = ARGV[at]
    redis.call('RPUSH', log, claimed)
    changes[#changes + 1] = claimed
    break
  end
end
redis.call('PEXPIRE', used, ARGV[2])
redis.call('PEXPIRE', log, ARGV[2])
return {{epoch, claimed, changes}}
"""
)
"""Serve the first of some exchanges that a session was not served yet, unless the caller must first read that others
were given back.

ARGV: session, ttl in ms, the epoch that the caller knows, how many changes it has read, the epoch if it is new, ids.

Returns the epoch, the id (empty if there is none), and the changes that follow: ids, those given back with a minus.
"""

GIVE_BACK = Script(
    BASE
    + _POSITION
    + """
if redis.call('HGET', used, 'epoch') == ARGV[2] and redis.call('HDEL', used, ARGV[3]) == 1 then
  redis.call('RPUSH', log, '-' .. ARGV[3])
end
"""
)
"""Let another call of a session have an exchange. ARGV: session, epoch, id."""


class RedisPosition:
    """The position of a session: which exchanges were served, and a log of the changes, of which each process reads
    what it has not read. A claim is one round trip, or more if there are more than 1,000 changes to read."""

    def __init__(self, connection: RedisConnection, *, group: str, session: str) -> None:
        self._connection = connection
        self._name = blake2b(f"{group}\0{session}".encode(), digest_size=16).hexdigest()
        self._epoch, self._read = b"", 0

    def claim(self, *ids: int) -> Claim:
        claim = self._claim_once(ids)
        while claim.id is None and len(claim.changes) % CHANGES_BATCH == 0 and claim.changes:
            more = self._claim_once(ids)
            changes = more.changes if more.is_restarted else claim.changes + more.changes
            claim = Claim(more.id, changes, claim.is_restarted or more.is_restarted)
        return claim

    def give_back(self, served: int) -> None:
        self._connection.run(GIVE_BACK, self._name, self._epoch, served)

    def _claim_once(self, ids: tuple[int, ...]) -> Claim:
        """Claim, unless there are more changes to read than one answer has."""
        known, arguments = self._epoch, (self._name, _TTL_MS, self._epoch, self._read, secrets.token_hex(8))
        self._epoch, claimed, changes = self._connection.run(CLAIM, *arguments, *ids)
        is_restarted = known not in (b"", self._epoch)
        self._read = (0 if is_restarted else self._read) + len(changes)
        return Claim(int(claimed) if claimed else None, [int(change) for change in changes], is_restarted)


_TTL_MS = POSITION_TTL_S * 1000
