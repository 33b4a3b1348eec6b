"""Access control of a server: requests must use a name of this machine, come from no other site's page, and carry its
token.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from offbook.errors import InputError
from offbook.text import printable_line, shorten
from offbook.vendors import KEY_HEADERS
from offbook.wire.backend import MAX_SESSION_NAME_CHARS, SESSION_HEADER

ANY = "*"
ALL_INTERFACES = ("0.0.0.0", "::", "")  # noqa: S104
MAX_REMEMBERED_HOSTS = 64
MAX_SHOWN_CHARS = 100
_PLAIN_KEY_HEADERS = sorted(KEY_HEADERS - {"authorization"})
_HOST_HEADER = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(:\d{1,5})?", re.IGNORECASE)
_TOKEN_PATH = re.compile(rb"((?:/\.well-known/[^/?]+)?)/t/([A-Za-z0-9._~-]{1,200})(?=[/?]|$)")
"""A token begins a path. Clients that log in put `/.well-known/NAME` before the path of a server."""
TOKEN_PLACES = (b"/t/", b"/.well-known/")
TOKEN_HEADER = "x-offbook-token"  # noqa: S105
_HOST_NAME = re.compile(r"(\*\.)?[^\[\]:/@*\s]+|[0-9a-f:.]+", re.IGNORECASE)


def new_token() -> str:
    """Return a new token of a run. Whoever has it may use the server, and with it the run's credentials."""
    return secrets.token_hex(16)


def token_path(token: str) -> str:
    """Return the path prefix of all addresses of a server with this token, or "" without one."""
    return f"/t/{token}" if token else ""


def token_variables(token: str) -> dict[str, str]:
    """Return the variable for programs that send the token as a header, because others can read their arguments."""
    return {"OFFBOOK_TOKEN": token} if token else {}


def split_token(url: bytes) -> tuple[bytes, bytes]:
    """Split a request target into the token at its beginning, or "", and the rest."""
    found = _TOKEN_PATH.match(url)
    if found is None:
        return b"", url
    rest = found[1] + url[found.end() :]
    return found[2], rest if rest.startswith(b"/") else b"/" + rest


class AccessRefusal(NamedTuple):
    """Why a request is refused."""

    status: int
    message: str


_WRONG_KEY = AccessRefusal(401, "the API key does not fit this server")
_NO_TOKEN = AccessRefusal(
    401,
    "the token of this server is missing: use the whole address that it gave out, like http://127.0.0.1:4010/t/TOKEN; "
    "on a machine where you trust everybody, serve --open or -o open=true needs none",
)


class Access:
    """Decides which requests a server answers.

    A page in a browser can send requests to this machine, and read the answers if its own name resolves to this machine
    (DNS rebinding). So the Host of a request must be a loopback name, `bound_to`, or one of `hosts`; and its Origin, if
    any, a loopback origin or one of `origins`. A server bound to all interfaces accepts every address, because only
    names can be rebound. `*` allows all, `*.example.org` every name below.

    With an `api_key` or a `token`, requests must carry it at the beginning of their path, from which the connection
    moves it to a header, or as a vendor's API key.

    Raises:
        InputError: a host or an origin is invalid.
    """

    def __init__(
        self,
        api_key: str = "",
        *,
        token: str = "",
        bound_to: str = "127.0.0.1",
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
    ) -> None:
        self._secret, self._unauthorized = (api_key or token).encode(), _WRONG_KEY if api_key else _NO_TOKEN
        self._hosts = frozenset((*map(_checked_host, hosts), _normal_host(bound_to)))
        self._origins = frozenset(map(_checked_origin, origins))
        self._accepts_addresses = bound_to in ALL_INTERFACES
        self._known: set[str] = set()

    def refusal(self, headers: Mapping[str, str], query: str) -> AccessRefusal | None:
        """Return the reason to refuse a request with these headers and this query, or None."""
        if self._secret and not self._has_secret(headers, query):
            return self._unauthorized
        host = headers.get("host", "")
        if host not in self._known and not self._remembers(host):
            shown = _shown(host)
            hint = f"if it is, start the server with -o allow_hosts={shown}, or allow_hosts=[{shown!r}] in Python"
            return AccessRefusal(403, f"the Host {shown!r} is not a name of this server; {hint}")
        if ("origin" in headers or "sec-fetch-site" in headers) and not self._allows_page(headers):
            shown = _shown(headers.get("origin") or "another site")
            hint = f"if it may, start the server with -o allow_origins={shown}, or allow_origins=[{shown!r}] in Python"
            return AccessRefusal(403, f"a page of {shown} may not use this server; {hint}")
        if len(headers.get(SESSION_HEADER, "")) > MAX_SESSION_NAME_CHARS:
            return AccessRefusal(400, f"the name of a session has at most {MAX_SESSION_NAME_CHARS:,} characters")
        return None

    def _remembers(self, host: str) -> bool:
        """Return whether a Host is allowed, and look it up faster the next time."""
        is_allowed = not host or self._allows_host(host)
        if is_allowed and len(self._known) < MAX_REMEMBERED_HOSTS:
            self._known.add(host)
        return is_allowed

    def _allows_host(self, header: str) -> bool:
        """Return whether a Host is allowed. A request without one is an HTTP/1.0 client's, never a browser's."""
        found = _HOST_HEADER.fullmatch(header)
        if found is None:
            return False
        host = _normal_host(found[1])
        if is_loopback_name(host) or host in self._hosts or ANY in self._hosts:
            return True
        parents = host.split(".")[1:]
        if any(f"*.{'.'.join(parents[at:])}" in self._hosts for at in range(len(parents))):
            return True
        return self._accepts_addresses and _is_address(host)

    def _allows_page(self, headers: Mapping[str, str]) -> bool:
        origin = headers.get("origin", "").lower()
        if not origin:
            return headers.get("sec-fetch-site") != "cross-site" or ANY in self._origins
        if origin in self._origins or ANY in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            host = parts.hostname or ""
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and (is_loopback_name(host) or self._is_own(host))

    def _is_own(self, host: str) -> bool:
        """Return whether the page is on a host that was named as one of this server."""
        return host in self._hosts and host not in ALL_INTERFACES

    def _has_secret(self, headers: Mapping[str, str], query: str) -> bool:
        if hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._secret):
            return True
        return any(hmac.compare_digest(key.encode(), self._secret) for key in _keys_in(headers, query))


def is_loopback_name(host: str) -> bool:
    """Return whether a name or an address can only be this machine: `localhost`, `*.localhost`, 127.0.0.0/8, `::1`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _normal_host(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _keys_in(headers: Mapping[str, str], query: str) -> list[str]:
    bearer = headers.get("authorization", "").partition(" ")[2]
    keys = [bearer, *(headers.get(name, "") for name in _PLAIN_KEY_HEADERS)]
    return keys + parse_qs(query).get("key", []) if query else keys


def _checked_host(host: str) -> str:
    if host != ANY and not _HOST_NAME.fullmatch(host.strip("[]")):
        hint = "a name without a port, like agent.test, *.agent.test, or * for all"
        raise InputError(f"expected a host, got {_shown(host)!r}", source="allow_hosts", hint=hint)
    return _normal_host(host)


def _checked_origin(origin: str) -> str:
    is_special = origin in (ANY, "null")
    if not is_special and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s]+", origin, re.IGNORECASE):
        hint = "a scheme and a host, like https://app.test or http://app.test:3000, or * for all"
        raise InputError(f"expected an origin, got {_shown(origin)!r}", source="allow_origins", hint=hint)
    return origin.lower()


def _shown(text: str) -> str:
    return shorten(printable_line(text), MAX_SHOWN_CHARS)
