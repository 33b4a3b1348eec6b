"""What tests with the vendors' SDKs and with frameworks share."""

import gc

import pytest

WITH_CLIENTS = ("conformance", "frameworks")


@pytest.fixture(scope="module", autouse=True)
def no_collection_inside_clients(request):
    """Collect garbage between files only, where foreign clients are tested.

    A streamed response that a client has abandoned closes itself when it is collected, and takes the lock of its
    connection pool for that. httpcore's lock is not reentrant: the thread that holds it would wait for itself.
    """
    if request.path.parent.name not in WITH_CLIENTS:
        yield
        return
    gc.disable()
    yield
    gc.enable()
    gc.collect()
