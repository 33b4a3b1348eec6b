"""The marker `offbook`: what a test says about its recording."""

from __future__ import annotations

import os
from typing import Literal

import msgspec
import pytest
from msgspec import Struct

from offbook.errors import InputError
from offbook.pytest_plugin.options import GivenMode
from offbook.session import VENDORS
from offbook.wording import did_you_mean

NAME = "offbook"


class Marker(Struct, frozen=True):
    """What the markers of a test say together. `recording` is relative to the test's folder."""

    recording: str | None = None
    strict: bool = True
    record: GivenMode | None = None
    provider: str | None = None
    unused: Literal["report", "error"] = "report"


def marker_of(item: pytest.Item) -> Marker:
    """What the markers of a test, its class and its module say; the nearest one counts.

    Raises:
        InputError: one of them says something that cannot be; names the test.
    """
    said: dict[str, object] = {}
    for mark in reversed(list(item.iter_markers(NAME))):
        if mark.args:
            hint = f"name it: @pytest.mark.offbook(recording={mark.args[0]!r})"
            raise _wrong(item, "it takes no arguments without names", hint=hint)
        said |= mark.kwargs
    return _read(item, said)


def _read(item: pytest.Item, said: dict[str, object]) -> Marker:
    for name in said:
        if name not in Marker.__struct_fields__:
            hint = did_you_mean(name, Marker.__struct_fields__, kind="arguments")
            raise _wrong(item, f"unknown argument {name!r}", hint=hint)
    plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in said.items()}
    try:
        marker = msgspec.convert(plain, Marker)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise _wrong(item, f"{name}: {reason[:1].lower()}{reason[1:]}", hint=f"given: {plain[name]!r}") from None
    if marker.provider is not None and marker.provider not in VENDORS:
        hint = did_you_mean(marker.provider, VENDORS, kind="providers")
        raise _wrong(item, f"provider: there is no {marker.provider!r}", hint=hint)
    return marker


def _wrong(item: pytest.Item, reason: str, *, hint: str) -> InputError:
    return InputError(reason, source=item.nodeid, place="mark.offbook", hint=hint)
