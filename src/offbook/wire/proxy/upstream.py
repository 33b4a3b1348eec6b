"""Where the real APIs are: URLs, keys and environment variables by vendor, and which headers pass in each direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TypeAlias, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

from offbook.errors import InputError
from offbook.text import suggestion
from offbook.wire.request import ApiRoute, Vendor

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
            _checked_vendor(name, source="upstreams"): _checked_url(url, name) for name, url in (urls or {}).items()
        }
        self._keys = {
            _checked_vendor(name, source="upstream_keys"): _checked_key(key, name) for name, key in (keys or {}).items()
        }
        self._are_clients_keys_ours = are_clients_keys_ours

    def url(self, route: ApiRoute, path: str, query: str) -> str:
        """Where a call of `path`, percent-encoded as it came, is to be sent."""
        if route.vendor == "openai" and (path == _OPENAI_ROOT or path.startswith(_OPENAI_ROOT + "/")):
            path = path.removeprefix(_OPENAI_ROOT)
        rooted = path if path.startswith("/") or not path else f"/{path}"
        wished = query if self.auth(route) is None else _without_key(query)
        return f"{self._urls[route.vendor]}{rooted}" + (f"?{wished}" if wished else "")

    def auth(self, route: ApiRoute) -> dict[str, str] | None:
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


def _checked_vendor(name: str, *, source: str) -> Vendor:
    known: tuple[Vendor, ...] = get_args(Vendor)
    for vendor in known:
        if name == vendor:
            return vendor
    raise InputError(f"unknown vendor {name!r}", source=source, hint=suggestion(name, known, kind="vendors"))


def _checked_url(url: str, name: str) -> str:
    """`url` without its last slash: a path follows. An error does not repeat what may be a secret in it."""
    source, hint = f"upstreams: {name}", f"a URL like {DEFAULT_URLS[_checked_vendor(name, source='upstreams')]}"
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


RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    )
)
_OWN_PREFIX = b"x-offbook-"
_REPLACED = frozenset((b"host", b"content-length", b"accept-encoding"))
_KEY_HEADERS = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key"))


def upstream_request_headers(
    headers: Iterable[tuple[bytes, bytes]], *, auth: Mapping[str, str] | None = None
) -> RawHeaders:
    """The headers of a client's request, for upstream. With `auth`, those that carry a key are replaced by it."""
    kept = [
        (name, value)
        for name, value in _end_to_end(headers)
        if name not in _REPLACED and not name.startswith(_OWN_PREFIX) and (auth is None or name not in _KEY_HEADERS)
    ]
    present = {name for name, _ in kept}
    added = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (auth or {}).items()]
    return [*kept, *(header for header in added if header[0] not in present), (b"accept-encoding", b"identity")]


def client_response_headers(headers: Iterable[tuple[bytes, bytes]], *, is_unpacked: bool) -> RawHeaders:
    """The headers of upstream's answer, for the client. What tells how bytes were packed goes if they no longer are."""
    told = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in told)
    dropped = [b"content-length"] if is_unpacked or is_chunked else []
    dropped += [b"content-encoding"] if is_unpacked else []
    return [(name, value) for name, value in _end_to_end(told) if name not in dropped]


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers with names in lower case, without those that concern one connection alone."""
    lowered = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    named = {token.strip().lower() for name, value in lowered if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]


BASE_URL_VARIABLES = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "ollama": "OLLAMA_HOST",
}
"""The variable of each vendor that tells its SDK where to ask."""

KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
"""The variables of each vendor that hold its key; the first that is set counts."""

OLLAMA_PORT = 11434


def upstreams_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The address of each vendor whose SDK is told one by the environment."""
    found = {vendor: environment[name] for vendor, name in BASE_URL_VARIABLES.items() if environment.get(name)}
    return found | {"ollama": _ollama_url(found["ollama"])} if "ollama" in found else found


def upstream_keys_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The key of each vendor that the environment has one for."""
    found = {vendor: next(filter(None, map(environment.get, names)), "") for vendor, names in KEY_VARIABLES.items()}
    return {vendor: key for vendor, key in found.items() if key}


def _ollama_url(host: str) -> str:
    """Ollama's own way to name a host: without a scheme, and where it has its usual port, without that."""
    if "://" in host:
        return host
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, str(OLLAMA_PORT)
    return f"http://{name or '127.0.0.1'}:{port}"
