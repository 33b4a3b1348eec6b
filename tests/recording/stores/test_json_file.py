"""What only a recording in a JSON file has to deal with: the journal beside it, and folds that are cut off."""

import gc
import json
import logging
import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from offbook.errors import InputError, RecordingFormatError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.journal import Journal
from offbook.recording.stores.json_file import JsonFileStore
from tests.recording.programs import (
    append_and_close,
    die_at_each_step,
    finish,
    fold_again_and_again,
    save_another,
    start,
)

from .read_only import read_only

FILE, JOURNAL, NEXT = "run.json", "run.json.journal", "run.json.next"


@pytest.fixture
def store(tmp_path):
    return JsonFileStore(tmp_path / FILE)


def contents(store):
    """What is recorded, by key: a text, or a list of texts."""
    return {
        key: [exchange.content for exchange in entry] if isinstance(entry, list) else entry.content
        for key, entry in store.load().entries.items()
    }


def files(folder):
    """Everything in the folder."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def put(folder, state):
    """Have exactly these files in the folder."""
    for path in Path(folder).iterdir():
        path.unlink()
    for name, data in state.items():
        (Path(folder) / name).write_bytes(data)


def line(key, content):
    """A line of the journal."""
    return json.dumps({"key": key, "entry": {"content": content}}).encode() + b"\n"


def file_with(**entries):
    """A recording file."""
    return json.dumps({"_version": 2, "_meta": {}} | {key: {"content": text} for key, text in entries.items()}).encode()


def warnings_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class TestJournal:
    def test_an_appended_exchange_is_in_the_journal_at_once_and_in_the_file_after_closing(self, store, tmp_path):
        writer = store.write()
        before = files(tmp_path)
        writer.append("a", Exchange(content="1"))
        assert files(tmp_path) == before | {JOURNAL: line("a", "1").replace(b": ", b":").replace(b", ", b",")}
        writer.close()
        assert list(files(tmp_path)) == [FILE]
        assert json.loads(store.path.read_bytes())["a"]["content"] == "1"

    def test_a_journal_without_a_file_is_a_recording(self, store, tmp_path):
        put(tmp_path, {JOURNAL: line("a", "1") + line("a", "2")})
        assert store.exists()
        assert contents(store) == {"a": ["1", "2"]}
        assert list(files(tmp_path)) == [FILE]

    def test_a_reader_folds_what_a_dead_writer_left(self, store, tmp_path):
        put(tmp_path, {FILE: file_with(a="1"), JOURNAL: line("a", "2")})
        assert contents(store) == {"a": ["1", "2"]}
        assert list(files(tmp_path)) == [FILE]
        assert contents(store) == {"a": ["1", "2"]}

    def test_a_writer_goes_on_after_another_has_folded_its_journal(self, store, tmp_path):
        writer, other = store.write(), JsonFileStore(store.path)
        for number in range(5):
            writer.append("a", Exchange(content=str(number)))
            other.fold()
            assert list(files(tmp_path)) == [FILE]
        writer.append("a", Exchange(content="5"))
        writer.close()
        assert contents(store) == {"a": [str(number) for number in range(6)]}

    def test_two_writers_of_one_process_do_not_get_in_each_others_way(self, store, tmp_path):
        one, other = store.write(), JsonFileStore(store.path).write()
        one.append("a", Exchange(content="1"))
        other.append("a", Exchange(content="2"))
        one.close()
        other.append("a", Exchange(content="3"))
        other.close()
        assert contents(store) == {"a": ["1", "2", "3"]}
        assert list(files(tmp_path)) == [FILE]

    def test_an_empty_journal_is_taken_away(self, store, tmp_path):
        put(tmp_path, {FILE: file_with(a="1"), JOURNAL: b""})
        assert contents(store) == {"a": "1"}
        assert files(tmp_path) == {FILE: file_with(a="1")}

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_a_last_line_cut_off_anywhere_is_dropped_with_one_warning_and_nothing_else_is(self, tmp_path, caplog, end):
        last = line("b", "ünïcode")
        for size in range(1, len(last) - 1):
            caplog.clear()
            put(tmp_path, {FILE: file_with(a="1"), JOURNAL: line("a", "2") + last[:size] + end})
            assert contents(JsonFileStore(tmp_path / FILE)) == {"a": ["1", "2"]}
            assert warnings_in(caplog) == [f"{tmp_path / JOURNAL}: dropped an incomplete line of {size} bytes"]
            assert list(files(tmp_path)) == [FILE]

    def test_a_last_line_that_lacks_only_its_end_is_kept(self, store, tmp_path, caplog):
        put(tmp_path, {FILE: file_with(a="1"), JOURNAL: line("a", "2").rstrip(b"\n")})
        assert contents(store) == {"a": ["1", "2"]}
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize("torn", [b'{"key": "a", "ent', b"\xff\xfe", b"\0" * 100, b'{"key": "a", "entry": {"c'])
    def test_lines_behind_a_torn_one_are_kept(self, store, tmp_path, caplog, torn):
        put(tmp_path, {FILE: file_with(a="1"), JOURNAL: line("a", "2") + torn})
        journal = Journal(tmp_path / JOURNAL, beside=store.path)
        journal.append(line("a", "3").rstrip())
        journal.append(line("b", "4").rstrip())
        journal.close()
        assert contents(store) == {"a": ["1", "2", "3"], "b": "4"}
        assert warnings_in(caplog) == [f"{tmp_path / JOURNAL}: dropped an incomplete line of {len(torn)} bytes"]

    @pytest.mark.parametrize(
        "foreign",
        [b'{"key": "b", "entry": {"content": "2", "mood": "new"}}\n', b'{"key": "b", "later": {}}\n', b"[]\n"],
    )
    def test_a_whole_line_that_says_something_unknown_is_refused_not_dropped(self, store, tmp_path, foreign):
        state = {FILE: file_with(a="1"), JOURNAL: line("a", "2") + foreign + line("a", "3")}
        put(tmp_path, state)
        for attempt in (store.load, store.read, store.write):
            with pytest.raises(RecordingFormatError) as caught:
                attempt()
            assert caught.value.source == str(tmp_path / JOURNAL)
            assert caught.value.place == "line 2"
        assert files(tmp_path) == state

    @pytest.mark.parametrize("damage", [b"", b"garbage", b"[]", file_with(a="1")[:-9]])
    def test_a_file_damaged_meanwhile_is_an_error_and_the_journal_is_kept(self, store, tmp_path, damage):
        writer = store.write()
        whole = store.path.read_bytes()
        writer.append("a", Exchange(content="1"))
        store.path.write_bytes(damage)
        before = files(tmp_path)
        for attempt in (writer.close, store.load, store.fold, writer.close):
            with pytest.raises(RecordingFormatError) as caught:
                attempt()
            assert caught.value.source == str(store.path)
        assert files(tmp_path) == before
        store.path.write_bytes(whole)
        writer.close()
        assert contents(store) == {"a": "1"}


def tool_line(tool, result):
    """A line of the journal that adds a call of a tool."""
    return json.dumps({"tool": tool, "call": {"arguments": {}, "result": result}}).encode() + b"\n"


def results(store):
    """The results of each tool."""
    return {tool: [call.answer for call in calls] for tool, calls in store.load().tools.items()}


class TestToolLines:
    def test_a_call_of_a_tool_is_in_the_journal_at_once_and_in_the_file_after_closing(self, store, tmp_path):
        writer = store.write()
        before = files(tmp_path)
        writer.append_tool("get", ToolExchange(arguments={}, result=1))
        assert files(tmp_path) == before | {JOURNAL: tool_line("get", 1).replace(b": ", b":").replace(b", ", b",")}
        writer.close()
        assert list(files(tmp_path)) == [FILE]
        assert json.loads(store.path.read_bytes())["_tools"] == {"get": [{"arguments": {}, "result": 1}]}

    def test_calls_of_models_and_tools_share_a_journal(self, store, tmp_path):
        put(tmp_path, {JOURNAL: line("a", "1") + tool_line("get", 1) + line("a", "2") + tool_line("get", 2)})
        assert contents(store) == {"a": ["1", "2"]}
        assert results(store) == {"get": [1, 2]}
        assert list(files(tmp_path)) == [FILE]
        assert results(store) == {"get": [1, 2]}

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_a_last_line_cut_off_anywhere_is_dropped_and_nothing_else_is(self, tmp_path, caplog, end):
        last = tool_line("get", "ünïcode")
        for size in range(1, len(last) - 1):
            caplog.clear()
            put(tmp_path, {JOURNAL: tool_line("get", 1) + last[:size] + end})
            assert results(JsonFileStore(tmp_path / FILE)) == {"get": [1]}
            assert warnings_in(caplog) == [f"{tmp_path / JOURNAL}: dropped an incomplete line of {size} bytes"]

    @pytest.mark.parametrize("foreign", [b'{"tool": "get", "call": {"mood": 1}}\n', b'{"tool": 5}\n'])
    def test_a_whole_line_that_says_something_unknown_is_refused_not_dropped(self, store, tmp_path, foreign):
        state = {JOURNAL: tool_line("get", 1) + foreign}
        put(tmp_path, state)
        with pytest.raises(RecordingFormatError) as caught:
            store.load()
        assert caught.value.place == "line 2"
        assert files(tmp_path) == state

    def test_a_recording_without_tools_is_folded_to_the_same_bytes_as_ever(self, store, tmp_path):
        put(tmp_path, {JOURNAL: line("a", "1")})
        store.load()
        assert json.loads(files(tmp_path)[FILE]).keys() == {"_version", "_meta", "a"}


class TestCutOffFolds:
    """A kill can leave a fold in any state on its way; whoever opens the recording next finds each line once."""

    @staticmethod
    def folded(state):
        """The file that a fold of the state makes."""
        with tempfile.TemporaryDirectory() as folder:
            put(folder, state)
            JsonFileStore(Path(folder) / FILE).fold()
            return files(folder)[FILE]

    @classmethod
    def states(cls, before):
        """Every state on the way of folding `before`, in order."""
        if NEXT in before and sha256(before[NEXT]).hexdigest().encode() in before[JOURNAL]:
            yield "as it was", before
            before = {FILE: before[NEXT], JOURNAL: before[JOURNAL]}
        data = cls.folded(before)
        mark = json.dumps({"folded": sha256(data).hexdigest()}).encode() + b"\n"
        marked = before | {JOURNAL: before[JOURNAL] + mark}
        yield "nothing done", before
        yield "next empty", before | {NEXT: b""}
        yield "next half written", before | {NEXT: data[: len(data) // 2]}
        yield "next written", before | {NEXT: data}
        yield "mark torn", before | {NEXT: data, JOURNAL: before[JOURNAL] + mark[:20]}
        yield "marked", marked | {NEXT: data}
        yield "swapped", marked | {FILE: data}
        yield "journal removed", {FILE: data}

    @staticmethod
    def appended(state, data):
        """The state after a writer that was open all the time has appended a line."""
        with tempfile.TemporaryDirectory() as folder:
            put(folder, state)
            journal = Journal(Path(folder) / JOURNAL, beside=Path(folder) / FILE)
            journal.append(data.rstrip(b"\n"))
            journal.close()
            return files(folder)

    @classmethod
    @cache
    def all_states(cls):
        """Each state with what it must be read as: of one fold, and with a line appended in it, of the next fold."""
        expected = {"a": ["1", "2"], "b": "1", "c": "1"}
        before = {FILE: file_with(a="1", b="1"), JOURNAL: line("a", "2") + line("c", "1")}
        found = []
        for name, state in cls.states(before):
            found.append((name, state, expected))
            longer = cls.appended(state, line("c", "2"))
            further = [(f"{name}, then {then}", state) for then, state in cls.states(longer)]
            found += [(name, state, expected | {"c": ["1", "2"]}) for name, state in further]
        return found

    @classmethod
    def some_states(cls):
        """Those of one fold, and of the next fold behind a mark that is torn or whole."""
        first = [found for found in cls.all_states() if ", then " not in found[0]]
        return first + [found for found in cls.all_states() if found[0].startswith(("mark torn,", "marked,"))]

    def test_what_was_recorded_is_neither_lost_nor_doubled(self, tmp_path):
        for name, state, expected in self.all_states():
            put(tmp_path, state)
            assert contents(JsonFileStore(tmp_path / FILE)) == expected, name
            assert list(files(tmp_path)) == [FILE], name
            assert contents(JsonFileStore(tmp_path / FILE)) == expected, name

    def test_a_writer_adds_to_it(self, tmp_path):
        for name, state, expected in self.some_states():
            put(tmp_path, state)
            writer = JsonFileStore(tmp_path / FILE).write()
            writer.append("d", Exchange(content="1"))
            writer.close()
            assert contents(JsonFileStore(tmp_path / FILE)) == expected | {"d": "1"}, name
            assert list(files(tmp_path)) == [FILE], name

    def test_who_may_only_read_reads_the_same(self, open_folder):
        for name, state, expected in self.some_states():
            put(open_folder, state)
            with read_only(open_folder):
                assert contents(JsonFileStore(open_folder / FILE)) == expected, name
            assert files(open_folder) == state, name

    def test_a_save_replaces_it(self, tmp_path):
        for name, state, _ in self.some_states():
            put(tmp_path, state)
            JsonFileStore(tmp_path / FILE).save(Document(entries={"z": Exchange(content="9")}))
            assert contents(JsonFileStore(tmp_path / FILE)) == {"z": "9"}, name
            assert list(files(tmp_path)) == [FILE], name

    def test_a_save_that_cannot_be_written_leaves_it_as_it_was(self, open_folder):
        for name, state, expected in self.some_states():
            put(open_folder, state)
            with read_only(open_folder), pytest.raises(InputError, match="permission denied"):
                JsonFileStore(open_folder / FILE).save(Document())
            assert contents(JsonFileStore(open_folder / FILE)) == expected, name

    def test_calls_of_tools_are_neither_lost_nor_doubled(self, tmp_path):
        before = {FILE: b'{"_version": 2, "_tools": {"get": [{"result": 1}]}}', JOURNAL: tool_line("get", 2)}
        for name, state in self.states(before):
            for then, further in self.states(self.appended(state, tool_line("get", 3))):
                put(tmp_path, further)
                assert results(JsonFileStore(tmp_path / FILE)) == {"get": [1, 2, 3]}, (name, then)
                assert list(files(tmp_path)) == [FILE], (name, then)

    def deaths(self, tmp_path, name, program):
        """For each step at which the program was killed: what it had told before, and the recording it left."""
        state = next(state for other, state, _ in self.all_states() if other == name)
        (tmp_path / "template").mkdir()
        put(tmp_path / "template", state)
        printed, _ = finish(start(die_at_each_step, tmp_path / "template", tmp_path, program.__name__))
        for block in printed.split("copy ")[1:]:
            number, *words = block.split()
            yield words, contents(JsonFileStore(tmp_path / number / FILE))

    @pytest.mark.parametrize("name", ["nothing done", "marked"])
    def test_a_kill_at_any_step_of_appending_and_folding_loses_and_doubles_nothing(self, tmp_path, name):
        endings = set()
        for number, (printed, left) in enumerate(self.deaths(tmp_path, name, append_and_close)):
            models = list(left.pop("added", []))
            tools = results(JsonFileStore(tmp_path / str(number) / FILE)).get("added", [])
            assert left == {"a": ["1", "2"], "b": "1", "c": "1"}
            assert models[: len(printed[::2])] == printed[::2]
            assert tools[: len(printed[1::2])] == printed[1::2]
            assert len(models) + len(tools) <= len(printed) + 1
            endings.add(len(printed))
        assert endings == {0, 1, 2, 3, 4}

    @pytest.mark.parametrize("name", ["nothing done", "marked"])
    def test_a_kill_at_any_step_of_saving_leaves_the_old_recording_or_the_new(self, tmp_path, name):
        old, new = {"a": ["1", "2"], "b": "1", "c": "1"}, {"new": "1"}
        lefts = []
        for printed, left in self.deaths(tmp_path, name, save_another):
            assert left in ([new] if printed else [old, new])
            lefts.append(left)
        assert old in lefts
        assert new in lefts


class TestFolding:
    def test_what_stands_in_the_way_of_a_fold_does_not_stand_in_the_way_of_reading(self, store, tmp_path, caplog):
        writer = store.write()
        writer.append("a", Exchange(content="1"))
        (tmp_path / NEXT).mkdir()
        assert contents(store) == {"a": "1"}
        writer.close()
        assert len(warnings_in(caplog)) == 1
        assert warnings_in(caplog)[0].endswith(f"what was recorded stays in {JOURNAL}")
        (tmp_path / NEXT).rmdir()
        assert contents(store) == {"a": "1"}
        assert list(files(tmp_path)) == [FILE]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may write where others may only read")
    def test_who_may_only_read_sees_a_whole_recording_however_fast_another_folds(self, open_folder):
        store = JsonFileStore(open_folder / FILE)
        store.save(Document(entries={"loop": [Exchange(content="first")]}))
        process = start(fold_again_and_again, store.path, 80)
        process.stdout.readline()
        seen = 0
        with read_only(open_folder):
            while process.poll() is None:
                first, *numbers = contents(store)["loop"]
                assert first == "first"
                assert numbers == [str(number) for number in range(len(numbers))]
                assert len(numbers) >= seen
                seen = len(numbers)
        finish(process)
        assert len(store.load().exchanges("loop")) == 81

    def test_entries_written_by_hand_mean_the_same_after_a_fold(self, store, tmp_path):
        by_hand = {
            "plain": {"content": "Hi"},
            "empty": {},
            "cut": {"content": "Hi", "finish_reason": "length", "latency_ms": 12, "cost_usd": 0.5, "provider": "p"},
            "counted": {"content": "Hi", "usage": {"prompt_tokens": 3}},
            "calls": {"tool_calls": [{"name": "get"}, {"name": "put", "arguments": "{torn", "reasoning": "so"}]},
            "listed": [{"content": "Hi"}],
            "failing": [{"fault": {"type": "timeout", "after_ms": 5}}, {"fault": {"type": "connection_reset"}}],
            "streamed": {"content": "Hi", "chunks": [[0, "H"], [1, {"reasoning": "?"}], [2, "i"]]},
            "broken": {"content": "Hi", "fault": {"type": "stream_truncate", "after_chunks": 1}, "finish_reason": None},
            "asked": {"content": "Hi", "request_hash": "x", "request": {"messages": [{"role": "user"}]}},
            "Grüße/🎭": {"content": "ü"},
            "_tools": {"get": [{"arguments": {}, "result": 7}]},
            "_meta": {"made": "by hand"},
            "_version": 2,
        }
        store.path.write_text(json.dumps(by_hand, indent=7))
        before = store.load()
        writer = store.write()
        writer.append("added", Exchange(content="1"))
        writer.close()
        after = store.load()
        assert after.entries.pop("added").content == "1"
        assert after.meta == before.meta
        assert after.rest == before.rest
        assert list(after.entries) == list(before.entries)
        for key, exchange in before:
            assert isinstance(after.entries[key], list) == isinstance(before.entries[key], list)
            answers = [other.response(model="m", provider="p") for other in after.exchanges(key)]
            assert exchange.response(model="m", provider="p") in answers
            entries = [(other.fault, other.request_hash, other.timed_deltas()) for other in after.exchanges(key)]
            assert (exchange.fault, exchange.request_hash, exchange.timed_deltas()) in entries

    def test_a_writer_that_was_dropped_unclosed_folds(self, store, tmp_path):
        writer = store.write()
        writer.append("a", Exchange(content="1"))
        del writer
        gc.collect()
        assert list(files(tmp_path)) == [FILE]
        assert contents(store) == {"a": "1"}

    def test_a_writer_dropped_unclosed_over_a_damaged_file_warns_and_keeps_its_journal(self, store, tmp_path, caplog):
        writer = store.write()
        writer.append("a", Exchange(content="1"))
        store.path.write_bytes(b"garbage")
        del writer
        gc.collect()
        assert len(warnings_in(caplog)) == 1
        assert sorted(files(tmp_path)) == [FILE, JOURNAL]

    def test_a_writer_whose_folder_is_gone_can_be_closed_but_not_appended_to(self, store, tmp_path):
        writer = store.write()
        put(tmp_path, {})
        tmp_path.rmdir()
        writer.close()
        with pytest.raises(InputError, match="no such file") as caught:
            writer.append("a", Exchange(content="1"))
        assert caught.value.source == str(store.path)
        writer.close()

    def test_a_writer_of_a_recording_that_was_deleted_makes_it_anew(self, store, tmp_path):
        writer = store.write()
        writer.append("a", Exchange(content="1"))
        put(tmp_path, {})
        writer.append("b", Exchange(content="2"))
        writer.close()
        assert contents(store) == {"b": "2"}


@pytest.mark.parametrize("value", ["1e400", "9" * 5_000, "[" * 5_000 + "]" * 5_000])
def test_a_complete_line_with_a_value_that_cannot_be_read_is_not_dropped(store, tmp_path, value):
    (tmp_path / FILE).write_text('{"_version": 2}')
    line = f'{{"key": "a", "exchange": {{"content": "x", "latency_ms": {value}}}}}'
    (tmp_path / JOURNAL).write_text(f"{line}\n")
    with pytest.raises(RecordingFormatError, match=r"run\.json\.journal: line 1: "):
        store.load()
