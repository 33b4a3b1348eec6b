"""What tests with the vendors' SDKs and with frameworks share."""

import gc

import pytest

WITH_CLIENTS = ("conformance", "frameworks")


@pytest.fixture(scope="module", autouse=True)
def no_collection_inside_clients(request):
    """Collect garbage between files only, where foreign clients are tested.

    A streamed response that a client has abandoned closes itself when it is collected, for which it needs the lock of its
    connection pool. httpcore's lock is not reentrant: collected by the thread that holds it, it waits for ever.
    """
    if request.path.parent.name not in WITH_CLIENTS:
        yield
        return
    gc.disable()
    yield
    gc.enable()
    gc.collect()
