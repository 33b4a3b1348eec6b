"""How an extra is installed: from where offbook itself came."""

import json
from importlib.metadata import Distribution

import pytest

from offbook import __version__, installed


class Installed(Distribution):
    """A distribution whose files are in a dict."""

    def __init__(self, **files):
        self._files = files

    def read_text(self, filename):
        return self._files.get(filename)

    def locate_file(self, path):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (None, f"pip install 'offbook[redis]=={__version__}'"),
        ({"url": "file:///src/offbook", "dir_info": {}}, "pip install 'offbook[redis] @ file:///src/offbook'"),
        (
            {"url": "file:///src/offbook", "dir_info": {"editable": True}},
            "pip install --editable 'file:///src/offbook[redis]'",
        ),
        (
            {"url": "https://host/offbook.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'offbook[redis] @ git+https://host/offbook.git@abc'",
        ),
    ],
)
def test_an_extra_comes_from_where_offbook_came_from(monkeypatch, source, command):
    files = {} if source is None else {"direct_url.json": json.dumps(source)}
    monkeypatch.setattr(installed, "distribution", lambda name: Installed(**files))
    assert installed.install_hint("redis") == command
