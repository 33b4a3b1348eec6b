"""Where the real APIs are that a command records: as it is told, else as the environment says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offbook.errors import InputError
from offbook.wire.upstream_environment import upstreams_of


def given_upstreams(lines: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The address of each vendor that one is told for: where its SDK would have asked, unless a line says otherwise.

    Raises:
        InputError: a line is not like `openai=https://…`.
    """
    return upstreams_of(environment) | dict(map(_read, lines))


def _read(line: str) -> tuple[str, str]:
    vendor, separator, url = line.partition("=")
    if not (vendor and separator and url):
        hint = "name a vendor and its address: openai=http://127.0.0.1:8000/v1"
        raise InputError(f"cannot be read: {line!r}", source="--upstream", hint=hint)
    return vendor, url
