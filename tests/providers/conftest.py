"""What the tests of providers share."""

import pytest

from tests.servers import aimock


@pytest.fixture(scope="session")
def aimock_url():
    """The URL of a running aimock."""
    reason = aimock.reason_to_skip()
    if reason and aimock.is_required():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    with aimock.serve() as url:
        yield url
