"""How far sessions are in a recording in Redis, for all processes that answer their calls."""

from __future__ import annotations

import secrets
from hashlib import blake2b

from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.scripts import CHANGES_BATCH, CLAIM, GIVE_BACK
from offbook.recording.stores.store import Claim

POSITION_TTL_S = 3600
"""After how many seconds without a call a session starts from the beginning."""


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
