"""A folder to work in."""

import pytest

from tests.subjects.projects import Project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)
