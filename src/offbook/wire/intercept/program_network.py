"""Environment variables that lead a program to the server: by base URLs, past any proxy, or by interception."""

from __future__ import annotations

import re
import ssl
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

from msgspec import Struct

from offbook.errors import InputError
from offbook.private_folder import PrivateFolder
from offbook.vendors import VENDORS
from offbook.wire.intercept.interception import DEFAULT_USER, InterceptedHosts, Interception, NetworkTally
from offbook.wire.server.access import is_loopback_name, new_token
from offbook.wire.server.wire_server import no_proxy_variables


class NetworkOptions(Struct, frozen=True, kw_only=True):
    """Network options of a user: intercept the hosts of vendors and `hosts`, and block the rest of the network."""

    intercepts: bool = False
    hosts: Sequence[str] = ()
    blocks: bool = False

    def check(self) -> None:
        """Raise InputError if an option has no effect."""
        if self.hosts and not self.intercepts:
            raise InputError(
                "intercept_hosts requires intercept", hint="add --intercept, or -o intercept=true to explore"
            )


class ProgramNetwork:
    """The network of programs with this `environment`, until `close`. Its `token` is the one of the run.

    Raises:
        InputError: an option has no effect or is not a host, or a package is missing.
    """

    def __init__(self, options: NetworkOptions, environment: Mapping[str, str]) -> None:
        options.check()
        self._environment, self.token = environment, new_token()
        self.interception: Interception | None = None
        self._proxy: ProxyEnvironment | None = None
        if options.intercepts or options.blocks:
            hosts = InterceptedHosts(options.hosts, environment=environment) if options.intercepts else None
            self.interception = Interception(
                hosts, blocks_network=options.blocks, environment=environment, token=self.token
            )
            self._proxy = ProxyEnvironment(self.interception, environment)

    @property
    def tally(self) -> NetworkTally | None:
        """Counts of connections to other hosts, or None if this process cannot see them."""
        return None if self.interception is None else self.interception.tally

    def environment_of(
        self, own: Mapping[str, str], url: str, *, plain: Mapping[str, str], session: str = ""
    ) -> dict[str, str]:
        """Return the environment of a program in a session of the server at `url`, with its `own` variables.

        `plain` is its environment for a server without TLS. An intercepted program keeps its own settings, because it
        speaks TLS.
        """
        if self._proxy is None:
            return {**plain, **own, **no_proxy_variables(self._environment)}
        is_intercepted = self.interception is not None and self.interception.hosts is not None
        base = {**plain, **self._environment} if is_intercepted else plain
        return {**base, **self._proxy.variables(own, url, session=session)}

    def aliases(self, *, session: str) -> dict[str, str]:
        """Return the run-specific texts in a session's variables, and their replacements."""
        return {} if self._proxy is None else self._proxy.aliases(session=session)

    def close(self) -> None:
        """Remove the files that programs were given."""
        if self._proxy is not None:
            self._proxy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


NOT_PROXIED = ("127.0.0.1", "localhost", "::1")
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
NO_PROXY_VARIABLES = ("NO_PROXY", "no_proxy")
BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL, and so Python, Ruby and PHP; Go; rustls-native-certs
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
)
"""The variables that name the only certificates that a client trusts: the system's and ours."""

ADDED_VARIABLES = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""Variables that name certificates that a client trusts in addition to its own."""

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class ProxyEnvironment:
    """The variables that lead a program's clients to the proxy of a run.

    They name certificate files in a private folder that `close` removes: the authority of the run, and those named by
    `environment` or the system, for hosts that are not intercepted. They contain no key.
    """

    def __init__(self, interception: Interception, environment: Mapping[str, str]) -> None:
        self._interception, self._environment = interception, environment
        self._folder = PrivateFolder()

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def variables(self, own: Mapping[str, str], url: str, *, session: str = "") -> dict[str, str]:
        """Return the variables for the programs of a session of the server at `url`, in addition to its `own` ones.

        Of those, base URLs are left out where the vendor's host is intercepted: the program uses its own.
        """
        if self._interception.hosts is not None:
            moved = _moved_variables(self._environment)
            own = {name: value for name, value in own.items() if name not in moved}
        return {**own, **self._proxy_variables(url, session)}

    def _proxy_variables(self, url: str, session: str) -> dict[str, str]:
        server = urlsplit(url)
        proxy = f"http://{self._credentials(session)}@{server.netloc}"
        names = (*PROXY_VARIABLES, *(name for name in ("ALL_PROXY", "all_proxy") if self._environment.get(name)))
        variables = dict.fromkeys(names, proxy)
        variables |= dict.fromkeys(NO_PROXY_VARIABLES, ",".join(NOT_PROXIED))
        variables["NODE_USE_ENV_PROXY"] = "1"
        java = [*_java_proxy(server.hostname or "", server.port or 0), *self._java_trust]
        given = self._environment.get("JAVA_TOOL_OPTIONS", "")
        variables["JAVA_TOOL_OPTIONS"] = " ".join(filter(None, [given, *java]))
        return variables | self._certificates

    def aliases(self, *, session: str) -> dict[str, str]:
        """Return run-specific texts, and their replacements: credentials, and the folder of the files."""
        return {f"{self._credentials(session)}@": "", self._folder.name: "$CERTIFICATES"}

    def _credentials(self, session: str) -> str:
        return f"{quote(session, safe='') or DEFAULT_USER}:{self._interception.token}"

    @cached_property
    def _certificates(self) -> dict[str, str]:
        """The certificate files by variable, or none without interception."""
        authority = self._interception.authority
        if authority is None:
            return {}
        files = dict.fromkeys(BUNDLE_VARIABLES, "trusted.pem") | {name: f"{name}.pem" for name in ADDED_VARIABLES}
        self._write("trusted.pem", b"\n".join([*_trusted_pems(self._environment), authority.pem]))
        for name in ADDED_VARIABLES:
            self._write(f"{name}.pem", b"\n".join([*_pem_of(self._environment.get(name)), authority.pem]))
        return {name: str(Path(self._folder.name, file)) for name, file in files.items()}

    @cached_property
    def _java_trust(self) -> list[str]:
        authority = self._interception.authority
        if authority is None:
            return []
        pems = b"\n".join([*_trusted_pems(self._environment), authority.pem])
        path = self._write("trusted.p12", _java_trust_store(pems))
        return [f"-Djavax.net.ssl.trustStore={path}", "-Djavax.net.ssl.trustStoreType=PKCS12"]

    def _write(self, name: str, data: bytes) -> Path:
        path = Path(self._folder.name, name)
        path.write_bytes(data)
        return path


def _moved_variables(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the base-URL variables of vendors whose address is not on this machine."""
    return frozenset(
        name
        for vendor in VENDORS.values()
        if not is_loopback_name(urlsplit(vendor.address(environment) or vendor.base_url).hostname or "")
        for name in vendor.address_variables
    )


def _java_proxy(host: str, port: int) -> list[str]:
    schemes = [f"-D{scheme}.proxy{name}={value}" for scheme in ("http", "https") for name, value in _ends(host, port)]
    return [*schemes, "-Dhttp.nonProxyHosts=localhost|127.*|[::1]"]


def _ends(host: str, port: int) -> tuple[tuple[str, object], ...]:
    return ("Host", host), ("Port", port)


def _trusted_pems(environment: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the certificates that a client trusts without us: those that the environment names, or the system's, and
    those that Python's clients bring along."""
    named = [environment.get(name) for name in BUNDLE_VARIABLES]
    files = [name for name in dict.fromkeys(named) if name] or [ssl.get_default_verify_paths().cafile]
    for file in files:
        yield from _pem_of(file)
    if find_spec("certifi") is not None:
        import certifi  # noqa: PLC0415 - it may not be installed

        yield from _pem_of(certifi.where())


def _pem_of(file: str | None) -> list[bytes]:
    """Return the contents of a file, or nothing: its client could not read it either."""
    return [Path(file).read_bytes()] if file and Path(file).is_file() else []


def _java_trust_store(pems: bytes) -> bytes:
    """Return certificates as a file that Java reads, without malformed ones."""
    from cryptography import x509  # noqa: PLC0415 - only interception needs it
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12  # noqa: PLC0415

    certificates: dict[bytes, pkcs12.PKCS12Certificate] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some roots have a serial number of 0
        for pem in dict.fromkeys(_PEM.findall(pems)):
            with suppress(ValueError):
                certificate = x509.load_pem_x509_certificate(pem)
                certificates[pem] = pkcs12.PKCS12Certificate(certificate, b"%d" % len(certificates))
    return pkcs12.serialize_java_truststore(list(certificates.values()), NoEncryption())
