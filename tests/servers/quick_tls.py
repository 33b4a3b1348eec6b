"""Clients that are made quickly: hardly anything here speaks TLS, and to load all authorities takes 25 ms each time."""

from __future__ import annotations

from pathlib import Path

import certifi

END = "-----END CERTIFICATE-----\n"


def one_authority(path: Path) -> str:
    """The path of a file that has one authority, for `SSL_CERT_FILE`."""
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(END)
    path.write_text(first[0] + first[1], encoding="utf-8")
    return str(path)
