"""The certificates by which intercepted hosts are answered in TLS: an authority of its own for each run."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING

from offbook.errors import InputError

if TYPE_CHECKING:
    import trustme

MAX_CONTEXTS = 256
"""For how many hosts certificates are kept. A pattern like `*.example.org` stands for any number."""


class Authority:
    """A certificate authority for one run. `pem` is its certificate; its key is in the memory of this process alone.

    Raises:
        InputError: the packages that it needs are not installed.
    """

    def __init__(self) -> None:
        try:
            import trustme  # noqa: PLC0415 - only interception needs it
        except ImportError:
            hint = "pip install 'offbook[intercept]'"
            raise InputError("interception needs the package trustme", source="--intercept", hint=hint) from None
        self._authority = trustme.CA(organization_name="offbook", organization_unit_name="one run of offbook")
        self.pem: bytes = self._authority.cert_pem.bytes()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = Lock()

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return what a server needs to be `host` for clients that trust this authority. It speaks HTTP/1.1 alone.

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


@contextmanager
def _readable_path(leaf: trustme.LeafCert) -> Iterator[str]:
    """Give the key and the certificates of a host a path, which is all that OpenSSL reads: of a file in memory where
    the system has such, else in a private folder that is removed at once."""
    pem = leaf.private_key_and_cert_chain_pem
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("offbook", os.MFD_CLOEXEC)
        try:
            os.write(file, pem.bytes())
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
    else:
        with TemporaryDirectory(prefix="offbook-") as folder, pem.tempfile(folder) as path:
            yield path
