"""What a server takes at most."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The largest body, and all headers of a request together, in bytes."""

    body_bytes: int = 64 * 1024 * 1024
    header_bytes: int = 64 * 1024


LIMITS = Limits()
