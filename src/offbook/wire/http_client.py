"""HTTP clients that are answered in-process."""

from __future__ import annotations

import os

import httpx2
from typing_extensions import Unpack

from offbook.wire.stand_in import StandIn, StandInOptions


def http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.AsyncClient:
    """A client of a stand-in, for `AsyncOpenAI(http_client=…)` and the like. Make a StandIn to look at its calls.

    What is to be recorded is asked through `transport`, by default over the network.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """
    return StandIn(recording, **options).http_client(transport)


def sync_http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.BaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.Client:
    """The like for `OpenAI(http_client=…)`."""
    return StandIn(recording, **options).sync_http_client(transport)
