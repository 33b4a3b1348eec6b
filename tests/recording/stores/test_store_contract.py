"""What every store promises, whatever it keeps recordings in."""

import os
import socket
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offbook.errors import InputError, RecordingFormatError
from offbook.messages import Usage
from offbook.recording.edit import PruneFilter, edit_stores, merge_stores, prune_document
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.contract import (
    StoreContract,
    append,
    append_tools,
    called,
    contents,
    reading,
    replace,
    results,
    said,
    whole_meaning,
)
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import FoundExchanges, ReplaceOnCloseWriter
from tests.servers import redis_server

from .read_only import read_only
from .strategies import documents, exchanges, fingerprints, tool_exchanges, tool_names

LOCATIONS = {"json": "{}/run.json", "sqlite": "sqlite:///{}/run.db"}
FILE_STORES = ["json", "sqlite"]
STORES = [*FILE_STORES, "redis"]

every_store = pytest.mark.parametrize("kind", STORES)
few_examples = settings(max_examples=10)
"""Each makes files; what they can hold is tried out with the file format."""


def location_of(kind, folder):
    """Where a store of that kind holds nothing yet."""
    return redis_server.shared().url() if kind == "redis" else LOCATIONS[kind].format(folder)


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    """A store that holds nothing yet."""
    return open_store(location_of(request.param, tmp_path))


@contextmanager
def fresh_store(kind):
    """The like, for tests that need many."""
    with tempfile.TemporaryDirectory() as folder:
        yield open_store(location_of(kind, folder))


def recordings_beside(store):
    """The recordings where the store has its own: files in its folder, or prefixes that begin like its prefix."""
    if store.location.startswith("redis://"):
        return sorted({key.partition("}")[0] for key in redis_server.shared().keys(store.location)})
    return sorted(path.name for path in store.path.parent.iterdir())


def state(store):
    """What changes if the store is written to."""
    if store.location.startswith("redis://"):
        return [redis_server.shared().client.dump(key) for key in redis_server.shared().keys(store.location)]
    found = store.path.stat()
    return found.st_ino, found.st_mtime_ns


class TestContract(StoreContract):
    @pytest.fixture(params=STORES)
    def location(self, request, tmp_path):
        return location_of(request.param, tmp_path)

    def test_removed_siblings_leave_nothing(self, store):
        append(store, ("a", said("1")))
        before = recordings_beside(store)
        siblings = [store.sibling() for _ in range(2)]
        for sibling in siblings:
            sibling.save(Document())
        assert len(recordings_beside(store)) == 3
        for sibling in siblings:
            sibling.remove()
        assert recordings_beside(store) == before


class TestWriting:
    @every_store
    @few_examples
    @given(appended=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), exchanges), max_size=6))
    def test_whatever_is_appended_is_kept_whole(self, kind, appended):
        expected = Document()
        for key, exchange in appended:
            expected.add(key, exchange)
        with fresh_store(kind) as store:
            append(store, *appended)
            assert whole_meaning(store.load()) == whole_meaning(expected)


class TestFinding:
    @every_store
    @few_examples
    @given(
        document=documents(
            st.lists(st.builds(said, st.just("x"), request_hash=st.none() | fingerprints), min_size=1, max_size=4)
            | st.builds(said, st.just("x"), request_hash=st.none() | fingerprints)
        ),
        fingerprint=st.none() | fingerprints,
    )
    def test_finding_is_what_looking_at_each_would_be(self, kind, document, fingerprint):
        with fresh_store(kind) as store:
            store.save(document)
            with reading(store) as reader:
                everything = list(reader)
                for key in [*document.entries, *([] if fingerprint is None else [None])]:
                    fitting = [stored.id for stored in everything if self.fits(stored, key, fingerprint)]
                    for after in [-1, *(stored.id for stored in everything)]:
                        found = reader.find(key=key, fingerprint=fingerprint, after=after)
                        expected = next((place for place in fitting if place > after), None)
                        assert (None if found is None else found.id) == expected
                    last = reader.last(key=key, fingerprint=fingerprint)
                    assert (None if last is None else last.id) == max(fitting, default=None)

    @staticmethod
    def fits(stored, key, fingerprint):
        if key is None:
            return stored.fingerprint == fingerprint
        return stored.key == key and (fingerprint is None or stored.fingerprint in (None, fingerprint))


class TestSaving:
    @every_store
    @few_examples
    @given(document=documents())
    def test_a_document_survives_being_saved(self, kind, document):
        with fresh_store(kind) as store:
            store.save(document)
            assert whole_meaning(store.load()) == whole_meaning(document)


class TestTools:
    @every_store
    @few_examples
    @given(appended=st.lists(st.tuples(tool_names, tool_exchanges), max_size=6))
    def test_whatever_is_appended_is_kept_whole(self, kind, appended):
        expected = Document()
        for tool, exchange in appended:
            expected.add_tool(tool, exchange)
        with fresh_store(kind) as store:
            append_tools(store, *appended)
            assert store.load().tools == expected.tools


SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


def redact(document):
    return document.rewrite(Redactor().redact, Redactor().redact_tool)


def prune(document):
    return prune_document(document, PruneFilter(keys=frozenset(["doomed"])))


def add_one(document):
    document.add("edited", said("1"))
    return 1


class TestEditingBesideWriters:
    """Maintenance while others record: what they append is never lost."""

    @pytest.mark.parametrize("edit", [redact, prune, add_one])
    def test_what_is_appended_while_a_recording_is_edited_is_kept(self, store, edit):
        """The other writer starts in the middle of the edit, and goes on as soon as the store lets it."""
        append(store, ("doomed", said(SECRET)))
        beside = store.write()
        writers = []

        def edit_slowly(document):
            for target in (lambda: beside.append("a", said("1")), lambda: append_tools(store, ("get", called(1)))):
                writers.append(threading.Thread(target=target))
                writers[-1].start()
            return edit(document)

        list(edit_stores([store], edit_slowly))
        for writer in writers:
            writer.join()
        beside.append("a", said("2"))
        beside.close()
        assert contents(store)["a"] == ["1", "2"]
        assert results(store) == {"get": [1]}
        assert SECRET not in contents(store).values() or edit is add_one

    def test_what_is_appended_before_its_turn_is_edited_too(self, store, tmp_path):
        """All recordings are read before the first is edited."""
        first = open_store(tmp_path / "first.json")
        for each in (first, store):
            append(each, ("doomed", said("1")))
        edits = edit_stores([first, store], prune)
        next(edits)
        append(store, ("doomed", said("2")), ("kept", said("3")))
        assert [(edited.changed, edited.size) for edited in edits] == [(2, 1)]
        assert contents(store) == {"kept": "3"}

    def test_merging_into_one_of_the_merged_keeps_what_is_appended_to_it_meanwhile(self, store, tmp_path, monkeypatch):
        other = open_store(tmp_path / "other.json")
        append(other, ("b", said("1")))
        append(store, ("a", said("1")))
        load_other = other.load

        def load_and_let_others_write():
            append(store, ("a", said("2")))
            return load_other()

        monkeypatch.setattr(other, "load", load_and_let_others_write)
        merged = merge_stores([store, other], store, force=True)
        assert contents(store) == {"a": ["1", "2"], "b": "1"}
        assert merged.size == 3

    def test_merging_does_not_replace_what_another_has_made_in_the_meantime(self, store, tmp_path, monkeypatch):
        source = open_store(tmp_path / "source.json")
        append(source, ("a", said("1")))
        load_source = source.load

        def load_and_let_others_write():
            append(store, ("b", said("of another")))
            return load_source()

        monkeypatch.setattr(source, "load", load_and_let_others_write)
        with pytest.raises(InputError, match="already exists"):
            merge_stores([source], store)
        assert contents(store) == {"b": "of another"}

    def test_an_edit_that_changes_nothing_writes_nothing(self, store):
        append(store, ("a", said("1")))
        before = state(store)
        store.update(lambda document: document.entries.clear() or False)
        assert [(edited.changed, edited.size) for edited in edit_stores([store], prune)] == [(0, 1)]
        assert state(store) == before
        assert contents(store) == {"a": "1"}

    def test_a_dry_run_writes_nothing(self, store):
        append(store, ("doomed", said("1")))
        assert [edited.changed for edited in edit_stores([store], prune, dry_run=True)] == [1]
        assert contents(store) == {"doomed": "1"}

    def test_an_empty_recording_that_is_removed_is_made_again_by_a_writer_that_goes_on(self, store):
        writer = store.write()
        store.remove_if_empty()
        writer.append("a", said("1"))
        store.remove_if_empty()
        writer.close()
        store.remove_if_empty()
        assert contents(store) == {"a": "1"}


class TestReplacing:
    """What a run that replaces finds at its start, and nothing else, goes at its end."""

    @pytest.mark.parametrize("mode", ["all", "fresh"])
    @pytest.mark.parametrize("recorded_at", ["1999", "2999", None])
    def test_what_others_append_meanwhile_stays_whatever_their_clock_says(self, store, mode, recorded_at):
        now = "2026-01-01T00:00:00.000000+00:00"
        append(store, *(("a", said(text, recorded_at=now)) for text in ("old", "old")))
        append_tools(store, ("get", called("old", recorded_at=now)))
        models, tools = (ReplaceOnCloseWriter(store, kind, mode) for kind in ("models", "tools"))
        append(store, ("a", said("of another", recorded_at=recorded_at)))
        append_tools(store, ("get", called("of another", recorded_at=recorded_at)))
        models.append("a", said("new", recorded_at=now))
        tools.append_tool("get", called("new", recorded_at=now))
        models.close()
        tools.close()
        assert contents(store) == {"a": ["of another", "new"]}
        assert results(store) == {"get": ["of another", "new"]}

    def test_it_goes_even_if_the_recording_was_written_again_meanwhile(self, store):
        usage = Exchange(content="old", usage=Usage(), request=msgspec.Raw(b'{"model":  "m",\n"messages": []}'))
        append(store, ("a", usage), ("a", said("old")), ("b", said("old")))
        models = ReplaceOnCloseWriter(store, "models", "fresh")
        store.update(lambda document: document.add("c", said("of another")))
        models.append("a", said("new"))
        models.close()
        assert contents(store) == {"c": "of another", "a": "new"}

    @pytest.mark.parametrize("mode", ["all", "fresh"])
    def test_runs_that_overlap_replace_what_both_found_once(self, store, mode, tmp_path):
        """The second run is of another process: it found the same, and ends when the first has replaced it."""
        append(store, ("a", said("old")))
        found = FoundExchanges(store)
        first = ReplaceOnCloseWriter(store, "models", mode)
        first.append("a", said("first"))
        first.close()
        store.update(lambda document: found.replace_in(document, [], [], mode="fresh", kinds=["models"]))
        assert contents(store) == {"a": "first"}

    def test_of_equal_exchanges_as_many_go_as_were_found(self, store):
        append(store, ("a", said("same")), ("a", said("same")))
        found = FoundExchanges(store)
        append(store, ("a", said("same")))
        for _ in range(2):
            store.update(lambda document: found.replace_in(document, [], [], mode="fresh", kinds=["models"]))
            assert contents(store) == {"a": ["same"]}


def other_database():
    with tempfile.NamedTemporaryFile() as file:
        connection = sqlite3.connect(file.name)
        connection.execute("CREATE TABLE metadata (id INTEGER PRIMARY KEY, body TEXT)")
        connection.execute("INSERT INTO metadata VALUES (1, 'mine')")
        connection.commit()
        connection.close()
        return Path(file.name).read_bytes()


FOREIGN = {
    "garbage": b"\x00\x01garbage\xff" * 300,
    "text": b"not a recording\n" * 300,
    "list": b"[1, 2, 3]",
    "number": b"1234567",
    "database": other_database(),
    "unknown field": b'{"_version": 2, "a": {"contents": "x"}}',
    "unknown field of a tool": b'{"_version": 2, "_tools": {"get": [{"reslt": "x"}]}}',
    "cut off": b'{"_version": 2, "a": {"content": "x"',
}


@pytest.mark.parametrize("kind", FILE_STORES)
class TestFiles:
    @staticmethod
    def store_at(kind, folder):
        return open_store(LOCATIONS[kind].format(folder))

    def assert_refused(self, store, *names, hint):
        for name in names:
            arguments = {"save": [Document()], "update": [lambda document: None]}.get(name, [])
            with pytest.raises(InputError) as caught:
                getattr(store, name)(*arguments)
            assert caught.value.source == store.location
            assert hint in caught.value.hint

    def test_folders_on_the_way_are_made(self, kind, tmp_path):
        store = self.store_at(kind, tmp_path / "a" / "b")
        append(store, ("a", said("1")))
        assert contents(store) == {"a": "1"}
        store = self.store_at(kind, tmp_path / "c" / "d")
        store.save(Document(entries={"a": said("1")}))
        assert contents(store) == {"a": "1"}

    def test_a_folder_is_no_recording(self, kind, tmp_path):
        store = self.store_at(kind, tmp_path)
        store.path.mkdir()
        self.assert_refused(store, "read", "load", "write", "save", hint="name a file, not a folder")
        assert list(tmp_path.iterdir()) == [store.path]

    @pytest.mark.parametrize("special", ["a named pipe", "a socket", "a device"])
    @pytest.mark.parametrize("linked", [False, True])
    def test_what_is_not_a_regular_file_is_refused_at_once_and_left_alone(self, kind, special, linked, tmp_path):
        store = self.store_at(kind, tmp_path)
        place = tmp_path / "x" if linked else store.path
        if linked:
            store.path.symlink_to(place)
        make_special(special, place)
        store = self.store_at(kind, tmp_path)
        before = sorted(tmp_path.iterdir())
        attempts = [store.read, store.load, store.write, lambda: store.save(Document()), store.remove_if_empty]
        attempts += [lambda: store.update(lambda document: None), lambda: FoundExchanges(store)]
        for attempt in attempts[: 4 if kind == "sqlite" else None]:
            with pytest.raises(InputError, match=f" is {special}, not a regular file"):
                attempt()
        assert sorted(tmp_path.iterdir()) == before

    def test_a_path_below_a_file_cannot_be_written(self, kind, tmp_path):
        (tmp_path / "file").write_bytes(b"")
        store = self.store_at(kind, tmp_path / "file" / "below")
        self.assert_refused(store, "write", "save", hint="check the path")
        self.assert_refused(store, "read", "load", hint="check the path")
        assert not store.exists()

    def test_a_name_too_long_for_any_file_is_refused(self, kind, tmp_path):
        store = open_store(LOCATIONS[kind].format(tmp_path).replace("run", "x" * 300))
        self.assert_refused(store, "read", "write", "save", hint="check the path")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="has no /proc")
    def test_a_place_where_nobody_may_write_is_refused(self, kind):
        self.assert_refused(self.store_at(kind, "/proc"), "write", "save", hint="check the path")

    def test_a_read_only_folder_can_be_read_and_is_refused_for_writing_at_once(self, kind, open_folder):
        store = self.store_at(kind, open_folder)
        append(store, ("a", said("1")))
        with read_only(open_folder):
            assert contents(store) == {"a": "1"}
            with reading(store) as reader:
                assert reader.repeating("a").exchange.content == "1"
            self.assert_refused(store, "write", "save", "update", "sibling", hint="check the path")
        assert contents(store) == {"a": "1"}

    @pytest.mark.parametrize("foreign", FOREIGN)
    def test_what_is_no_recording_is_refused_and_left_alone(self, kind, foreign, tmp_path):
        store = self.store_at(kind, tmp_path)
        store.path.write_bytes(FOREIGN[foreign])
        for attempt in (store.read, store.load, store.write):
            with pytest.raises(RecordingFormatError) as caught:
                attempt()
            assert caught.value.source == store.location
        assert store.path.read_bytes() == FOREIGN[foreign]
        assert list(tmp_path.iterdir()) == [store.path]

    def test_a_link_to_the_file_stays_a_link(self, kind, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        real = self.store_at(kind, tmp_path / "elsewhere")
        (tmp_path / real.path.name).symlink_to(real.path)
        link = self.store_at(kind, tmp_path)
        append(link, ("a", said("1")))
        append(link, ("a", said("2")))
        assert (tmp_path / real.path.name).is_symlink()
        assert contents(real) == contents(link) == {"a": ["1", "2"]}
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["elsewhere", real.path.name])
        assert [path.name for path in real.path.parent.iterdir()] == [real.path.name]

    def test_a_relative_path_means_the_folder_in_which_it_was_named(self, kind, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        store = open_store(LOCATIONS[kind].format(".").replace("./", ""))
        writer = store.write()
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        writer.close()
        writer.append("a", said("1"))
        writer.close()
        assert contents(store) == {"a": "1"}
        assert list((tmp_path / "other").iterdir()) == []

    def test_nothing_but_the_file_is_left_after_closing(self, kind, tmp_path):
        store = self.store_at(kind, tmp_path)
        append(store, ("a", said("1")))
        assert list(tmp_path.iterdir()) == [store.path]
        store.save(Document())
        store.load()
        assert list(tmp_path.iterdir()) == [store.path]

    def test_the_file_keeps_its_mode(self, kind, tmp_path):
        store = self.store_at(kind, tmp_path)
        append(store, ("a", said("1")))
        store.path.chmod(0o640)
        append(store, ("a", said("2")))
        store.save(store.load())
        assert store.path.stat().st_mode & 0o777 == 0o640

    def test_what_is_written_meanwhile_is_no_more_readable_than_the_file(self, kind, tmp_path):
        store = self.store_at(kind, tmp_path)
        append(store, ("a", said("1")))
        store.path.chmod(0o600)
        writer = store.write()
        writer.append("a", said("2"))
        assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
        assert len(list(tmp_path.iterdir())) > 1
        writer.close()


SIDE_FILES = {"json": (".journal", ".next"), "sqlite": ("-wal", "-shm", "-journal")}


def make_special(special, place):
    if special == "a named pipe":
        os.mkfifo(place)
    elif special == "a device":
        place.symlink_to("/dev/zero")
    else:
        with closing(socket.socket(socket.AF_UNIX)) as server, pytest.MonkeyPatch.context() as patch:
            patch.chdir(place.parent)  # the path of a socket is short
            server.bind(place.name)


class TestLinksAndPipesBeside:
    """Whatever lies where a store has its own files: nothing is written through a link, and nobody waits for a pipe."""

    @pytest.fixture(params=[(kind, suffix) for kind, suffixes in SIDE_FILES.items() for suffix in suffixes])
    def beside(self, request, tmp_path):
        """A recording, and the path of a side file that it does not have now."""
        kind, suffix = request.param
        store = open_store(LOCATIONS[kind].format(tmp_path))
        append(store, ("a", said("1")))
        return store, store.path.with_name(store.path.name + suffix)

    @staticmethod
    def use(store):
        """Try all that reads and writes; each may be refused."""
        for attempt in (
            store.load,
            lambda: append(store, ("b", said("2"))),
            lambda: store.update(lambda document: document.add("c", said("3"))),
            lambda: store.save(Document(entries={"d": said("4")})),
        ):
            with suppress(InputError):
                attempt()

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_link_is_not_followed(self, beside, tmp_path, is_there):
        store, side_file = beside
        victim = tmp_path / "victim"
        if is_there:
            victim.write_bytes(b"precious\n")
        side_file.symlink_to(victim)
        self.use(store)
        assert victim.exists() == is_there
        assert not is_there or victim.read_bytes() == b"precious\n"

    def test_a_pipe_is_not_waited_for(self, beside):
        store, side_file = beside
        os.mkfifo(side_file)
        self.use(store)

    @pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
    def test_what_is_in_the_place_of_a_journal_is_named(self, tmp_path, make):
        store = open_store(tmp_path / "run.json")
        append(store, ("a", said("1")))
        make(tmp_path / "run.json.journal")
        with pytest.raises(InputError, match=r"run\.json\.journal is a (link|named pipe)|is a directory"):
            store.write()

    @pytest.mark.parametrize("kind", FILE_STORES)
    @pytest.mark.parametrize("suffix", [".fresh-1", ".failed"])
    def test_a_run_that_replaces_does_not_follow_one_either(self, kind, suffix, tmp_path):
        store = open_store(LOCATIONS[kind].format(tmp_path))
        append(store, ("a", said("1")))
        victim = tmp_path / "victim"
        victim.write_bytes(b"precious\n")
        store.path.with_name(store.path.name + suffix).symlink_to(victim)
        writer = ReplaceOnCloseWriter(store, "models", "fresh")
        writer.append("a", said("2"))
        writer.keep()
        with suppress(InputError):
            writer.close()
        assert victim.read_bytes() == b"precious\n"


class TestAnswersWrittenByHand:
    """Exchanges with a `when`."""

    def test_they_stay_when_the_others_of_their_key_are_replaced(self, store):
        store.save(Document(entries={"a": [said("old"), Exchange(when="any", content="by hand")]}))
        replace(store, ("a", said("new")))
        assert [exchange.content for exchange in store.load().exchanges("a")] == ["by hand", "new"]

    @pytest.mark.parametrize("position", [0, 1])
    def test_the_single_exchange_beside_them_answers_every_call(self, store, position):
        exchanges = [Exchange(when="any", content="by hand"), Exchange(when="empty", content="this too")]
        exchanges.insert(position, said("plain"))
        store.save(Document(entries={"a": exchanges, "b": [said("listed")], "c": exchanges[position - 1]}))
        with reading(store) as reader:
            repeating = [reader.repeating(key) for key in "abc"]
        assert [stored and stored.exchange.content for stored in repeating] == ["plain", None, None]

    def test_several_exchanges_beside_them_answer_in_order(self, store):
        store.save(Document(entries={"a": [said("1"), Exchange(when="any", content="by hand"), said("2")]}))
        with reading(store) as reader:
            assert reader.repeating("a") is None
