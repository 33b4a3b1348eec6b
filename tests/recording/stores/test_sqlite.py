"""What only a recording in an SQLite database has to deal with."""

import gc
import sqlite3
import subprocess
import sys
import warnings
from contextlib import ExitStack, closing

import pytest
from msgspec import Raw

from offbook.errors import InputError, RecordingFormatError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.match.cursor import Cursor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.sqlite import SqliteStore

from .read_only import read_only


@pytest.fixture
def store(tmp_path):
    return SqliteStore(tmp_path / "run.db")


def execute(store, *statements):
    """Do something to the database that offbook would not."""
    connection = sqlite3.connect(store.path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("begin", [None, "PRAGMA user_version = 0", "PRAGMA journal_mode = WAL"])
def test_a_database_whose_maker_was_cut_off_before_its_tables_is_an_empty_recording(store, begin):
    store.path.touch()
    if begin is not None:
        execute(store, begin)
    assert store.load().entries == {}
    writer = store.write()
    writer.append("a", Exchange(content="1"))
    writer.close()
    assert store.load().entries["a"].content == "1"


def test_a_database_of_something_else_is_not_changed_by_looking_at_it(store):
    execute(store, "CREATE TABLE customers (name TEXT)", "INSERT INTO customers VALUES ('Ada')")
    before = store.path.read_bytes()
    for attempt in (store.read, store.write, lambda: store.save(Document())):
        with pytest.raises(RecordingFormatError, match="not a recording: no such table"):
            attempt()
    assert store.path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            "UPDATE metadata SET value = '3' WHERE name = '_version'",
            "expected a recording of version 2 or older, got 3",
        ),
        ("DELETE FROM metadata", "expected a recording of version 2 or older, got None"),
        ("UPDATE metadata SET value = '[]' WHERE name = '_meta'", "expected a recording"),
        ("UPDATE metadata SET value = 'torn' WHERE name = '_meta'", "metadata"),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(store, change, complaint):
    store.save(Document())
    execute(store, change)
    for attempt in (store.read, store.load, store.write):
        with pytest.raises(RecordingFormatError, match=complaint):
            attempt()


@pytest.mark.parametrize("entry", ["torn", "[]", '{"contents": "x"}', "7"])
def test_an_entry_that_makes_no_sense_is_named(store, entry):
    store.save(Document(entries={"good": Exchange(content="1"), "bad": Exchange(content="2")}))
    execute(store, f"UPDATE exchanges SET entry = '{entry}' WHERE key = 'bad'")
    with pytest.raises(RecordingFormatError) as caught:
        store.load()
    assert caught.value.place.startswith("key 'bad'")
    reader = store.read()
    assert reader.repeating("good").exchange.content == "1"
    reader.close()


def test_an_entry_may_be_edited_as_text(store):
    store.save(Document(entries={"a": Exchange(content="1")}))
    execute(store, """UPDATE exchanges SET entry = '{"content": "edited"}'""")
    assert store.load().entries["a"].content == "edited"


def test_a_damaged_database_is_reported_as_such_however_late_it_shows(store):
    store.save(Document(entries={f"key {number}": Exchange(content="x" * 3000) for number in range(300)}))
    data = bytearray(store.path.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    store.path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        store.load()
    assert caught.value.source == store.location


def test_reading_goes_on_when_the_database_is_closed_in_between(store):
    store.save(Document(entries={f"key {number:03}": Exchange(content="x") for number in range(250)}))
    reader = store.read()
    found = []
    for stored in reader:
        found.append(stored.key)
        reader.close()
    assert found == [f"key {number:03}" for number in range(250)]
    reader.close()


def test_what_is_dropped_unclosed_lets_go_of_the_database_without_a_warning(store, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        writer = store.write()
        reader = store.read()
        assert len(list(tmp_path.iterdir())) > 1
        del writer, reader
        gc.collect()
    assert caught == []
    assert list(tmp_path.iterdir()) == [store.path]


FORK_WHILE_READING = """
import os, sys
from offbook.recording.match.cursor import Cursor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.sqlite import SqliteStore
reader = SqliteStore(sys.argv[1]).read()
seen = 0
for stored in reader:
    seen += 1
    if seen in (1, 100, 150):
        pid = os.fork()
        if not pid:
            os._exit(len(reader) != 250)
        assert os.waitpid(pid, 0)[1] == 0
print(seen)
"""


def test_reading_goes_on_over_a_fork(store):
    store.save(Document(entries={f"key {number}": Exchange(content="x") for number in range(250)}))
    program = [sys.executable, "-c", FORK_WHILE_READING, store.path]
    assert subprocess.run(program, check=True, stdout=subprocess.PIPE, timeout=60).stdout == b"250\n"


def test_readers_do_not_stand_in_a_writers_way(store):
    store.save(Document(entries={"a": Exchange(content="1")}))
    writer = store.write()
    reader = store.read()
    reading = iter(reader)
    next(reading)
    writer.append("b", Exchange(content="2"))
    assert len(reader) == 2
    writer.close()
    reader.close()


def test_what_a_read_only_folder_holds_back_is_an_error_not_an_old_state(open_folder):
    """After a crash the latest exchanges may be in the log beside the database, which reading would have to fold."""
    crashed, store = SqliteStore(open_folder / "crashed.db"), SqliteStore(open_folder / "run.db")
    writer = crashed.write()
    writer.append("a", Exchange(content="1"))
    for suffix in ("", "-wal"):
        (open_folder / f"run.db{suffix}").write_bytes((open_folder / f"crashed.db{suffix}").read_bytes())
    writer.close()
    with read_only(open_folder), pytest.raises(InputError, match="check the path"):
        store.load()
    for path in open_folder.iterdir():
        path.chmod(0o644)
    assert store.load().entries["a"].content == "1"


def without_tool_table(store, *, tools=None):
    """Make the database as it was when tools had no table of their own, and were metadata if they were anything."""
    execute(store, "DROP TABLE tool_exchanges")
    if tools is not None:
        execute(store, f"INSERT INTO metadata VALUES ('_tools', '{tools}')")


def test_a_database_without_a_table_for_tools_can_be_read_where_nothing_can_be_written(open_folder):
    store = SqliteStore(open_folder / "run.db")
    store.save(Document(entries={"a": Exchange(content="1")}))
    without_tool_table(store)
    with read_only(open_folder):
        assert store.load().tools == {}
        reader = store.read()
        assert list(reader.tools) == []
        reader.close()


def test_a_database_without_a_table_for_tools_gets_one_when_it_is_written_to(store):
    store.save(Document(entries={"a": Exchange(content="1")}))
    without_tool_table(store)
    writer = store.write()
    writer.append_tool("get", ToolExchange(result=1))
    writer.close()
    assert store.load().tools == {"get": [ToolExchange(result=1)]}
    without_tool_table(store)
    store.save(Document(tools={"get": ToolExchange(result=2)}))
    assert store.load().tools == {"get": ToolExchange(result=2)}


def test_tools_in_the_metadata_are_read_and_move_to_their_table(store):
    store.save(Document(rest={"_plugin": 1}))
    without_tool_table(store, tools='{"get": [{"result": 1}], "now": {"result": 2}}')
    expected = {"get": [ToolExchange(result=1)], "now": ToolExchange(result=2)}
    document = store.load()
    assert document.tools == expected
    assert document.rest == {"_plugin": 1}
    writer = store.write()
    assert writer.tool_size == 2
    writer.append_tool("get", ToolExchange(result=3))
    writer.close()
    document = store.load()
    assert document.tools == expected | {"get": [ToolExchange(result=1), ToolExchange(result=3)]}
    assert document.rest == {"_plugin": 1}


def test_tools_in_the_metadata_that_make_no_sense_are_refused(store):
    store.save(Document())
    without_tool_table(store, tools='{"get": [{"reslt": 1}]}')
    for attempt in (store.load, store.write):
        with pytest.raises(RecordingFormatError, match="did you mean 'result'"):
            attempt()


@pytest.mark.parametrize("entry", ["torn", "[]", '{"reslt": 1}', "7"])
def test_a_call_of_a_tool_that_makes_no_sense_is_named(store, entry):
    store.save(Document(tools={"good": [ToolExchange(result=1)], "bad": [ToolExchange(result=2)]}))
    execute(store, f"UPDATE tool_exchanges SET entry = '{entry}' WHERE key = 'bad'")
    with pytest.raises(RecordingFormatError) as caught:
        store.load()
    assert caught.value.place.startswith("_tools.bad")


def test_a_tool_that_appears_while_all_is_read_is_in_or_out_as_a_whole(store):
    """The database is read in pages; another may write between them."""
    store.save(Document(tools={"get": [ToolExchange(result=number) for number in range(150)]}))
    reader = store.read()
    reading = iter(reader.tools)
    next(reading)
    writer = store.write()
    writer.append_tool("new", ToolExchange(result=1))
    assert reader.tools.entries().keys() == {"get", "new"}
    assert isinstance(reader.tools.entries()["new"], list)
    writer.close()
    reader.close()


SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


def bytes_on_disk(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def remove_secrets(document):
    """Redact one exchange, and remove others."""
    document.entries["kept"] = Exchange(content="***")
    document.entries.pop("doomed", None)
    document.tools.clear()


@pytest.mark.parametrize("others", ["nobody", "a reader", "a writer", "a foreign connection"])
@pytest.mark.parametrize("edit", ["update", "save"])
def test_what_was_removed_is_nowhere_in_the_files_even_if_others_have_them_open(store, tmp_path, others, edit):
    writer = store.write()
    writer.append("kept", Exchange(content=SECRET))
    for number in range(50):  # fill pages, of which some become free
        writer.append("doomed", Exchange(content=f"{SECRET} {number} " + "x" * 1000))
    writer.append_tool("get", ToolExchange(result=SECRET))
    assert SECRET.encode() in bytes_on_disk(tmp_path)
    with ExitStack() as stack:
        if others != "a writer":
            writer.close()
        if others == "a reader":
            reader = stack.enter_context(closing(store.read()))
            assert len(reader) == 51
        if others == "a foreign connection":
            foreign = stack.enter_context(closing(sqlite3.connect(tmp_path / "run.db")))
            assert foreign.execute("SELECT count(*) FROM exchanges").fetchall() == [(51,)]
        if edit == "update":
            store.update(remove_secrets)
        else:
            document = store.load()
            remove_secrets(document)
            store.save(document)
        assert SECRET.encode() not in bytes_on_disk(tmp_path)
        writer.append("kept", Exchange(content="later"))
        writer.close()
        assert [exchange.content for _, exchange in store.load()] == ["***", "later"]


def test_what_a_connection_without_secure_delete_had_left_is_gone_after_an_edit(store, tmp_path):
    store.save(Document(entries={"kept": Exchange(content="1")}))
    with closing(sqlite3.connect(tmp_path / "run.db")) as careless:
        careless.execute("PRAGMA secure_delete = OFF")
        for number in range(50):
            row = (f"doomed {number}", "", "", 0, f'{{"content": "{SECRET} {"x" * 1000}"}}')
            careless.execute(
                "INSERT INTO exchanges (key, fingerprint, recorded_at, listed, entry) VALUES (?,?,?,?,?)", row
            )
        careless.commit()
        careless.execute("DELETE FROM exchanges WHERE key LIKE 'doomed%'")
        careless.commit()
    assert SECRET.encode() in bytes_on_disk(tmp_path)
    store.update(lambda document: document.add("more", Exchange(content="2")))
    assert SECRET.encode() not in bytes_on_disk(tmp_path)


def test_a_reader_in_the_middle_keeps_the_log_and_that_is_logged(store, tmp_path, caplog):
    """SQLite cannot empty the log while a transaction still reads from it."""
    writer = store.write()
    writer.append("doomed", Exchange(content=SECRET))
    with closing(sqlite3.connect(tmp_path / "run.db")) as foreign, pytest.MonkeyPatch.context() as patch:
        patch.setattr("offbook.recording.stores.sqlite.BUSY_TIMEOUT_S", 0.01)
        foreign.execute("BEGIN")
        assert foreign.execute("SELECT count(*) FROM exchanges").fetchall() == [(1,)]
        store.update(remove_secrets)
        assert "what was removed may stay in run.db-wal until all who have it open close it" in caplog.text
    writer.close()
    assert SECRET.encode() not in bytes_on_disk(tmp_path)


def test_a_request_that_is_not_utf8_is_refused_with_its_key(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/run.db")
    store.save(Document(entries={"greet": Exchange(content="Hi", request=Raw(b'{"model": "m"}'))}))
    with closing(sqlite3.connect(tmp_path / "run.db")) as database:
        database.execute("UPDATE exchanges SET entry = CAST(replace(entry, '\"m\"', X'22FF22') AS BLOB)")
        database.commit()
    with pytest.raises(RecordingFormatError, match=r"greet.*not UTF-8"):
        store.load()


def instructions_of_calls(store, monkeypatch, *, entries, calls=20):
    """Return how many instructions SQLite runs to replay the first calls of a step that has so many entries."""
    store.save(Document(entries={"poll": [Exchange(content=str(n), request_hash=f"{n:064x}") for n in range(entries)]}))
    counted = []

    class CountingConnection(sqlite3.Connection):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.set_progress_handler(lambda: counted.append(1), 1)

    with monkeypatch.context() as patch:
        connect = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *args, **kwargs: connect(*args, factory=CountingConnection, **kwargs))
        with closing(store.read()) as reader:
            cursor, opened = Cursor(reader), len(counted)
            for number in range(calls):
                cursor.use(cursor.match("poll", f"{number:064x}").stored)
            served = len(counted) - opened
            assert [stored.exchange.content for stored in reader if not cursor.is_used(stored)][:1] == [str(calls)]
            return served, (len(counted) - opened - served) / entries


def test_neither_a_call_nor_listing_an_entry_costs_more_in_a_longer_list(tmp_path, monkeypatch):
    short, each_of_few = instructions_of_calls(SqliteStore(tmp_path / "a.db"), monkeypatch, entries=30)
    long, each_of_many = instructions_of_calls(SqliteStore(tmp_path / "b.db"), monkeypatch, entries=3_000)
    assert short <= long < 1.1 * short
    assert each_of_many < 1.1 * each_of_few
