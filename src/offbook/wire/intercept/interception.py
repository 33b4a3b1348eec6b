"""What a run intercepts, who may use its proxy, and what became of the connections that were made through it."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from offbook.wire.intercept.authority import Authority
from offbook.wire.intercept.client_process import proxy_user
from offbook.wire.intercept.hosts import InterceptedHosts
from offbook.wire.server.access import is_loopback_name

DEFAULT_USER = "offbook"
"""The user name of the session without a name."""

Decision = Literal["answer", "pass", "refuse"]


class NetworkTally(Struct, frozen=True):
    """How often connections to each host were passed, refused, or ended because the client does not trust us."""

    passed: dict[str, int]
    refused: dict[str, int]
    distrusted: dict[str, int]


class Interception:
    """What the proxy of one run does with the connections of its programs.

    Requests to `hosts` are answered, in TLS by certificates of an authority that is made here; None answers none. Other
    connections pass untouched, or are refused if it `blocks_network`; this machine stays reachable. `environment` may
    name a proxy that others pass through. The counters name hosts, with their ports: `passed`, `refused`, and
    `distrusted`, whose clients did not accept our certificate.

    Raises:
        InputError: a package is missing.
    """

    def __init__(
        self,
        hosts: InterceptedHosts | None,
        *,
        blocks_network: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.hosts, self.blocks_network, self.environment = hosts, blocks_network, dict(environment or {})
        self.authority = None if hosts is None else Authority()
        self.token = secrets.token_urlsafe(24)
        self.passed, self.refused, self.distrusted = Counter[str](), Counter[str](), Counter[str]()

    @property
    def tally(self) -> NetworkTally:
        """What became of the connections so far."""
        return NetworkTally(dict(self.passed), dict(self.refused), dict(self.distrusted))

    def decide(self, host: str, port: int) -> Decision:
        """Say what happens to a connection to a host, and count it unless it is answered."""
        if self.hosts is not None and self.hosts.matches(host, port):
            return "answer"
        if self.blocks_network and not is_loopback_name(host):
            self.refused[f"{host}:{port}"] += 1
            return "refuse"
        self.passed[f"{host}:{port}"] += 1
        return "pass"

    def session_of(self, credentials: str, *, client: tuple[str, int], server: tuple[str, int]) -> str | None:
        """Return the session of a client of this run; None if it is not one.

        It proves that by its `credentials`, a `proxy-authorization`. A client without any, like Java's, is known by
        its process, which has our token in its environment.
        """
        if not credentials:
            known = proxy_user(self.token, client=client, server=server)
            return None if known is None else _session_name(known)
        scheme, _, encoded = credentials.partition(" ")
        try:
            user, _, token = b64decode(encoded.strip(), validate=True).decode().partition(":")
        except ValueError:
            return None
        if scheme.lower() != "basic" or not hmac.compare_digest(unquote(token).encode(), self.token.encode()):
            return None
        return _session_name(user)


def _session_name(user: str) -> str:
    return "" if user == DEFAULT_USER else unquote(user)
