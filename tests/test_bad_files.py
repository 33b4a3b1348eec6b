"""Whatever is in a file, those who read it return or raise InputError, which names the file."""

import re

import pytest

from offbook import FaultPlan, InputError
from offbook.cli.parse import parse_state
from offbook.config.file import load_config
from offbook.observe.json_lines import read_events
from offbook.providers import PriceTable
from offbook.recording.stores.locate import open_store
from offbook.report.exploration.json_report import load_exploration
from offbook.subjects.regression import load_regression
from offbook.workflow.file.load import load_workflow
from offbook.workflow.runs.resumable_run import read_manifest, read_progress

PLAN = '{"faults": [{"at": {"call": 1}, "fault": {"type": "timeout", "after_ms": %s}}]}'
RECORDING = '{"_version": 2, "a": {"content": "x", "latency_ms": %s}}'
REGRESSION = (
    '{"offbook": "regression", "verdict": "hung", "faults": [{"at": {"call": 1}, "fault": {"type": "timeout",'
    ' "after_ms": %s}}], "subject": {"type": "program", "command": ["x"], "recording": "run.json"}}'
)
MANIFEST = (
    '{"id": "1", "workflow": "w", "path": "p", "given_path": "p", "started_in": "/", "files": {}, "version": "1",'
    ' "started_at": "", "steps": 1, "state": {"a": %s}}'
)
PRICES = '{"as_of": "2026-01-01", "models": {"m": {"prompt": %s, "completion": 1}}}'
EVENT = '{"event": "RetryScheduled", "step_id": "a", "provider": "a", "error": "x", "wait_s": %s}\n'
FLOW = "name: w\nstate: {a: %s}\nsteps:\n  - {id: a, type: llm_call, model: m, prompt: Hi}\n"
READERS = {
    "plan": (FaultPlan.load, PLAN),
    "recording": (lambda path: open_store(path).load(), RECORDING),
    "prices": (PriceTable.load, PRICES),
    "regression": (load_regression, REGRESSION),
    "report": (load_exploration, '{"version": %s}'),
    "manifest": (read_manifest, MANIFEST),
    "log": (read_progress, '{"step": "a", "result": {"id": "a", "type": "x", "status": "done", "output": %s}}\n'),
    "events": (
        lambda path: list(read_events(path)),
        EVENT,
    ),
    "state": (lambda path: parse_state({"a": 1}, file=str(path), settings=[]), '{"a": %s}'),
    "config": (load_config, "[run]\nrepeat = %s\n"),
    "workflow": (load_workflow, FLOW),
}
VALUES = {
    "infinite": "1e400",
    "minus infinite": "-1e999999999",
    "huge": "9" * 10_000,
    "deep": "[" * 100_000 + "]" * 100_000,
    "half a pair": '"\\ud800"',
    "cut off": '"x',
    "NUL": "\0",
}
FILES = {
    "nothing": b"",
    "only a byte order mark": b"\xef\xbb\xbf",
    "zeros": b"\0" * 10,
    "null": b"null",
    "list": b"[]",
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
}
AS_LINES = {"log", "events"}
EMPTY = {(reader, content) for reader in ("config", "events") for content in ("nothing", "only a byte order mark")}


def error_of(reader, path):
    with pytest.raises(InputError) as caught:
        READERS[reader][0](path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 2_000
    return caught.value


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("reader", READERS)
def test_a_value_that_cannot_be_read_is_an_error_that_names_the_file(reader, value, tmp_path):
    path = tmp_path / "file"
    path.write_text(READERS[reader][1] % VALUES[value])
    error_of(reader, path)


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_such_file_is_an_error_that_names_it(reader, content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(FILES[content] + b"\n")
    if (reader, content) not in EMPTY:
        error_of(reader, path)


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_is_an_error_that_names_it(reader, tmp_path):
    error_of(reader, tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_a_byte_order_mark_is_skipped_or_named(reader, tmp_path):
    path = tmp_path / "file"
    path.write_text(READERS[reader][1] % 1)
    if reader != "report":
        READERS[reader][0](path)
    path.write_text("\ufeff" + READERS[reader][1] % 1)
    if reader in ("config", "workflow"):
        READERS[reader][0](path)
    else:
        assert re.search("byte order mark|BOM|byte 0|column 1", str(error_of(reader, path)))


@pytest.mark.parametrize("reader", [name for name in READERS if name not in AS_LINES])
def test_a_key_that_is_there_twice_is_an_error_that_names_it(reader, tmp_path):
    path = tmp_path / "file"
    text = READERS[reader][1] % 1
    path.write_text(f"{text}{text}" if reader in ("config", "workflow") else f"{text[:-1]}, {text[1:]}")
    assert "twice" in str(error_of(reader, path))


@pytest.mark.parametrize("reader", ["plan", "recording", "regression"])
def test_a_wait_that_would_never_end_is_refused(reader, tmp_path):
    path = tmp_path / "file"
    path.write_text(READERS[reader][1] % 1e16)
    assert "at most 10000000000" in str(error_of(reader, path))


FOREIGN = {
    "a cassette of vcrpy": "version: 1\ninteractions:\n- request: {method: GET}\n",
    "fixtures of aimock": '{"fixtures": [{"match": {"userMessage": "Hi"}, "response": {}}]}',
    "a HAR archive": '{"log": {"version": "1.2", "entries": []}}',
}


@pytest.mark.parametrize("reader", ["recording", "workflow"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_tool_is_called_by_its_name_with_the_command_that_imports_it(reader, kind, tmp_path):
    path = tmp_path / "file"
    path.write_text(FOREIGN[kind])
    error = str(error_of(reader, path))
    assert f"looks like {kind}, not a {reader}" in error
    assert f"offbook recording import {path} --output" in error


def test_a_recording_with_a_step_named_like_a_file_of_another_tool_is_still_one(tmp_path):
    path = tmp_path / "file"
    path.write_text('{"_version": 2, "log": {"content": "Hello"}, "fixtures": [{"content": "Hello"}]}')
    READERS["recording"][0](path)
