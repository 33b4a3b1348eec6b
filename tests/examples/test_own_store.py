"""The example of a store of one's own keeps the contract, and is found by its entry point."""

import sys
from uuid import uuid4

import pytest

from offbook import MockProvider, RecordingProvider, run
from offbook.errors import InputError
from offbook.recording.stores.contract import StoreContract
from offbook.recording.stores.locate import open_store
from tests.fakes import user


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """A package with the entry point, as pip would leave it."""
    info = tmp_path / "site" / "own_store-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[offbook.stores]\ndict = examples.own_store:DictStore\n")
    monkeypatch.setattr(sys, "path", [str(info.parent), *sys.path])


class TestDictStore(StoreContract):
    @pytest.fixture
    def location(self):
        return f"dict://{uuid4()}"


def test_it_is_recorded_and_replayed_like_any_other():
    async def work():
        location = f"dict://{uuid4()}"
        async with RecordingProvider(MockProvider(default_response="Hello!"), location) as recorder:
            await recorder.complete(user("Hi"), "demo")
        return await MockProvider(location, strict=True).complete(user("Hi"), "demo")

    assert run(work()).content == "Hello!"


def test_a_scheme_that_no_package_offers_is_refused():
    with pytest.raises(InputError, match="'other://name' is not the location of a recording"):
        open_store("other://name")
