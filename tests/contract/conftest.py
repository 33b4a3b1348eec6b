"""Opens faces: as a replay or an exploration until the end of the test, or as a recorder for a block."""

from contextlib import ExitStack

import pytest

from tests.contract.explored import BOOK, Agent, Explored
from tests.contract.faces import Setup


@pytest.fixture
def replaying(tmp_path):
    """Replay a book, or the recording at a `path`, by a face."""
    with ExitStack() as opened:

        def replay(face, book=None, **options):
            if book is not None:
                options["document"] = face.document(book) | options.pop("more", {})
            return opened.enter_context(face(Setup(**options), tmp_path))

        yield replay


@pytest.fixture
def recording(tmp_path):
    """Record by a face at a path, until the end of the block."""
    return lambda face, path, **options: face(Setup(record=path, **options), tmp_path)


@pytest.fixture
def exploring(tmp_path):
    """Explore an agent, which asks by a face, or by several."""
    with ExitStack() as opened:

        def explore(*faces, book=BOOK, policy="explore", **agent):
            return opened.enter_context(Explored(faces, Agent(**agent), book=book, policy=policy, folder=tmp_path))

        yield explore
