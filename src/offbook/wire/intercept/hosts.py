"""Which hosts are intercepted: those of the vendors, those that the environment names, and those that a user adds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from offbook.errors import InputError
from offbook.vendors import VENDORS, upstreams_from_environment
from offbook.wire.server.access import is_loopback_name

_HOST = re.compile(r"[a-z0-9*]([a-z0-9*._-]*[a-z0-9*])?(:[0-9]{1,5})?")
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_HINT = "a host without a scheme, like api.example.org or *.example.org; api.example.org=URL records from there"


class InterceptedHosts:
    """The hosts whose requests are answered: those of all vendors, of the addresses in `environment`, and `added`.

    An item of `added` is a host, or a pattern like `*.example.org`, and may name the URL that its calls are recorded
    from instead of the host itself: `llm.example.org=http://127.0.0.1:8000`. With a port, `127.0.0.1:8000`, it is for
    that port alone. Programs reach hosts of this machine without a proxy; of those, only what is added is intercepted,
    unless `includes_this_machine`.

    Raises:
        InputError: an item is not a host.
    """

    def __init__(
        self,
        added: Iterable[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        includes_this_machine: bool = False,
    ) -> None:
        self._added = dict(map(_parse_host, added))
        base_urls = {vendor.base_url for vendor in VENDORS.values()}
        addresses = {urlsplit(url) for url in (base_urls | set(upstreams_from_environment(environment or {}).values()))}
        names = {pattern for vendor in VENDORS.values() for pattern in vendor.hosts}
        names |= {url.hostname for url in addresses if url.hostname and not is_loopback_name(url.hostname)}
        if includes_this_machine:
            ports = {url.port or 80 for url in addresses if url.hostname and is_loopback_name(url.hostname)}
            names |= {f"{host}:{port}" for host in _THIS_MACHINE for port in ports}
        self._patterns = (*self._added, *sorted(names))

    def matches(self, host: str, port: int | None) -> bool:
        """Return whether a host is intercepted. Its name is in lower case."""
        return any(_matches(pattern, host, port) for pattern in self._patterns)

    def origin(self, scheme: str, host: str, port: int) -> str:
        """Return where the calls to a host are recorded from, as a URL without a path."""
        for pattern, url in self._added.items():
            if url and _matches(pattern, host, port):
                return url
        name = f"[{host}]" if ":" in host else host
        return f"{scheme}://{name}" if port == {"http": 80, "https": 443}[scheme] else f"{scheme}://{name}:{port}"


def _matches(pattern: str, host: str, port: int | None) -> bool:
    return fnmatchcase(host, pattern) or fnmatchcase(f"{host}:{port}", pattern)


def _parse_host(item: str) -> tuple[str, str]:
    host, _, url = item.partition("=")
    if not _HOST.fullmatch(host.lower()) or host.strip("*.") == "":
        raise InputError(f"expected a host, got {host[:100]!r}", source="--intercept-host", hint=_HINT)
    if "=" in item and not _is_origin(url):
        hint = f"a scheme and a host, like {host}=http://127.0.0.1:8000"
        raise InputError("expected a URL without a path behind '='", source=f"--intercept-host {host}", hint=hint)
    return host.lower(), url.rstrip("/")


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_server and parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
