"""Fixtures for the tests of stores."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def open_folder():
    """A folder that everybody may reach, unlike that of `tmp_path`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
