"""Where the real APIs are: base URLs and keys by vendor, the requests that are sent there, and their headers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from offbook.errors import InputError
from offbook.providers.aws_signature import OLD_SIGNATURE, SIGNED_SCHEME, sign_request
from offbook.text import suggestion
from offbook.vendors import KEY_HEADERS, SECRET_QUERY, VENDORS, missing_keys, upstreams_from_environment
from offbook.wire.request import ApiRoute, HttpRequest, header_dict, origin_of

if TYPE_CHECKING:
    import httpx2

    from offbook.wire.session import WireCall

CONNECT_TIMEOUT_S = 10.0

MAX_DECODED = 5
"""How often a path is decoded to see where it leads. One that is encoded more often is refused."""


ORIGIN = "offbook.origin"
"""The key of an ASGI scope that holds the server that an intercepted request was sent to, as a URL without a path."""


class Upstreams:
    """The base URLs of the vendors' APIs, as in the variables of their SDKs: OpenAI's ends with `/v1`, others have no
    path.

    Args:
        urls: base URLs by vendor, instead of the vendors' own.
        keys: API keys by vendor, sent upstream instead of those of the clients.
        clients_use_own_key: whether clients send a key of this server, which must not be sent upstream.

    Raises:
        InputError: a vendor is unknown, a URL is not that of a server, or a key cannot be sent.
    """

    signs = True
    """Whether requests to a vendor that wants it are signed for its server."""

    def __init__(
        self,
        urls: Mapping[str, str] | None = None,
        *,
        keys: Mapping[str, str] | None = None,
        clients_use_own_key: bool = False,
    ) -> None:
        self._urls = {name: vendor.base_url for name, vendor in VENDORS.items()}
        for name, url in (urls or {}).items():
            _check_vendor(name, source="upstreams")
            self._urls[name] = _checked_url(url, name)
        self._keys = dict(keys or {})
        for name, key in self._keys.items():
            _check_vendor(name, source="upstream_keys")
            _check_key(key, name)
        self._clients_use_own_key = clients_use_own_key

    def url(self, route: ApiRoute, path: str, query: str) -> str:
        """Return the URL for a request of `path`, which is percent-encoded as it arrived.

        Raises:
            InputError: the path leads out of the API.
        """
        if _leads_out(path):
            raise InputError(_LEADS_OUT)
        self.address(route.vendor)
        root = VENDORS[route.vendor].root_path
        if root and (path == root or path.startswith(f"{root}/")):
            path = path.removeprefix(root)
        rooted = path if path.startswith("/") or not path else f"/{path}"
        sent_query = query if self.auth(route) is None else _without_secrets(query)
        return f"{self._urls[route.vendor]}{rooted}" + (f"?{sent_query}" if sent_query else "")

    def auth(self, route: ApiRoute) -> dict[str, str] | None:
        """Return the headers with the vendor's key, or None if that of the client is sent."""
        key = self._keys.get(route.vendor)
        if key is None and not self._clients_use_own_key:
            return None
        return route.any_codec.auth_headers(key or "")

    def has_key(self, vendor: str) -> bool:
        """Return whether the vendor's own servers would get a key, if they need one."""
        is_own = self._urls[vendor] == VENDORS[vendor].base_url
        return vendor in self._keys or not (is_own and VENDORS[vendor].needs_key)

    def at(self, origin: str | None, vendor: str) -> Upstreams:
        """Return where a request goes that was sent to `origin`: there, unless another address is set for the vendor
        that has its servers there. None is a request that was sent to us."""
        if origin is None or (origin == origin_of(VENDORS[vendor].base_url) and origin != self.address(vendor)):
            return self
        return _Origin(origin)

    def address(self, vendor: str) -> str:
        """Return the server of a vendor, like `https://api.openai.com`.

        Raises:
            InputError: the vendor has none that is the same for all users, and it was not named.
        """
        if not urlsplit(self._urls[vendor]).netloc:
            hint = f"export {VENDORS[vendor].address_variables[0]}=https://…, or --upstream {vendor}=https://…"
            raise InputError(f"the address of {vendor} is not known", source="upstreams", hint=hint)
        return origin_of(self._urls[vendor])

    def is_loopback(self, vendor: str) -> bool:
        """Return whether the server of a vendor is on this machine."""
        return _is_loopback(urlsplit(self._urls[vendor]).hostname or "")

    def vendor_at(self, port: int) -> str | None:
        """Return the vendor whose server is at a port of this machine, if there is one."""
        ports = {vendor: urlsplit(url).port for vendor, url in self._urls.items() if self.is_loopback(vendor)}
        return next((vendor for vendor, known in ports.items() if known == port), None)


_UNAUTHORIZED = (401, 403)


def missing_key_advice(
    calls: Iterable[WireCall],
    environment: Mapping[str, str],
    *,
    moved: Collection[str] = (),
    has_begun: bool = True,
) -> str:
    """Return which variable to set, if live calls have failed for which the environment has no key; else empty.

    A call may have failed for want of a key if it was refused as unauthorized, or if the vendor's own servers were not
    even reached. Of the vendors that are `moved` to another address, as of those that the environment moves, only a
    refusal counts. A program that failed before it has begun to call may have done so if there is no key at all.
    """
    if not has_begun:
        return _advice_before_calls(environment)
    elsewhere = {*moved, *upstreams_from_environment(environment)}
    failed = [call for call in calls if call.failure]
    keyless = [call.vendor for call in failed if call.status in _UNAUTHORIZED or call.vendor not in elsewhere]
    missing = missing_keys(keyless, environment)
    return f"recording makes live calls, and no key is set: export {'=…, '.join(missing)}=…" if missing else ""


def _advice_before_calls(environment: Mapping[str, str]) -> str:
    keyed = [name for name, vendor in VENDORS.items() if vendor.needs_key and not vendor.is_opt_in]
    missing = missing_keys(keyed, environment)
    if len(missing) < len(keyed):
        return ""
    return f"it failed before its first call; SDKs want a key, and none is set: {', '.join(missing)}"


class _Origin(Upstreams):
    """The server that an intercepted request was sent to. It gets the path and the key of the client as they are, and
    so does a signature fit, which is for that server."""

    signs = False

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._urls = dict.fromkeys(VENDORS, origin)

    def url(self, route: ApiRoute, path: str, query: str) -> str:
        if _leads_out(path):
            raise InputError(_LEADS_OUT)
        return self._urls[route.vendor] + path + (f"?{query}" if query else "")


_LEADS_OUT = "a path with '.' or '..' between slashes is not sent upstream"


def _leads_out(path: str) -> bool:
    """Return whether a server could read the path as one with `.` or `..` in it.

    Some decode twice, take a backslash for a slash, or leave out what follows a semicolon.
    """
    for _ in range(MAX_DECODED):
        segments = path.replace("\\", "/").split("/")
        if any(segment.partition(";")[0] in (".", "..") for segment in segments):
            return True
        decoded = unquote(path, "latin-1")
        if decoded == path:
            return False
        path = decoded
    return True


def _check_vendor(name: str, *, source: str) -> None:
    if name not in VENDORS:
        raise InputError(f"unknown vendor {name!r}", source=source, hint=suggestion(name, VENDORS, kind="vendors"))


def _checked_url(url: str, name: str) -> str:
    """Return `url` without a trailing slash. Errors do not repeat it, as it may contain a secret."""
    source, hint = f"upstreams: {name}", f"a URL like {VENDORS[name].base_url or 'https://me.example.com'}"
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


def _check_key(key: str, name: str) -> None:
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise InputError("expected printable ASCII without spaces around it", source=f"upstream_keys: {name}")


def _without_secrets(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(name, value) for name, value in pairs if name.lower() not in SECRET_QUERY])


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
_KEY_HEADERS = frozenset(name.encode() for name in KEY_HEADERS)


def upstream_request_headers(
    headers: Iterable[tuple[bytes, bytes]], *, auth: Mapping[str, str] | None = None
) -> RawHeaders:
    """Return the headers of a client's request that go upstream. `auth` replaces those that hold a key."""
    sent = [
        (name, value)
        for name, value in _end_to_end(headers)
        if name not in _REPLACED and not name.startswith(_OWN_PREFIX) and (auth is None or name not in _KEY_HEADERS)
    ]
    present = {name for name, _ in sent}
    added = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (auth or {}).items()]
    return [*sent, *(header for header in added if header[0] not in present), (b"accept-encoding", b"identity")]


def client_response_headers(headers: Iterable[tuple[bytes, bytes]], *, is_decompressed: bool) -> RawHeaders:
    """Return the headers of an upstream response that go to the client, without framing that no longer holds."""
    received = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in received)
    dropped = [b"content-length"] if is_decompressed or is_chunked else []
    dropped += [b"content-encoding"] if is_decompressed else []
    return [(name, value) for name, value in _end_to_end(received) if name not in dropped]


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return the headers with lower-case names, without those of a single connection."""
    lowered = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    named = {token.strip().lower() for name, value in lowered if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]


class SentRequest(Struct, frozen=True):
    """A request of a client that goes upstream: its endpoint, its path as it was sent, and its headers."""

    route: ApiRoute
    request: HttpRequest
    raw_path: str
    headers: Iterable[tuple[bytes, bytes]]


async def encode_upstream_request(upstreams: Upstreams, sent: SentRequest) -> httpx2.Request:
    """Return the request for the real API: at its address, with its key, and signed where the vendor wants that.

    Raises:
        InputError: it cannot be sent there, or cannot be signed.
    """
    import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

    route, request = sent.route, sent.request
    headers = upstream_request_headers(sent.headers, auth=upstreams.auth(route))
    try:
        url = httpx2.URL(upstreams.url(route, sent.raw_path, request.query))
    except httpx2.InvalidURL:
        raise InputError("the path cannot be requested upstream") from None
    upstream = httpx2.URL(upstreams.address(route.vendor))
    if (url.scheme, url.netloc, url.userinfo) != (upstream.scheme, upstream.netloc, b""):
        raise InputError("the path leads to another server than the upstream")
    if VENDORS[route.vendor].signed_as and upstreams.signs:
        headers = await asyncio.to_thread(_signed, str(url), request.body, headers, VENDORS[route.vendor].signed_as)
    logged_url = _without_secret_parameters(url)  # httpx2 logs the URLs that it requests
    extensions = {"target": url.raw_path} if logged_url != url else None
    return httpx2.Request(request.method, logged_url, headers=headers, content=request.body, extensions=extensions)


def _without_secret_parameters(url: httpx2.URL) -> httpx2.URL:
    for name in [name for name in url.params if name.lower() in SECRET_QUERY]:
        url = url.copy_remove_param(name)
    return url


def _signed(url: str, body: bytes, headers: RawHeaders, service: str) -> RawHeaders:
    """Return the headers with a signature for this URL. One of the client is for that of this server; a key stays.

    Raises:
        InputError: the request cannot be signed.
    """
    sent = header_dict(headers)
    if not sent.get("authorization", SIGNED_SCHEME).startswith(SIGNED_SCHEME):
        return headers
    signed = sign_request(url, body, service=service, headers=sent)
    kept = [(name, value) for name, value in headers if name.decode("latin-1") not in signed.keys() | OLD_SIGNATURE]
    return [*kept, *((name.encode("latin-1"), value.encode("latin-1")) for name, value in signed.items())]


def upstream_client(upstreams: Upstreams, vendor: str, *, timeout_s: float | None) -> httpx2.AsyncClient:
    """Return a client for a vendor's server. For one on this machine, proxy variables are ignored."""
    import httpx2  # noqa: PLC0415

    address, is_loopback = upstreams.address(vendor), upstreams.is_loopback(vendor)
    return httpx2.AsyncClient(
        verify=_own_context(address) if is_loopback or address.startswith("http://") else True,
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        trust_env=not is_loopback,
    )


def _own_context(address: str) -> ssl.SSLContext:
    """Return a context without certificates where there is no TLS: loading them takes long. Else it has those of the
    system, or of SSL_CERT_FILE, which httpx2 ignores together with the proxy variables."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if address.startswith("http://") else ssl.create_default_context()
