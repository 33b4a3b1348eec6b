"""One stand-in for all tests of a module, with a session for each test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from msgspec import Struct

from offbook import serving
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import WireSession
from tests.wire.conformance.answers import ANSWERS


class Run(Struct, frozen=True):
    """A session of a stand-in, and the address that it answers at."""

    session: WireSession
    url: str

    @property
    def tries(self) -> int:
        return len(self.session.calls)


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving(responses=ANSWERS, retry_after_ms=1) as running:
        yield running


@pytest.fixture
def start(server: WireServer, request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Starts the test's session, with faults like `attempt=1: http_error 500`."""
    name = re.sub(r"\W+", "-", request.node.nodeid)

    def begin(*faults: str) -> Run:
        return Run(server.start_session(name, faults=faults), server.session_url(name))

    return begin


@pytest.fixture
def run(start: Callable[..., Run]) -> Run:
    """The test's session, without faults."""
    return start()
