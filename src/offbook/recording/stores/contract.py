"""The contract of every store as a base class of tests, for offbook's stores and those of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from offbook.errors import InputError
from offbook.messages import JsonObject, Usage
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange, hash_arguments
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import RecordingReader, Store
from offbook.recording.transaction import FoundExchanges, ReplaceOnCloseWriter


def said(content: str, *, request_hash: str | None = None, recorded_at: str | None = None) -> Exchange:
    """Return an exchange with this answer."""
    return Exchange(content=content, request_hash=request_hash, recorded_at=recorded_at)


def called(result: object, *, arguments: Any = UNSET, recorded_at: str | None = None) -> ToolExchange:
    """Return a tool exchange with this result."""
    return ToolExchange(result=result, arguments=arguments, recorded_at=recorded_at)


def append(store: Store, *keyed: tuple[str, Exchange]) -> None:
    """Open the store, append each exchange under its key, and close."""
    with closing(store.write()) as writer:
        for key, exchange in keyed:
            writer.append(key, exchange)


def append_tools(store: Store, *named: tuple[str, ToolExchange]) -> None:
    """Open the store, append each exchange of a tool, and close."""
    with closing(store.write()) as writer:
        for tool, exchange in named:
            writer.append_tool(tool, exchange)


def replace(store: Store, *keyed: tuple[str, Exchange]) -> None:
    """Replace the exchanges of each key, as the mode `all` does."""
    with closing(ReplaceOnCloseWriter(store, "models", "all")) as writer:
        for key, exchange in keyed:
            writer.append(key, exchange)


@contextmanager
def reading(store: Store) -> Iterator[RecordingReader]:
    """Open the store for reading until the block ends."""
    with closing(store.read()) as reader:
        yield reader


def contents(store: Store) -> dict[str, str | list[str]]:
    """Return the recorded answers by key: a text, or a list of texts."""
    return {
        key: [exchange.content for exchange in entry] if isinstance(entry, list) else entry.content
        for key, entry in store.load().entries.items()
    }


def results(store: Store) -> JsonObject:
    """Return the recorded results by tool: one, or a list."""
    return {
        tool: [exchange.answer for exchange in entry] if isinstance(entry, list) else entry.answer
        for tool, entry in store.load().tools.items()
    }


def meaning(exchange: Exchange) -> JsonObject:
    """Return what an exchange says, however its JSON is laid out and whether or not it spells out zeros."""
    request = msgspec.json.decode(exchange.request) if bytes(exchange.request) else None
    return msgspec.structs.asdict(exchange) | {"request": request, "usage": exchange.usage or Usage()}


def whole_meaning(document: Document) -> tuple[object, ...]:
    """Return what a recording says, with its metadata."""
    entries = {
        key: [meaning(exchange) for exchange in entry] if isinstance(entry, list) else meaning(entry)
        for key, entry in document.entries.items()
    }
    return document.meta, document.rest, entries, document.tools


class StoreContract:
    """Tests that every store passes. The fixture `location` of a subclass says where a store holds nothing yet.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def location(self):
            return f"mystore://{uuid4()}"
    """

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        """The location of a store that holds nothing yet."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, location: str) -> Store:
        """The store there."""
        return open_store(location)

    def test_what_is_appended_is_read_again(self, store: Store) -> None:
        append(store, ("greet", said("Hello.")))
        with reading(store) as reader:
            (stored,) = reader
            assert stored.key == "greet"
            assert stored.exchange.content == "Hello."
            assert len(reader) == 1

    def test_exchanges_of_one_key_keep_their_order(self, store: Store) -> None:
        append(store, *(("loop", said(str(number))) for number in range(120)))
        assert contents(store) == {"loop": [str(number) for number in range(120)]}

    def test_a_single_exchange_repeats_and_several_answer_in_order(self, store: Store) -> None:
        append(store, ("once", said("a")), ("twice", said("b")), ("twice", said("c")))
        with reading(store) as reader:
            assert {stored.exchange.content: stored.repeats for stored in reader} == {"a": True, "b": False, "c": False}
            once = reader.repeating("once")
            assert once is not None
            assert once.exchange.content == "a"
            assert reader.repeating("twice") is None
            assert reader.repeating("never") is None

    def test_opening_what_is_there_adds_to_it(self, store: Store) -> None:
        append(store, ("a", said("1")), ("b", said("1")))
        append(store, ("a", said("2")), ("c", said("1")))
        assert contents(store) == {"a": ["1", "2"], "b": "1", "c": "1"}

    def test_what_was_read_from_a_recording_can_be_appended_to_another(self, store: Store, tmp_path: Path) -> None:
        with_request = Exchange(content="1", request=msgspec.Raw(b'{"model": "m", "messages": [{"role": "user"}]}'))
        other = open_store(tmp_path / "other.json")
        append(other, ("a", with_request))
        append(store, *other.load())
        assert [(key, meaning(exchange)) for key, exchange in store.load()] == [("a", meaning(with_request))]

    def test_a_writer_knows_what_was_there_when_it_was_opened(self, store: Store) -> None:
        writer = store.write()
        assert writer.size == 0
        assert writer.meta["created_by"].startswith("offbook ")
        writer.add_meta({"normalise": {"whitespace": True}})
        writer.append("a", said("1"))
        writer.append("a", said("2"))
        writer.close()
        writer = store.write()
        writer.close()
        assert writer.size == 2
        assert writer.meta["normalise"] == {"whitespace": True}

    def test_metadata_is_added_to_what_is_there(self, store: Store) -> None:
        store.save(Document(meta={"kept": 1, "changed": 1}, rest={"_plugin": {"get": [{"result": 7}]}}))
        writer = store.write()
        writer.add_meta({"changed": 2, "new": 2})
        writer.append("a", said("1"))
        writer.close()
        document = store.load()
        assert document.meta == {"kept": 1, "changed": 2, "new": 2}
        assert document.rest == {"_plugin": {"get": [{"result": 7}]}}

    def test_metadata_that_cannot_be_written_is_refused_and_the_writer_goes_on(self, store: Store) -> None:
        writer = store.write()
        with pytest.raises(TypeError):
            writer.add_meta({"unwritable": object()})
        writer.append("a", said("1"))
        writer.close()
        assert contents(store) == {"a": "1"}

    def test_opening_without_adding_changes_nothing(self, store: Store) -> None:
        document = Document(entries={"a": said("1"), "b": [said("2")]}, rest={"_plugin": {}})
        store.save(document)
        store.write().close()
        assert whole_meaning(store.load()) == whole_meaning(document)

    def test_a_reader_sees_what_an_open_writer_has_appended(self, store: Store) -> None:
        writer = store.write()
        for number in range(3):
            writer.append("a", said(str(number)))
            assert len(store.load().exchanges("a")) == number + 1
        writer.close()
        assert contents(store) == {"a": ["0", "1", "2"]}

    def test_closing_twice_is_closing_once(self, store: Store) -> None:
        writer = store.write()
        writer.append("a", said("1"))
        writer.close()
        writer.close()
        assert contents(store) == {"a": "1"}

    def test_what_is_appended_after_closing_is_kept_too(self, store: Store) -> None:
        writer = store.write()
        writer.append("a", said("1"))
        writer.close()
        writer.append("a", said("2"))
        assert contents(store) == {"a": ["1", "2"]}
        writer.append("a", said("3"))
        writer.close()
        assert contents(store) == {"a": ["1", "2", "3"]}

    @pytest.fixture
    def reader(self, store: Store) -> Iterator[RecordingReader]:
        append(
            store,
            ("loop", said("1", request_hash="x")),
            ("loop", said("2", request_hash="y")),
            ("loop", said("3", request_hash="x")),
            ("mixed", said("4", request_hash="x")),
            ("mixed", said("5")),
            ("one", said("6")),
            ("other", said("7", request_hash="x")),
        )
        with reading(store) as reader:
            yield reader

    @staticmethod
    def all_found(reader: RecordingReader, key: str | None, fingerprint: str | None) -> list[str]:
        """Return the exchanges that consecutive lookups find."""
        found, after = [], -1
        while (stored := reader.find(key=key, fingerprint=fingerprint, after=after)) is not None:
            found.append(stored.exchange.content)
            after = stored.id
        return found

    @pytest.mark.parametrize(
        ("key", "fingerprint", "expected"),
        [
            ("loop", None, ["1", "2", "3"]),
            ("loop", "x", ["1", "3"]),
            ("loop", "y", ["2"]),
            ("loop", "z", []),
            ("mixed", "x", ["4", "5"]),
            ("mixed", "z", ["5"]),
            ("one", None, ["6"]),
            ("one", "x", ["6"]),
            ("other", "x", ["7"]),
            ("other", "z", []),
            ("none", None, []),
            ("none", "x", []),
            (None, "x", ["1", "3", "4", "7"]),
            (None, "y", ["2"]),
            (None, "z", []),
        ],
    )
    def test_what_fits_is_found_in_order(
        self, reader: RecordingReader, key: str | None, fingerprint: str | None, expected: list[str]
    ) -> None:
        """Under a key, an exchange without a fingerprint fits every one; anywhere, it fits none."""
        assert self.all_found(reader, key, fingerprint) == expected
        last = reader.last(key=key, fingerprint=fingerprint)
        assert (None if last is None else last.exchange.content) == (expected[-1] if expected else None)

    def test_an_empty_fingerprint_is_none(self, store: Store) -> None:
        append(store, ("a", said("1", request_hash="")), ("a", said("2", request_hash="x")))
        with reading(store) as reader:
            assert [stored.fingerprint for stored in reader] == [None, "x"]
            assert self.all_found(reader, "a", "x") == ["1", "2"]

    def test_ids_order_exchanges_as_reading_does(self, reader: RecordingReader) -> None:
        ids = [stored.id for stored in reader]
        assert ids == sorted(set(ids))

    def test_a_list_of_one_stays_a_list(self, store: Store) -> None:
        store.save(Document(entries={"listed": [said("1")], "single": said("2")}))
        with reading(store) as reader:
            assert {stored.key: stored.repeats for stored in reader} == {"listed": False, "single": True}
            assert reader.repeating("listed") is None
        append(store, ("other", said("3")))
        assert contents(store) == {"listed": ["1"], "single": "2", "other": "3"}
        append(store, ("listed", said("4")))
        assert contents(store)["listed"] == ["1", "4"]

    def test_saving_replaces_all_that_was_there(self, store: Store) -> None:
        store.save(Document(meta={"a": 1}, entries={"a": said("1")}, rest={"_a": 1}))
        store.save(Document(meta={"b": 1}, entries={"b": said("1")}))
        assert whole_meaning(store.load()) == ({"b": 1}, {}, {"b": meaning(said("1"))}, {})

    def test_saving_replaces_what_an_open_writer_has_appended_and_the_writer_goes_on(self, store: Store) -> None:
        writer = store.write()
        writer.append("a", said("1"))
        store.save(Document(entries={"b": said("2")}))
        writer.append("c", said("3"))
        writer.close()
        assert contents(store) == {"b": "2", "c": "3"}

    def test_a_save_that_fails_leaves_everything_as_it_was(self, store: Store) -> None:
        append(store, ("a", said("1")))
        with pytest.raises(TypeError):
            store.save(Document(entries={"b": said("2")}, rest={"_plugin": object()}))
        assert contents(store) == {"a": "1"}

    def test_an_update_changes_what_is_there_in_place(self, store: Store) -> None:
        writer = store.write()
        writer.append("a", said("1"))
        writer.append_tool("get", ToolExchange(result=1))
        store.update(lambda document: document.add("b", said("2")))
        writer.append("b", said("3"))
        writer.close()
        assert contents(store) == {"a": "1", "b": ["2", "3"]}
        assert len(store.load().tools) == 1

    def test_an_update_makes_what_is_absent(self, store: Store) -> None:
        store.update(lambda document: document.add("a", said("1")))
        assert contents(store) == {"a": "1"}

    def test_an_update_that_fails_leaves_everything_as_it_was(self, store: Store) -> None:
        append(store, ("a", said("1")))

        def fail(document: Document) -> None:
            document.entries.clear()
            raise LookupError

        with pytest.raises(LookupError):
            store.update(fail)
        assert contents(store) == {"a": "1"}

    def test_a_sibling_is_a_place_of_its_own_until_it_is_removed(self, store: Store) -> None:
        append(store, ("a", said("1")))
        siblings = [store.sibling() for _ in range(2)]
        for number, sibling in enumerate(siblings):
            sibling.save(Document())
            append(sibling, ("b", said(str(number))))
        assert [contents(each) for each in (store, *siblings)] == [{"a": "1"}, {"b": "0"}, {"b": "1"}]
        assert contents(open_store(siblings[0].location)) == {"b": "0"}
        for sibling in siblings:
            sibling.remove()
        assert not any(sibling.exists() for sibling in siblings)
        assert contents(store) == {"a": "1"}

    def test_a_document_of_an_older_version_has_the_current_one_once_something_is_added_to_it(
        self, store: Store
    ) -> None:
        store.save(Document(entries={"a": said("1", request_hash="x")}, version=1))
        assert store.load().version == 1
        append(store, ("b", said("2")))
        with reading(store) as reader:
            assert reader.version == 2
            assert sorted(stored.key for stored in reader) == ["a", "b"]

    def test_it_stays_older_until_no_exchange_is_left_that_would_answer_any_request(self, store: Store) -> None:
        store.save(Document(entries={"a": said("1")}, version=1))
        append(store, ("b", said("2", request_hash="x")))
        with closing(store.write()) as writer:
            writer.append_tool("search", called("found"))
        assert store.load().version == 1
        replace(store, ("a", said("3", request_hash="y")))
        assert store.load().version == 2
        assert contents(store) == {"a": "3", "b": "2"}

    def test_a_tool_call_that_is_added_makes_it_the_current_version_too(self, store: Store) -> None:
        store.save(Document(entries={"a": said("1", request_hash="x")}, version=1))
        with closing(store.write()) as writer:
            writer.append_tool("search", called("found"))
        assert store.load().version == 2
        assert contents(store) == {"a": "1"}

    def test_a_document_of_an_older_version_to_which_nothing_is_added_stays_as_it_is(self, store: Store) -> None:
        store.save(Document(entries={"a": said("1")}, version=1))
        store.write().close()
        assert store.load().version == 1

    def test_what_is_appended_is_read_again_of_tools(self, store: Store) -> None:
        append_tools(store, ("get", called("rain", arguments={"city": "Oslo"})))
        with reading(store) as reader:
            (stored,) = reader.tools
            assert stored.key == "get"
            assert stored.exchange.result == "rain"
            assert not stored.repeats
            assert len(reader) == 0
            assert len(reader.tools) == 1

    def test_calls_are_a_list_even_if_there_is_one(self, store: Store) -> None:
        append_tools(store, ("once", called(1)), *(("often", called(number)) for number in range(300)))
        assert results(store) == {"once": [1], "often": list(range(300))}

    def test_an_object_repeats_until_something_is_added(self, store: Store) -> None:
        store.save(Document(tools={"get": called(1), "put": [called(2)]}))
        with reading(store) as reader:
            repeating = reader.tools.repeating("get")
            assert repeating is not None
            assert repeating.exchange.result == 1
            assert reader.tools.repeating("put") is None
        assert results(store) == {"get": 1, "put": [2]}
        append_tools(store, ("get", called(3)))
        assert results(store) == {"get": [1, 3], "put": [2]}

    def test_models_and_tools_of_one_name_do_not_get_in_each_others_way(self, store: Store) -> None:
        append(store, ("get", said("model")))
        append_tools(store, ("get", called("tool")))
        assert contents(store) == {"get": "model"}
        assert results(store) == {"get": ["tool"]}
        found = FoundExchanges(store)
        store.update(lambda document: bool(found.replace_in(document, [], [], mode="fresh", kinds=["models"])) or None)
        assert contents(store) == {}
        assert results(store) == {"get": ["tool"]}

    def test_a_writer_counts_models_and_tools_apart(self, store: Store) -> None:
        append(store, ("a", said("1")))
        append_tools(store, ("get", called(1)), ("get", called(2)))
        writer = store.write()
        writer.close()
        assert writer.size == 1
        assert writer.tool_size == 2

    def test_a_reader_sees_what_an_open_writer_has_appended_of_tools(self, store: Store) -> None:
        writer = store.write()
        for number in range(3):
            writer.append_tool("get", called(number))
            assert results(store) == {"get": list(range(number + 1))}
        writer.close()

    def test_what_is_appended_after_closing_is_kept_too_of_tools(self, store: Store) -> None:
        writer = store.write()
        writer.close()
        writer.append_tool("get", called(1))
        writer.close()
        assert results(store) == {"get": [1]}

    def test_what_fits_is_found_in_order_of_tools(self, store: Store) -> None:
        oslo, rome = {"city": "Oslo"}, {"city": "Rome"}
        calls = [called(1, arguments=oslo), called(2, arguments=rome), called(3), called(4, arguments=oslo)]
        append_tools(store, *(("get", call) for call in calls), ("put", called(5, arguments=oslo)))
        with reading(store) as reader:
            for arguments, expected in ((oslo, [1, 3, 4]), (rome, [2, 3]), ({}, [3])):
                found, after = [], -1
                while stored := reader.tools.find(key="get", fingerprint=hash_arguments(arguments), after=after):
                    found.append(stored.exchange.result)
                    after = stored.id
                assert found == expected
                last = reader.tools.last(key="get", fingerprint=hash_arguments(arguments))
                assert last is not None
                assert last.exchange.result == expected[-1]

    def test_reading_what_is_not_there_is_refused_with_a_hint(self, store: Store) -> None:
        assert not store.exists()
        for attempt in (store.read, store.load):
            with pytest.raises(InputError) as caught:
                attempt()
            assert caught.value.reason == "no such recording"
            assert caught.value.source == store.location
            assert "record it first" in caught.value.hint
        assert not store.exists()

    @pytest.mark.parametrize("make", [lambda store: store.write().close(), lambda store: store.save(Document())])
    def test_writing_makes_it_empty_and_readable(self, store: Store, make: Callable[[Store], None]) -> None:
        make(store)
        assert store.exists()
        document = store.load()
        assert document.entries == {}
        assert document.meta["created_by"].startswith("offbook ")
