"""What the tests with the SDKs for Node share."""

import pytest

from offbook import serving
from tests.wire.conformance.answers import ANSWERS, STEP
from tests.wire.node import driver as node


@pytest.fixture(scope="session")
def driver():
    """A running driver of the SDKs."""
    node.require()
    with node.Driver() as driver:
        yield driver


@pytest.fixture(scope="session")
def server():
    """A server that has an answer for every step."""
    with serving(responses=ANSWERS, retry_after_ms=1) as server:
        yield server


@pytest.fixture
def ask(driver, server):
    """Asks for the answer of a step, and gives what the SDK makes of it; `more` is what differs from the question."""

    def ask(question, step="plain", *, is_streamed=False, params=None, **more):
        case = question.case(server.url, is_streamed=is_streamed, options={"defaultHeaders": {STEP: step}})
        result = driver.ask(**case | {"params": case["params"] | (params or {})} | more)
        assert result.error is None
        return result

    return ask
