"""Where the real APIs are, and with which keys they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

from offbook.errors import InputError
from offbook.wire.route import Route, Vendor
from offbook.wording import suggestion

DEFAULT_URLS: dict[Vendor, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
_OPENAI_ROOT = "/v1"


class Upstreams:
    """The addresses of the vendors' APIs. They mean what they mean in the variables that the SDKs read: OpenAI's
    ends with its `/v1`, the others are without a path.

    Args:
        urls: addresses by vendor, in the place of the vendors' own.
        keys: keys by vendor, which go upstream in the place of those that clients give.
        are_clients_keys_ours: whether what clients give as a key is none of the vendors', and is not to go upstream.

    Raises:
        InputError: there is no such vendor, an address is no URL of a server, or a key cannot be sent.
    """

    def __init__(
        self,
        urls: Mapping[str, str] | None = None,
        *,
        keys: Mapping[str, str] | None = None,
        are_clients_keys_ours: bool = False,
    ) -> None:
        self._urls = DEFAULT_URLS | {
            _vendor(name, source="upstreams"): _checked_url(url, name) for name, url in (urls or {}).items()
        }
        self._keys = {
            _vendor(name, source="upstream_keys"): _checked_key(key, name) for name, key in (keys or {}).items()
        }
        self._are_clients_keys_ours = are_clients_keys_ours

    def url(self, route: Route, path: str, query: str) -> str:
        """Where a call of `path`, percent-encoded as it came, is to be sent."""
        if route.vendor == "openai" and (path == _OPENAI_ROOT or path.startswith(_OPENAI_ROOT + "/")):
            path = path.removeprefix(_OPENAI_ROOT)
        rooted = path if path.startswith("/") or not path else f"/{path}"
        wished = query if self.auth(route) is None else _without_key(query)
        return f"{self._urls[route.vendor]}{rooted}" + (f"?{wished}" if wished else "")

    def auth(self, route: Route) -> dict[str, str] | None:
        """The headers that carry the key of our own, or None if the client's is to go upstream."""
        key = self._keys.get(route.vendor)
        if key is None and not self._are_clients_keys_ours:
            return None
        return (route.codec or route.vendor_codec).auth_headers(key or "")

    def address(self, vendor: Vendor) -> str:
        """The server that a vendor's calls go to, like `https://api.openai.com`."""
        parts = urlsplit(self._urls[vendor])
        return f"{parts.scheme}://{parts.netloc}"

    def is_loopback(self, vendor: Vendor) -> bool:
        """Whether the server is on this machine."""
        return _is_loopback(urlsplit(self._urls[vendor]).hostname or "")

    def vendor_at(self, port: int) -> Vendor | None:
        """The vendor that is looked for at a port of this machine, if one is."""
        ports = {vendor: urlsplit(url).port for vendor, url in self._urls.items() if self.is_loopback(vendor)}
        return next((vendor for vendor, known in ports.items() if known == port), None)


def _vendor(name: str, *, source: str) -> Vendor:
    known: tuple[Vendor, ...] = get_args(Vendor)
    for vendor in known:
        if name == vendor:
            return vendor
    raise InputError(f"unknown vendor {name!r}", source=source, hint=suggestion(name, known, kind="vendors"))


def _checked_url(url: str, name: str) -> str:
    """`url` without its last slash: a path follows. An error does not repeat what may be a secret in it."""
    source, hint = f"upstreams: {name}", f"a URL like {DEFAULT_URLS[_vendor(name, source='upstreams')]}"
    try:
        parts = urlsplit(url)
        names_a_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        names_a_server = False
    if not names_a_server or url.split() != [url]:
        raise InputError("expected the URL of a server", source=source, hint=hint)
    if "?" in url or "#" in url or "@" in parts.netloc:
        raise InputError("expected a URL without query, fragment and password", source=source, hint=hint)
    return url.rstrip("/")


def _checked_key(key: str, name: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise InputError("expected printable ASCII without spaces around it", source=f"upstream_keys: {name}")
    return key


def _without_key(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(name, value) for name, value in pairs if name != "key"])


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
