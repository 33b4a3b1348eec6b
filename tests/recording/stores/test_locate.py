"""From the name of a recording to its store."""

from pathlib import Path

import pytest

from offbook.errors import InputError
from offbook.recording.stores.json_file import JsonFileStore
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    "name", ["run.json", "runs/today.json", "run", "run.recording", "C:run.json", "a b.json", "redis.json"]
)
def test_a_path_names_a_json_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(name)
    assert isinstance(store, JsonFileStore)
    assert store.path == tmp_path / name
    assert store.location == name


def test_a_path_may_be_a_path_object(tmp_path):
    store = open_store(tmp_path / "run.json")
    assert isinstance(store, JsonFileStore)
    assert store.path == tmp_path / "run.json"


@pytest.mark.parametrize("name", ["run.db", "runs/today.json", "run", "🎭.db", "a b?c=d#e%20.db", ":memory:"])
def test_an_sqlite_address_names_a_database_file_whatever_it_is_called(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:///{name}")
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / name
    assert store.location == f"sqlite:///{name}"
    store.write().close()
    assert (tmp_path / name).read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("location", ["run.json?ttl=1h", "sqlite:///run.db?ttl=1h", "run.db?prefix=a&ttl=1h"])
def test_an_option_of_redis_is_refused_elsewhere_with_what_to_do_instead(location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="only a recording in Redis has options") as caught:
        open_store(location)
    assert f"offbook recording prune {location.partition('?')[0]} --older-than" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_an_sqlite_address_with_four_slashes_names_an_absolute_path():
    assert open_store("sqlite:////var/run.db").path == Path("/var/run.db")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "sqlite:///",
        "sqlite://run.db",
        "SQLITE:///run.db",
        "postgres://host/run",
        "http://host/run.json",
        "s3://bucket/run.json",
        "run\0.json",
        "sqlite:///run\0.db",
    ],
)
def test_what_names_no_store_is_refused_with_examples(name):
    with pytest.raises(InputError, match="is not the location of a recording") as caught:
        open_store(name)
    assert "sqlite:///runs/today.db" in caught.value.hint


@pytest.mark.parametrize("name", ["run.db", "/tmp/run.sqlite", "runs/today.sqlite3"])
def test_a_path_that_looks_like_a_database_is_refused_with_the_address_to_write(name):
    with pytest.raises(InputError, match="looks like a database") as caught:
        open_store(name)
    assert caught.value.hint == f"write sqlite:///{name}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("redis:/me:s3cret@cache/0", "write redis://host, with two slashes"),
        ("rediss:cache", "write rediss://host, with two slashes"),
        ("sqlite:run.db", "write sqlite:///path.db"),
    ],
)
def test_a_missing_slash_is_named_and_no_password(name, hint):
    with pytest.raises(InputError, match="is not followed by two slashes") as caught:
        open_store(name)
    assert caught.value.hint == hint
    assert "s3cret" not in str(caught.value)
