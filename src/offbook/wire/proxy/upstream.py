"""The addresses of the real APIs: base URLs and keys by vendor, and the requests and headers sent there."""

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
"""The number of decodings of a path to see where it leads. A path encoded more often is refused."""


ORIGIN = "offbook.origin"
"""The key of an ASGI scope for the server that an intercepted request was sent to, as a URL without a path."""


class Upstreams:
    """The base URLs of the vendors' APIs, as in their SDKs' variables: OpenAI's ends with `/v1`, others have no path.

    Args:
        urls: base URLs by vendor, instead of the vendors' own.
        keys: API keys by vendor, sent upstream instead of the clients'.
        clients_use_own_key: whether clients send this server's key, which must not be sent upstream.

    Raises:
        InputError: a vendor is unknown, a URL is not a server's, or a key cannot be sent.
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
        """Return the headers with the vendor's key, or None to send the client's."""
        key = self._keys.get(route.vendor)
        if key is None and not self._clients_use_own_key:
            return None
        return route.any_codec.auth_headers(key or "")

    def has_key(self, vendor: str) -> bool:
        """Return whether the vendor's own servers would get a key, if they need one."""
        is_own = self._urls[vendor] == VENDORS[vendor].base_url
        return vendor in self._keys or not (is_own and VENDORS[vendor].needs_key)

    def at(self, origin: str | None, vendor: str) -> Upstreams:
        """Return the destination of a request sent to `origin`: that server, unless its vendor has another configured
        address. None is a request to this server.
        """
        if origin is None or (origin == origin_of(VENDORS[vendor].base_url) and origin != self.address(vendor)):
            return self
        return _Origin(origin)

    def address(self, vendor: str) -> str:
        """Return the server of a vendor, like `https://api.openai.com`.

        Raises:
            InputError: the vendor has no common server, and none was named.
        """
        if not urlsplit(self._urls[vendor]).netloc:
            hint = f"export {VENDORS[vendor].address_variables[0]}=https://…, or --upstream {vendor}=https://…"
            raise InputError(f"the address of {vendor} is not known", source="upstreams", hint=hint)
        return origin_of(self._urls[vendor])

    def is_loopback(self, vendor: str) -> bool:
        """Return whether the server of a vendor is on this machine."""
        return _is_loopback(urlsplit(self._urls[vendor]).hostname or "")

    def vendor_at(self, port: int) -> str | None:
        """Return the vendor whose server is at a port of this machine, or None."""
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
    """Return the variable to set if live calls failed without a key in the environment, or "".

    A missing key may be the cause if a call was refused as unauthorized, or if the vendor's own servers were
    unreachable. For vendors `moved` to another address, also by the environment, only a refusal counts. A program that
    failed before its first call may lack any key.
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
    """The server that an intercepted request was sent to. It gets the client's own path, key and signature."""

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

    Some decode twice, accept a backslash as a slash, or ignore everything after a semicolon.
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
    """Return the headers of a client's request for upstream. `auth` replaces those with a key."""
    sent = [
        (name, value)
        for name, value in _end_to_end(headers)
        if name not in _REPLACED and not name.startswith(_OWN_PREFIX) and (auth is None or name not in _KEY_HEADERS)
    ]
    present = {name for name, _ in sent}
    added = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (auth or {}).items()]
    return [*sent, *(header for header in added if header[0] not in present), (b"accept-encoding", b"identity")]


def client_response_headers(headers: Iterable[tuple[bytes, bytes]], *, is_decompressed: bool) -> RawHeaders:
    """Return the headers of an upstream response for the client, without obsolete framing."""
    received = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in received)
    dropped = [b"content-length"] if is_decompressed or is_chunked else []
    dropped += [b"content-encoding"] if is_decompressed else []
    return [(name, value) for name, value in _end_to_end(received) if name not in dropped]


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return the headers with lower-case names, without connection-specific ones."""
    lowered = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    named = {token.strip().lower() for name, value in lowered if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]


class UpstreamRequest(Struct, frozen=True):
    """A request of a client that goes upstream: its endpoint, its path as it was sent, and its headers."""

    route: ApiRoute
    request: HttpRequest
    raw_path: str
    headers: Iterable[tuple[bytes, bytes]]


async def encode_upstream_request(upstreams: Upstreams, sent: UpstreamRequest) -> httpx2.Request:
    """Return the request for the real API: its address, its key, and a signature if the vendor requires one.

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
    """Return the headers with a signature for this URL in place of the client's, which is for this server. A key stays.

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
    """Return a context without certificates if there is no TLS, because loading them is slow. Otherwise it has the
    certificates of the system, or of SSL_CERT_FILE, which httpx2 ignores without the proxy variables.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if address.startswith("http://") else ssl.create_default_context()
