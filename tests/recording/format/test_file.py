"""The recording file: what is read, what is refused and how, and that writing is the inverse of reading."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import asdict

from offbook import MockProvider
from offbook.errors import InputError, RecordingFormatError
from offbook.faults import FAULT_TYPES, ConnectionReset, HttpError, MalformedResponse, StreamTruncate, Timeout
from offbook.messages import Usage
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import ABSENT, Exchange, RecordedToolCall, StreamPiece, ToolCallPiece
from offbook.recording.format.file import (
    MAX_FILE_BYTES,
    MAX_TEXT_CHARS,
    document_from_dict,
    parse_document,
    render_document,
)
from offbook.recording.format.keys import unfit_reason
from tests.recording.stores.strategies import wires

SAMPLE_WITH_USAGE = """{
  "_version": 2,
  "summarize": {
    "content": "The article argues that...",
    "model": "claude-sonnet-4-20250514",
    "usage": {"prompt_tokens": 412, "completion_tokens": 88, "total_tokens": 500},
    "cost_usd": 0.00264,
    "latency_ms": 1843.2,
    "finish_reason": "stop"
  }
}"""
SAMPLE_WITH_FAULTS = """{
  "step_classify": {"content": "question", "model": "gpt-4o-mini",
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}, "cost_usd": 0.0001},
  "step_answer": {"fault": {"type": "timeout", "after_ms": 5000}},
  "step_summarize": {"fault": {"type": "http_error", "status_code": 429, "headers": {"Retry-After": "30"},
    "body": "Rate limit exceeded"}},
  "step_explain": {"fault": {"type": "http_error", "status_code": 500, "body": "Internal server error"}},
  "step_translate": {"fault": {"type": "malformed_response", "raw": "not valid json"}},
  "step_stream_long": {"fault": {"type": "stream_truncate", "after_chunks": 3, "raise": "ConnectionError"}}
}"""


def refused(data, *, source="run.json"):
    """The error with which the bytes are refused."""
    with pytest.raises(RecordingFormatError) as caught:
        parse_document(data if isinstance(data, bytes) else data.encode(), source=source)
    error = caught.value
    assert error.source == source
    assert str(error).startswith(f"{source}: ")
    assert len(str(error).splitlines()) <= 2
    return error


def test_an_entry_with_usage_cost_and_latency_is_read():
    document = parse_document(SAMPLE_WITH_USAGE.encode(), source="x")
    response = document.entries["summarize"].response(model="m", provider="p")
    assert document.version == 2
    assert document.meta == {}
    assert document.rest == {}
    assert response.content == "The article argues that..."
    assert response.model == "claude-sonnet-4-20250514"
    assert response.usage == Usage(412, 88, 500)
    assert response.cost_usd == 0.00264
    assert response.latency_ms == 1843.2
    assert response.finish_reason == "stop"


def test_a_file_with_every_kind_of_fault_is_read():
    document = parse_document(SAMPLE_WITH_FAULTS.encode(), source="x")
    assert document.version == 1
    assert document.entries["step_classify"].content == "question"
    assert {key: exchange.fault for key, exchange in document if exchange.fault} == {
        "step_answer": Timeout(5000),
        "step_summarize": HttpError(429, {"Retry-After": "30"}, "Rate limit exceeded"),
        "step_explain": HttpError(500, body="Internal server error"),
        "step_translate": MalformedResponse("not valid json"),
        "step_stream_long": StreamTruncate(3, "ConnectionError"),
    }


def test_a_mix_of_fault_and_success_is_read():
    text = '{"first": {"fault": {"type": "http_error", "status_code": 500}}, "second": {"content": "success"}}'
    document = parse_document(text.encode(), source="x")
    assert document.entries["first"].fault == HttpError(500)
    assert document.entries["second"].content == "success"


def test_without_a_version_it_is_1_and_only_a_lenient_reader_takes_it(tmp_path):
    path = tmp_path / "old.json"
    path.write_text('{"greet": {"content": "Hello."}}')
    assert MockProvider(path)
    with pytest.raises(RecordingFormatError) as caught:
        MockProvider(path, strict=True)
    assert caught.value.source == str(path)
    assert caught.value.place == "_version"
    assert "record it again" in caught.value.hint


def test_responses_given_as_a_dict_have_the_current_version():
    assert document_from_dict({"a": {"content": "x"}}, source="responses").version == 2
    assert document_from_dict({"_version": 1, "a": {"content": "x"}}, source="responses").version == 1


def test_a_newer_version_is_refused():
    error = refused('{"_version": 3, "a": {"content": "x"}}')
    assert error.place == "_version"
    assert "upgrade" in error.hint


@pytest.mark.parametrize("version", ['"2"', "0", "-1", "2.5", "true", "null", "[2]"])
def test_a_version_that_is_no_number_from_1_is_refused(version):
    error = refused(f'{{"_version": {version}}}')
    assert error.place == "_version"
    assert error.hint == "write 2"


def test_metadata_is_kept_whatever_it_is():
    text = '{"_version": 2, "_meta": {"created_by": "me", "x": [1]}, "_plugin": {"get": []}, "_x": 5}'
    document = parse_document(text.encode(), source="x")
    assert document.meta == {"created_by": "me", "x": [1]}
    assert document.rest == {"_plugin": {"get": []}, "_x": 5}
    assert json.loads(render_document(document)) == json.loads(text)


def test_metadata_of_the_wrong_type_is_refused():
    assert refused('{"_meta": [1]}').place == "_meta"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "", "the file is empty"),
        (" \n ", "", "the file is empty"),
        ('{"a": {"content": "x"', "line 1, column 22", "ends in the middle"),
        ('{\n "a": {"content": "x"},\n "b": {"cont', "line 3, column 13", "ends in the middle"),
        ('{\n "a": {"content": nope}}', "line 2, column 20", "invalid character"),
        ('{"a": {"content": "x"},}', "line 1, column 2", "trailing comma"),
        ('{"a": {"content": "x"}} {}', "line 1, column 2", "trailing characters"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text, place, reason):
    error = refused(text)
    assert error.place.startswith(place)
    assert bool(error.place) == bool(place)
    assert reason in error.reason
    assert error.hint == "fix the JSON there, restore the file from version control, or record again"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "expected an object, got a list"),
        ('"text"', "expected an object, got a string"),
        ("null", "expected an object, got null"),
        ('{"choices": []}', "looks like an API response, not a recording"),
        ('{"object": "list", "data": [{"id": "demo"}]}', "looks like an API response, not a recording"),
        (
            '{"id": "msg", "role": "assistant", "content": [{"text": "Hi"}]}',
            "looks like an API response, not a recording",
        ),
        ('{"model": "m", "messages": []}', "looks like an API request, not a recording"),
    ],
)
def test_json_that_is_something_else_is_refused_with_what_a_recording_is_like(text, reason):
    error = refused(text)
    assert error.reason == reason
    assert error.place == ""
    assert error.hint == 'a recording is like {"_version": 2, "greet": {"content": "Hello."}}; --record makes one'


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ('{"faults": [{"at": {}, "fault": {"type": "timeout"}}]}', "a plan of faults", "--plan x.json"),
        ('{"version": 1, "subject": "f", "explored": []}', "a JSON report of explore", "that the report is about"),
        ('{"version": 1, "passed": true, "scenarios": []}', "a JSON report of test", "that the report is about"),
        ('{"exit_code": 0, "command": ["x"], "mode": "record"}', "a JSON report of exec", "that the report is about"),
        ('{"offbook": "regression", "verdict": "wrong", "faults": []}', "a regression file", "replay --plan x.json"),
        ('{"mcpServers": {"notes": {"command": "x"}}}', "a config of MCP servers", "--mcp x.json"),
        ('{"name": "x", "dependencies": {}}', "a file of npm", "a recording is like"),
        ("<!doctype html>\n<html><title>offbook</title>", "an HTML report", "that the report is about"),
        ("<html><title>Hi</title>", "an HTML page", "a recording is like"),
        ('<?xml version="1.0"?>\n<testsuites name="x">', "a JUnit report", "that the report is about"),
        ('<?xml version="1.0"?>\n<svg>', "an SVG picture", "a recording is like"),
        ("name: triage\nsteps:\n  - id: a\n", "a workflow", "offbook replay x.json --recording PATH"),
        ('[agent]\nhandler = "a:b"\n', "a config of offbook", "a recording is like"),
        ('"""An agent."""\n\nimport openai\n', "a Python file", "a recording is like"),
        ('{"event": "ReplayServed"}\n{"event": "x"}\n', "a file of events", "a recording is like"),
        ("interactions:\n- request: {}\n", "a cassette of vcrpy", "offbook recording import x.json"),
        ("SQLite format 3\0", "a database", "sqlite:///x.json"),
    ],
)
def test_a_file_that_is_often_beside_recordings_is_called_by_its_name(text, kind, hint):
    with pytest.raises(RecordingFormatError, match=f"looks like {kind}.*, not a recording") as caught:
        parse_document(text.encode(), source="x.json")
    assert hint in caught.value.hint


def test_keys_of_a_recording_may_be_those_of_something_else():
    assert parse_document(b'{"_version": 2, "choices": {"content": "Hi"}}', source="run.json").size == 1


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{"a": "Hello."}', "key 'a'", "got a string"),
        ('{"a": 5}', "key 'a'", "got an integer"),
        ('{"a": null}', "key 'a'", "got null"),
        ('{"a": []}', "key 'a'", "the list is empty"),
        ('{"a": ["x"]}', "key 'a'[0]", "got a string"),
        ('{"a": {"content": 5}}', "key 'a'.content", "expected a string, got an integer"),
        ('{"a": {"content": null}}', "key 'a'.content", "expected a string, got null"),
        ('{"a": {"usage": {"prompt_tokens": "1"}}}', "key 'a'.usage.prompt_tokens", "expected an integer"),
        ('{"a": [{"content": "x"}, {"latency_ms": "1"}]}', "key 'a'[1].latency_ms", "expected a number"),
        ('{"a": {"tool_calls": {}}}', "key 'a'.tool_calls", "expected a list"),
        ('{"a": {"tool_calls": [{"id": "x"}]}}', "key 'a'.tool_calls[0]", "the field name is missing"),
        ('{"a": {"chunks": ["x"]}}', "key 'a'.chunks[0]", "expected a list"),
        ('{"a": {"chunks": [["x", 0.0]]}}', "key 'a'.chunks[0][0]", "expected a number"),
        ('{"a": {"fault": "timeout"}}', "key 'a'.fault", "expected an object"),
        ('{"a": {"fault": {"type": "timeout", "after_ms": -1}}}', "key 'a'.fault.after_ms", "of at least 0"),
        (
            '{"a": {"fault": {"type": "stream_truncate", "after_chunks": -1}}}',
            "key 'a'.fault.after_chunks",
            "of at least 0",
        ),
        ('{"a": {"fault": {"type": "stream_truncate", "raise": "Boom"}}}', "key 'a'.fault.raise", "no exception"),
    ],
)
def test_an_entry_of_the_wrong_shape_is_refused_with_its_place_and_a_hint(text, place, reason):
    error = refused(text)
    assert error.place == place
    assert reason in error.reason
    assert error.hint


@pytest.mark.parametrize(
    ("entry", "place", "suggestion", "listed"),
    [
        ('{"contnt": "x"}', "", "content", "usage"),
        ('[{"content": "x"}, {"mdel": "x"}]', "[1]", "model", "usage"),
        ('{"tool_calls": [{"name": "x", "argument": {}}]}', ".tool_calls[0]", "arguments", "id"),
        ('{"chunks": [[0, {"reasonin": "x"}]]}', ".chunks[0][1]", "reasoning", "tool_call"),
        ('{"chunks": [[0, {"tool_call": {"index": 0, "idx": 1}}]]}', ".chunks[0][1].tool_call", "id", "arguments"),
        ('{"fault": {"type": "timeout", "after": 5}}', ".fault", "after_ms", ""),
        ('{"fault": {"type": "http_error", "status_code": 500, "header": {}}}', ".fault", "headers", "body"),
        (
            '[{"fault": {"type": "timeout"}}, {"fault": {"headers": {}, "statuscode": 1, "type": "http_error"}}]',
            "[1].fault",
            "status_code",
            "body",
        ),
    ],
)
def test_an_unknown_field_is_refused_with_the_name_that_was_meant(entry, place, suggestion, listed):
    error = refused(f'{{"a": {entry}}}')
    assert error.place == f"key 'a'{place}"
    assert "unknown field" in error.reason
    assert error.hint.startswith(f"did you mean '{suggestion}'? fields: ")
    assert listed in error.hint


def test_an_unknown_field_that_is_like_no_other_is_refused_with_the_list():
    error = refused('{"a": {"fault": {"type": "connection_reset", "zzz": 1}}}')
    assert error.hint == "it has no fields besides type"
    assert refused('{"a": {"zzz": 1}}').hint.startswith("fields: chunks, content,")


@pytest.mark.parametrize("fault", ['{"type": "zzz"}', '{"after_ms": 5}'])
def test_an_unknown_fault_is_refused_with_the_list(fault):
    error = refused(f'{{"a": [{{"content": "x"}}, {{"fault": {fault}}}]}}')
    assert error.place.startswith("key 'a'[1].fault")
    assert error.hint.endswith(f"fault types: {', '.join(sorted(FAULT_TYPES))}")


def test_a_fault_without_a_field_that_it_needs_is_refused_with_an_example():
    error = refused('{"a": {"fault": {"type": "http_error", "body": "x"}}}')
    assert "the field status_code is missing" in error.reason
    assert error.hint == 'for example {"type":"http_error","status_code":503}'


@pytest.mark.parametrize("key", ["", "../a", "a/../../etc", "a\\u0000b", "\\u001b[2J", "a\\nb", "x" * 513])
def test_an_unfit_key_is_refused_and_shown_harmlessly(key):
    error = refused(f'{{"{key}": {{"content": "x"}}}}')
    assert error.place.startswith("key ")
    assert str(error).replace("\n", "").isprintable()
    assert "512" in error.hint


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"a": {"content": "\xff"}}', "line 1, column 20"),
        (b'{\n"_x": "\xff"}', "line 2, column 8"),
        (b'{"\xff": {}}', "line 1, column 3"),
        (b'{"a": {"request": "\xff"}}', "line 1, column 20"),
    ],
)
def test_what_is_not_utf_8_is_refused_with_its_place(data, place):
    error = refused(data)
    assert error.place == place
    assert "not UTF-8" in error.reason


@pytest.mark.parametrize("where", ['"_x": %s', '"a": {"request": %s}', '"a": %s'])
def test_what_is_nested_without_end_is_refused(where):
    error = refused("{" + where % ("[" * 100_000 + "]" * 100_000) + "}")
    assert error.reason in ("nested too deep", "expected an object, got a list")


@pytest.mark.parametrize("value", ["1e999", '{"x": -1e999}'])
def test_numbers_beyond_all_range_are_refused(value):
    assert refused(f'{{"_x": {value}}}').place == "key '_x'"


def test_a_file_over_the_limit_is_refused_without_being_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2 * MAX_FILE_BYTES)
    with pytest.raises(
        RecordingFormatError, match=f"{2 * MAX_FILE_BYTES} bytes; the maximum .* {MAX_FILE_BYTES}"
    ) as caught:
        MockProvider(path)
    assert caught.value.source == str(path)
    assert "sqlite:///" in caught.value.hint


def test_a_text_over_the_limit_is_refused_and_one_at_it_is_not():
    long = b"x" * MAX_TEXT_CHARS
    assert len(parse_document(b'{"a": {"content": "%s"}}' % long, source="x").entries["a"].content) == MAX_TEXT_CHARS
    error = refused(b'{"a": [{"content": "x%s"}]}' % long)
    assert error.place == "key 'a'"
    assert error.hint == "split it over several entries"
    assert str(MAX_TEXT_CHARS) in error.reason


@pytest.mark.parametrize("responses", [[1], "text", 5, {"a": object()}, {"a": {"content": "\ud800"}}, {5: {}}])
def test_responses_that_are_no_dict_of_json_are_refused(responses):
    with pytest.raises(RecordingFormatError) as caught:
        MockProvider(responses=responses)
    assert caught.value.source == "responses"
    assert caught.value.hint


def test_responses_are_checked_like_a_file():
    with pytest.raises(RecordingFormatError, match="did you mean 'content'"):
        MockProvider(responses={"a": {"contnt": "x"}})


texts = st.text(max_size=20)
numbers = st.floats(0, 1e9, allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
raws = st.just(ABSENT) | objects.map(lambda value: Raw(orjson.dumps(value)))
faults = st.one_of(
    st.just(ConnectionReset()),
    st.builds(HttpError, st.integers(100, 599), st.dictionaries(texts, texts, max_size=2), texts),
    st.builds(MalformedResponse, texts),
    st.builds(
        StreamTruncate, st.integers(0, 9), st.sampled_from(["ConnectionError", "TimeoutError", "clean", "malformed"])
    ),
    st.builds(Timeout, numbers),
)
pieces = st.one_of(
    texts,
    texts.map(lambda text: StreamPiece(reasoning=text)),
    st.builds(
        StreamPiece, tool_call=st.builds(ToolCallPiece, st.integers(0, 3), st.none() | texts, st.none() | texts, texts)
    ),
)
exchanges = st.builds(
    Exchange,
    content=texts,
    model=texts,
    provider=texts,
    usage=st.none() | st.builds(Usage.of, st.integers(0, 99), st.integers(0, 99), cached=st.integers(0, 9)),
    cost_usd=numbers,
    latency_ms=numbers,
    finish_reason=st.none() | st.sampled_from(["stop", "length", "tool_calls"]),
    tool_calls=st.none()
    | st.lists(st.builds(RecordedToolCall, name=texts, arguments=objects | texts, id=texts), max_size=2),
    reasoning=st.none() | texts,
    chunks=st.none() | st.lists(st.tuples(numbers, pieces), max_size=3),
    fault=st.none() | faults,
    recorded_at=st.none() | texts,
    request_hash=st.none() | texts,
    request=raws,
    wire=st.none() | wires,
)
keys = texts.filter(lambda key: not unfit_reason(key))
documents = st.builds(
    Document,
    meta=objects,
    entries=st.dictionaries(keys, exchanges | st.lists(exchanges, min_size=1, max_size=3), max_size=3),
    rest=st.dictionaries(texts.map(lambda name: f"_x{name}"), json_values, max_size=2),
)


def fields_of(exchange):
    """The exchange as values that compare; one that tells no usage has used nothing."""
    request = orjson.loads(bytes(exchange.request) or b"null")
    return asdict(exchange) | {"usage": exchange.usage or Usage(), "request": request}


def plain(document):
    entries = {key: [fields_of(exchange) for exchange in document.exchanges(key)] for key in document.entries}
    listed = {key for key, entry in document.entries.items() if isinstance(entry, list)}
    return entries, listed, document.meta, document.rest, document.version


@given(documents)
def test_reading_what_was_written_gives_the_same(document):
    assert plain(parse_document(render_document(document), source="x")) == plain(document)


@given(documents)
def test_writing_what_was_read_gives_the_same_bytes(document):
    data = render_document(document)
    assert render_document(parse_document(data, source="x")) == data


def test_what_is_nested_deep_is_written_all_the_same():
    deep = b"[" * 300 + b"]" * 300
    document = Document(entries={"a": Exchange(content="x", request=Raw(deep))})
    assert bytes(parse_document(render_document(document), source="x").entries["a"].request) == deep


def test_a_file_reads_well():
    document = Document(meta={"created_by": "me"})
    document.add("b", Exchange(content="Hi", model="m", chunks=[(0.5, "H"), (1.0, "i")], usage=Usage(1, 2, 3)))
    document.add("a", Exchange(fault=Timeout(5000)))
    lines = render_document(document).decode().splitlines()
    assert lines[1:3] == ['  "_version": 2,', '  "_meta": {']
    assert lines.index('  "b": {') < lines.index('  "a": {')  # as it happened
    assert '      [1.0,"i"]' in lines
    assert '    "usage": {"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},' in lines
    assert render_document(document).endswith(b"}\n")


@pytest.mark.parametrize("folder", [True, False])
def test_what_is_not_there_or_is_a_folder_is_an_error_of_input(tmp_path, folder):
    path = tmp_path if folder else tmp_path / "none.json"
    with pytest.raises(InputError) as caught:
        MockProvider(path)
    assert caught.value.source == str(path)
    assert caught.value.hint


def test_a_condition_is_read_and_written_back():
    entries = {"agent": [{"content": "one"}, {"when": "tool_error", "content": "two"}]}
    document = document_from_dict(entries, source="test")
    again = parse_document(render_document(document), source="test")
    assert [exchange.when for _, exchange in again] == [None, "tool_error"]


def test_an_unknown_condition_is_refused_with_a_suggestion():
    with pytest.raises(RecordingFormatError) as refused:
        document_from_dict({"agent": [{"when": "tool_eror", "content": "two"}]}, source="test")
    assert refused.value.place == "key 'agent'[0].when"
    assert "did you mean 'tool_error'?" in refused.value.hint
