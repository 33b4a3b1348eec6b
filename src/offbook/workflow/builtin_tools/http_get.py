"""The built-in tool that fetches pages, and the hosts that it may reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from msgspec import Struct

from offbook.tools import ToolDef, tool_of


def http_get(name: str, *, allow: Sequence[str], timeout_s: float) -> ToolDef:
    """Return a tool `name` that fetches pages from the hosts in `allow`, each within `timeout_s`."""
    from offbook.workflow.builtin_tools.page_fetcher import (  # noqa: PLC0415 - it imports httpx2, which is slow
        PageFetcher,
    )

    description = f"Fetch a page by HTTP GET. Hosts that you may ask: {', '.join(allow)}."
    pages = PageFetcher(allow, tool=name)
    return tool_of(pages.fetch, name=name, description=description, timeout_s=timeout_s, read_only=True)


Address: TypeAlias = IPv4Address | IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r":([0-9]+)$")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_WRAPPED = (IPv6Network("2002::/16"), IPv6Network("2001::/32"), IPv6Network("fec0::/10"))


class AllowedHost(Struct, frozen=True):
    """A host name or address, or with `*.` all subdomains; at its port, or the default port of the scheme."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> AllowedHost:
        """Parse a host like `example.com`, `*.example.com`, `127.0.0.1:8080` or `[::1]`."""
        port = _PORT.search(text)
        host = text[: port.start()] if port else text
        return cls(_canonical(host.strip("[]")), int(port[1]) if port else None)

    def covers(self, host: str, port: int, *, usual_port: int) -> bool:
        if port != (self.port or usual_port):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


class AllowedHosts:
    """Decides which hosts and addresses may be contacted.

    An allowed name with an address that is not public needs that address allowed too, except `localhost`.
    """

    def __init__(self, allow: Sequence[str]) -> None:
        self._allowed = [AllowedHost.parse(text) for text in allow]

    def has_host(self, host: str, port: int, *, usual_port: int) -> bool:
        canonical = _canonical(host)
        return any(allowed.covers(canonical, port, usual_port=usual_port) for allowed in self._allowed)

    def has_address(self, address: Address, port: int, *, host: str, usual_port: int) -> bool:
        """Whether the allowed `host` may be contacted at this address."""
        if is_public(address) or (host == "localhost" and address.is_loopback):
            return True
        return self.has_host(str(address), port, usual_port=usual_port)


def is_public(address: Address) -> bool:
    """Whether an address is public: not private, not loopback or link-local, not multicast."""
    if isinstance(address, IPv6Address):
        if address in _TRANSLATED:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if any(address in network for network in _WRAPPED):
            return False
    return address.is_global and not address.is_multicast


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower()
