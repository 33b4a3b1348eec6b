"""The interception of a run: its hosts, certificates and clients, and counts of connections."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import ssl
import struct
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError
from offbook.private_folder import PrivateFolder
from offbook.vendors import VENDORS, upstreams_from_environment
from offbook.wire.server.access import is_loopback_name, new_token

if TYPE_CHECKING:
    import trustme
    from cryptography import x509


_HOST = re.compile(r"[a-z0-9*]([a-z0-9*._-]*[a-z0-9*])?(:[0-9]{1,5})?")
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_HINT = "a host without a scheme, like api.example.org or *.example.org; api.example.org=URL records from there"


class InterceptedHosts:
    """The intercepted hosts: those of all vendors, of the addresses in `environment`, and `added`.

    An item of `added` is a host, or a pattern like `*.example.org`, and may name a URL to record from:
    `llm.example.org=http://127.0.0.1:8000`. With a port, `127.0.0.1:8000`, it is for that port only. Programs reach
    this machine without a proxy; of its hosts, only added ones are intercepted, unless `includes_this_machine`.

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

    @property
    def domains(self) -> list[str]:
        """The domains and addresses of all intercepted hosts; empty if a pattern is in none."""
        found = dict.fromkeys(_domain(pattern.rpartition(":")[0] or pattern) for pattern in self._patterns)
        return [] if "" in found else list(found)

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


def _domain(pattern: str) -> str:
    """Return the domain of all hosts of a pattern: the part after its last label with a `*`."""
    *_, rest = ["", *re.split(r"(?:^|\.)[^.]*\*[^.]*(?:\.|$)", pattern)]
    return rest


def _matches(pattern: str, host: str, port: int | None) -> bool:
    return fnmatchcase(host, pattern) or fnmatchcase(f"{host}:{port}", pattern)


def _parse_host(item: str) -> tuple[str, str]:
    host, _, url = item.partition("=")
    if not _HOST.fullmatch(host.lower()) or host.strip("*.") == "":
        raise InputError(f"expected a host, got {host[:100]!r}", source="intercept_hosts", hint=_HINT)
    if "=" in item and not _is_origin(url):
        hint = f"a scheme and a host, like {host}=http://127.0.0.1:8000"
        raise InputError("expected a URL without a path behind '='", source=f"intercept_hosts={host}", hint=hint)
    return host.lower(), url.rstrip("/")


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_server and parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)


MAX_CONTEXTS = 256
"""The number of hosts whose certificates are kept. A pattern like `*.example.org` matches any number."""


# The key of an authority would let its holder read the TLS of everyone who trusts it. So each run makes one, keeps the
# key in memory, and gives only the certificate to the programs that it starts. Nothing is added to the trust store of
# the system, and the authority is worthless when the run has ended.
class Authority:
    """A certificate authority for one run. `pem` is its certificate; its key stays in this process's memory.

    It is valid for a day, for host certificates only and, given `domains`, for their hosts only.

    Raises:
        InputError: the required packages are not installed.
    """

    def __init__(self, domains: Sequence[str] = ()) -> None:
        try:
            import trustme  # noqa: PLC0415 - only interception needs it
        except ImportError:
            from offbook.installed import install_hint  # noqa: PLC0415

            hint = install_hint("intercept")
            raise InputError("interception needs the package trustme", source="--intercept", hint=hint) from None
        self._authority = trustme.CA.from_pem(*_new_authority(domains))
        self.pem: bytes = self._authority.cert_pem.bytes()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = Lock()

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the TLS context for `host`, for clients that trust this authority. It speaks only HTTP/1.1.

        Raises:
            ValueError: no certificate can name the host.
        """
        with self._lock:
            if host not in self._contexts:
                if len(self._contexts) >= MAX_CONTEXTS:
                    self._contexts.clear()
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.set_alpn_protocols(["http/1.1"])
                with _readable_path(self._authority.issue_cert(host)) as path:
                    context.load_cert_chain(path)
                self._contexts[host] = context
            return self._contexts[host]


VALID = timedelta(days=1)
SKEW = timedelta(hours=1)
"""The tolerated delay of a client's clock, such as a container's."""


def _new_authority(domains: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the certificate of a new authority, and its key, as PEM."""
    from cryptography import x509  # noqa: PLC0415 - only interception needs it
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    key, now = ec.generate_private_key(ec.SECP256R1()), SYSTEM_CLOCK.utc_now()
    names = x509.oid.NameOID
    subject = x509.Name(
        [x509.NameAttribute(names.ORGANIZATION_NAME, "offbook"),
         x509.NameAttribute(names.ORGANIZATIONAL_UNIT_NAME, f"one run of offbook #{secrets.token_hex(8)}")]
    )  # fmt: skip
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(usage, critical=True)
    )
    if domains:
        everywhere = [x509.IPAddress(ip_network(each)) for each in ("0.0.0.0/0", "::/0")]
        permitted = [_subtree(domain) for domain in domains]
        has_addresses = any(isinstance(each, x509.IPAddress) for each in permitted)
        limits = x509.NameConstraints(permitted, None if has_addresses else everywhere)
        builder = builder.add_extension(limits, critical=True)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return pem, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _subtree(domain: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ip_network(domain.strip("[]")))
    except ValueError:
        return x509.DNSName(domain)


@contextmanager
def _readable_path(leaf: trustme.LeafCert) -> Iterator[str]:
    """Give a host's key and certificates a path, because OpenSSL reads only files: in memory if the system supports it,
    else in a private folder that is removed at once.
    """
    pem = leaf.private_key_and_cert_chain_pem
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("offbook", os.MFD_CLOEXEC)
        try:
            os.write(file, pem.bytes())
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
    else:
        with PrivateFolder() as folder, pem.tempfile(folder) as path:
            yield path


DEFAULT_USER = "offbook"
"""The user name of the session without a name."""

Decision = Literal["answer", "pass", "refuse"]


class NetworkTally(Struct, frozen=True):
    """Counts of connections by host: passed, refused, and ended because the client does not trust us."""

    passed: dict[str, int]
    refused: dict[str, int]
    distrusted: dict[str, int]


class Interception:
    """Decides about the connections of one run's programs at the proxy.

    Requests to `hosts` are answered, in TLS by certificates of a new authority; None answers none. Other connections
    pass untouched, or are refused if it `blocks_network`; this machine stays reachable. `environment` may name a proxy
    for passing connections. `token` is the password of its clients. The counters name hosts with ports: `passed`,
    `refused`, and `distrusted`, whose clients rejected our certificate.

    Raises:
        InputError: a package is missing.
    """

    def __init__(
        self,
        hosts: InterceptedHosts | None,
        *,
        blocks_network: bool = False,
        environment: Mapping[str, str] | None = None,
        token: str = "",
    ) -> None:
        self.hosts, self.blocks_network, self.environment = hosts, blocks_network, dict(environment or {})
        self.authority = None if hosts is None else Authority(hosts.domains)
        self.token = token or new_token()
        self.passed, self.refused, self.distrusted = Counter[str](), Counter[str](), Counter[str]()

    @property
    def tally(self) -> NetworkTally:
        """The connection counts so far."""
        return NetworkTally(dict(self.passed), dict(self.refused), dict(self.distrusted))

    def decide(self, host: str, port: int) -> Decision:
        """Decide about a connection to a host, and count it unless it is answered."""
        if self.hosts is not None and self.hosts.matches(host, port):
            return "answer"
        if self.blocks_network and not is_loopback_name(host):
            self.refused[f"{host}:{port}"] += 1
            return "refuse"
        self.passed[f"{host}:{port}"] += 1
        return "pass"

    def session_of(self, credentials: str, *, client: tuple[str, int], server: tuple[str, int]) -> str | None:
        """Return the session of a client of this run, or None for other clients.

        A client proves itself by its `credentials`, a `proxy-authorization`. One without any, like Java's, is
        recognised by its process, which has our token in its environment.
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


_ESTABLISHED = "01"
_TABLES = {"tcp": False, "tcp6": True}
"""The tables of connections, and whether their addresses are IPv6."""


def proxy_user(token: str, *, client: tuple[str, int], server: tuple[str, int]) -> str | None:
    """Return the user before `token` in a URL of the environment of the process at a connection's `client` end.

    None if there is no such URL. Only processes that we start, and their children, know the token. Only Linux shows
    this.
    """
    if sys.platform != "linux":
        return None
    link = _socket_link(client, server)
    users = (user for process, user in _started_with(token) if link is not None and _has_open(process, link))
    return next(users, None)


def _socket_link(client: tuple[str, int], server: tuple[str, int]) -> str | None:
    """Return the entry of the socket in a process's `fd` folder."""
    for table, is_v6 in _TABLES.items():
        ends = [_hex_address(address, is_v6=is_v6) for address in (client, server)]
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == ends and fields[3] == _ESTABLISHED:
                    return f"socket:[{fields[9]}]"
    return None


def _hex_address(address: tuple[str, int], *, is_v6: bool) -> str:
    """Return an address as the kernel writes it: words of four bytes in the order of this machine.

    A socket for both families, like Java's, has addresses of the older one in the form of the newer.
    """
    host = ip_address(address[0]).packed
    if is_v6 and len(host) == 4:
        host = b"\0" * 10 + b"\xff\xff" + host
    words = struct.unpack(f"={len(host) // 4}I", host)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _started_with(token: str) -> Iterator[tuple[Path, str]]:
    """Yield this user's processes with the token in their environment, and the user before it."""
    pattern = re.compile(rb"//([^:/@\0]+):%b@" % re.escape(token.encode()))
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                if found := pattern.search((process / "environ").read_bytes()):
                    yield process, found[1].decode()


def _has_open(process: Path, socket_link: str) -> bool:
    with suppress(OSError):
        return any(_link_of(file) == socket_link for file in (process / "fd").iterdir())
    return False


def _link_of(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""
