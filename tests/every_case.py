"""Whether tests try every case, as `make zoo` does, or a sample of the cases, as `make test` does."""

import os

EVERY_CASE = os.environ.get("OFFBOOK_TEST_EVERY_CASE") == "1"


def sampled(cases, step=5):
    """Return every case, or one in `step`."""
    return list(cases) if EVERY_CASE else list(cases)[::step]
