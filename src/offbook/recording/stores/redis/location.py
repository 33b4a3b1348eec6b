"""Parses the URL of a recording in Redis: the connection, and our own parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import did_you_mean, mask_password

OnError: TypeAlias = Literal["fail", "live"]
"""The behaviour of a run in mode `new` without its server: fail, or make the calls live."""

PASSWORD_VARIABLE = "OFFBOOK_REDIS_PASSWORD"  # noqa: S105 - a name
"""The environment variable with the password, if the URL has none."""

DEFAULT_PORT = 6379
DEFAULT_PREFIX = "offbook"
DEFAULT_TIMEOUT_S = 5.0
MAX_TTL_MS = 10 * 366 * 24 * 3600 * 1000
MAX_TIMEOUT_S = 3600.0
_FORM = "redis://host:6379/0?prefix=myapp&ttl=24h"
_PREFIX = re.compile(r"[A-Za-z0-9._:/+-]{1,200}")
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class RedisLocation(Struct, frozen=True):
    """The location of a recording in Redis. `ttl_ms` is the lifetime of an exchange after its write; 0 is for ever.

    `ca`, `cert` and `key` are TLS files: the server's authority, and this client's identity.
    """

    host: str
    port: int = DEFAULT_PORT
    database: int = 0
    username: str = ""
    password: str = ""
    has_tls: bool = False
    prefix: str = DEFAULT_PREFIX
    ttl_ms: int = 0
    timeout_s: float = DEFAULT_TIMEOUT_S
    on_error: OnError = "fail"
    ca: str = ""
    cert: str = ""
    key: str = ""
    text: str = ""

    @property
    def identity(self) -> str:
        """A text that is equal for all locations of the same recording."""
        return f"redis://{self.host.lower()}:{self.port}/{self.database}?prefix={self.prefix}"

    def beside(self, suffix: str) -> RedisLocation:
        """Return the location with the suffix added to the prefix."""
        parts = urlsplit(self.text)
        given = [(name, value) for name, value in parse_qsl(parts.query) if name != "prefix"]
        query = urlencode([("prefix", f"{self.prefix}{suffix}"), *given])
        return parse_redis_url(parts._replace(query=query).geturl())


def parse_redis_url(text: str) -> RedisLocation:
    """Parse `redis://[user[:password]@]host[:port][/database][?prefix=…&ttl=…&timeout=…&on_error=…]`.

    `rediss://` connects with TLS, and may have `ca=…&cert=…&key=…`.

    Raises:
        InputError: the text is not such a URL; the message does not contain its password.
    """
    source = mask_password(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text may have a part of the password
        hint = f"write it like {_FORM}, and / @ : # in a password as %2F %40 %3A %23"
        raise InputError("the host or the port is invalid", source=source, hint=hint) from None
    if not host:
        raise InputError("the URL has no host", source=source, hint=f"write it like {_FORM}")
    if parts.fragment:
        raise InputError("the URL has a fragment", source=source, hint="write # in a password as %23")
    parameters, has_tls = _parameters(parts.query, source), parts.scheme.lower() == "rediss"
    for name in ("ca", "cert", "key") if not has_tls else ():
        if name in parameters:
            raise InputError(f"{name} requires TLS", source=source, place=name, hint="write rediss://")
    return RedisLocation(
        host=host,
        port=DEFAULT_PORT if port is None else port,
        database=_database(parts.path, source),
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        has_tls=has_tls,
        text=text,
        **parameters,  # type: ignore[arg-type]
    )


def _database(path: str, source: str) -> int:
    number = path.removeprefix("/")
    if number and not re.fullmatch(r"\d{1,5}", number):
        hint = f"the path is the number of a database: {_FORM}"
        raise InputError(f"{path!r} is not the number of a database", source=source, hint=hint)
    return int(number or 0)


def _parameters(query: str, source: str) -> dict[str, object]:
    given: dict[str, object] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            reason = f"unknown parameter {quote(name)!r}"
            raise InputError(reason, source=source, hint=did_you_mean(name, _PARAMETERS, kind="parameter"))
        field, parse = _PARAMETERS[name]
        if field in given:
            raise InputError(f"{name} is given twice", source=source, hint="keep one of them")
        try:
            given[field] = parse(value)
        except ValueError as error:
            raise InputError(f"invalid {name} {value!r}", source=source, place=name, hint=str(error)) from None
    return given


def _parse_prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ValueError("use letters, digits and . _ - : / +")
    return value


def parse_duration_ms(value: str) -> int:
    """Parse a duration like `24h`. Raise ValueError, with a hint, for other texts."""
    found = _DURATION.fullmatch(value)
    duration_ms = int(found[1]) * _UNIT_MS[found[2]] if found else 0
    if not 0 < duration_ms <= MAX_TTL_MS:
        raise ValueError("write it like 24h, 30m or 7d; ten years at most")
    return duration_ms


def _parse_timeout(value: str) -> float:
    timeout_s = int(value) if value.isascii() and value.isdigit() else parse_duration_ms(value) / 1000.0
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ValueError("write it like 5s or 500ms; one hour at most")
    return timeout_s


def _parse_on_error(value: str) -> str:
    if value not in get_args(OnError):
        raise ValueError(did_you_mean(value, get_args(OnError)))
    return value


def _parse_file(value: str) -> str:
    if not Path(value).is_file():
        raise ValueError("there is no such file")
    return value


_PARAMETERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "prefix": ("prefix", _parse_prefix),
    "ttl": ("ttl_ms", parse_duration_ms),
    "timeout": ("timeout_s", _parse_timeout),
    "on_error": ("on_error", _parse_on_error),
    "ca": ("ca", _parse_file),
    "cert": ("cert", _parse_file),
    "key": ("key", _parse_file),
}
