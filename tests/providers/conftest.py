"""What the tests of providers share."""

import pytest

from tests.servers import aimock


@pytest.fixture(scope="session")
def aimock_url():
    """The URL of a running aimock."""
    aimock.require()
    with aimock.serve() as url:
        yield url
