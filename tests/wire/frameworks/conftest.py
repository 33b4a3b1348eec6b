"""A stand-in that has a recording for each kind of run, and the clients that are tested with it."""

import json

import pytest

from offbook import serving
from tests.wire.frameworks.scripts import SCRIPTS


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    for name, script in SCRIPTS.items():
        (folder / f"{name}.json").write_text(json.dumps({"_version": 2, **script}))
    with serving(folder, retry_after_ms=1) as server:
        yield server


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Clients tell nobody else of their runs."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
