"""The `_tools` of a recording file: what is read, what is refused and how, and that writing undoes reading."""

import json

import pytest
from hypothesis import given
from msgspec import UNSET

from offbook.errors import RecordingFormatError, RecordingMismatchError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, RecordedError, ToolExchange, hash_arguments
from offbook.recording.format.file import document_from_dict, parse_document, parse_tool_exchange, render_document
from offbook.session.replayed_tools import replay_tools
from tests.recording.stores.strategies import documents

BY_HAND = {
    "_version": 2,
    "_meta": {},
    "_tools": {
        "get_weather": [
            {"arguments": {"city": "Oslo"}, "result": {"sky": "rain"}, "latency_ms": 3.5},
            {"arguments": {}, "error": {"type": "ValueError", "message": "which city?"}},
        ],
        "now": {"result": None},
        "_private": [{"result": "x", "result_type": "date"}, {}],
    },
}


def get(x=None):
    """A tool that must not run."""
    raise AssertionError


def refused(tools):
    """The error with which a file with these tools, as JSON text, is refused."""
    with pytest.raises(RecordingFormatError) as caught:
        parse_document(b'{"_version": 2, "_tools": %s}' % tools.encode(), source="run.json")
    error = caught.value
    assert str(error).startswith("run.json: ")
    assert len(str(error).splitlines()) <= 2
    return error


def test_tools_are_read():
    document = document_from_dict(BY_HAND, source="x")
    assert document.rest == {}
    assert document.tools == {
        "get_weather": [
            ToolExchange(arguments={"city": "Oslo"}, result={"sky": "rain"}, latency_ms=3.5),
            ToolExchange(arguments={}, error=RecordedError("ValueError", "which city?")),
        ],
        "now": ToolExchange(result=None),
        "_private": [ToolExchange(result="x", result_type="date"), ToolExchange()],
    }


def test_what_was_written_by_hand_stays_as_short_as_it_was():
    assert json.loads(render_document(document_from_dict(BY_HAND, source="x"))) == BY_HAND


def test_a_recording_without_tools_has_no_key_for_them():
    assert b"_tools" not in render_document(Document(entries={"a": Exchange(content="x")}))
    assert b"_tools" not in render_document(document_from_dict({"_tools": {}}, source="x"))


def test_tools_stand_at_the_end_in_the_order_of_their_first_calls():
    document = Document(tools={"b": [ToolExchange()], "a": [ToolExchange()]}, rest={"_x": 1}, entries={"z": Exchange()})
    written = json.loads(render_document(document))
    assert list(written) == ["_version", "_meta", "z", "_x", "_tools"]
    assert list(written["_tools"]) == ["b", "a"]


@given(documents())
def test_writing_what_was_read_gives_the_same_bytes(document):
    data = render_document(document)
    again = parse_document(data, source="x")
    assert again.tools == document.tools
    assert render_document(again) == data


@pytest.mark.parametrize(
    ("tools", "place", "reason"),
    [
        ("[]", "_tools", "expected an object, got a list"),
        ("null", "_tools", "expected an object, got null"),
        ('{"get": 5}', "_tools.get", "got an integer"),
        ('{"get": []}', "_tools.get", "the list is empty"),
        ('{"get": ["x"]}', "_tools.get[0]", "got a string"),
        ('{"get": [{}, {}, {"arguments": []}]}', "_tools.get[2].arguments", "expected an object, got a list"),
        ('{"get": {"arguments": "{}"}}', "_tools.get.arguments", "expected an object, got a string"),
        ('{"get": {"arguments": null}}', "_tools.get.arguments", "expected an object, got null"),
        ('{"get": {"latency_ms": "1"}}', "_tools.get.latency_ms", "expected a number"),
        ('{"get": {"error": "ValueError"}}', "_tools.get.error", "expected an object"),
        ('{"get": {"error": {}}}', "_tools.get.error", "the field type is missing"),
        ('{"get": {"error": {"type": 5}}}', "_tools.get.error.type", "expected a string"),
        ('{"get": {"result": 1e999}}', "_tools.get.result", "too large"),
        ('{"get-it": {"recorded_at": 5}}', "_tools.get-it.recorded_at", "expected a string"),
        ('{"a b": {"recorded_at": 5}}', "_tools['a b'].recorded_at", "expected a string"),
        ('{"a\\u0000b": {}}', "_tools['a\\x00b']", "control characters"),
        ('{"": {}}', "_tools['']", "the name is empty"),
        ('{"%s": {}}' % ("x" * 600), "_tools.xxx", "the name has 600 characters"),
    ],
)
def test_what_is_of_the_wrong_shape_is_refused_with_its_place_and_a_hint(tools, place, reason):
    error = refused(tools)
    assert error.place.startswith(place)
    assert reason in error.reason
    assert error.hint


@pytest.mark.parametrize(
    ("call", "place", "suggestion"),
    [
        ('{"argument": {}}', "", "arguments"),
        ('[{}, {"reslt": 1}]', "[1]", "result"),
        ('{"error": {"type": "x", "mesage": "y"}}', ".error", "message"),
    ],
)
def test_an_unknown_field_is_refused_with_the_name_that_was_meant(call, place, suggestion):
    error = refused(f'{{"get": {call}}}')
    assert error.place == f"_tools.get{place}"
    assert error.hint.startswith(f"did you mean '{suggestion}'? fields: ")


@pytest.mark.parametrize("where", ['{"get": %s}', '{"get": {"result": %s}}', '{"get": {"arguments": {"x": %s}}}', "%s"])
def test_what_is_nested_without_end_is_refused(where):
    refused(where % ("[" * 100_000 + "]" * 100_000))


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [100, 300, 500])
def test_what_is_nested_deep_is_read_written_and_answered(depth):
    data = f'{{"_version": 2, "_tools": {{"get": {{"result": {nested(depth)}}}}}}}'
    document = parse_document(data.encode(), source="x")
    assert parse_document(render_document(document), source="x").tools == document.tools
    assert replay_tools([get], document)["get"]() == json.loads(nested(depth))


@pytest.mark.parametrize("depth", [100, 240, 300, *range(500, 1050, 10)])
def test_arguments_nested_however_deep_are_refused_or_answer_or_do_not_fit(depth):
    call = f'{{"arguments": {{"x": {nested(depth)}}}, "result": "deep"}}'
    data = f'{{"_version": 2, "_tools": {{"get": {call}}}}}'
    try:
        tools = replay_tools([get], parse_document(data.encode(), source="x"))
        assert tools["get"](x=json.loads(nested(min(depth, 500)))) == "deep"
    except (RecordingFormatError, RecordingMismatchError):
        assert depth > 240


def test_one_exchange_is_not_a_list():
    with pytest.raises(RecordingFormatError, match="expected one exchange, got a list"):
        parse_tool_exchange("get", b"[{}]", source="x")


def test_the_hash_of_arguments_does_not_depend_on_their_order():
    assert hash_arguments({"a": 1, "b": {"c": 1, "d": 2}}) == hash_arguments({"b": {"d": 2, "c": 1}, "a": 1})
    assert hash_arguments({"a": 1}) != hash_arguments({"a": "1"})
    assert hash_arguments({}) != hash_arguments({"a": None})


def test_an_exchange_answers_the_arguments_it_has_or_had_or_any():
    assert ToolExchange().fingerprint is None
    assert ToolExchange(arguments={}).fingerprint == hash_arguments({})
    assert ToolExchange(arguments={"a": "<redacted>"}, arguments_hash="x").fingerprint == "x"
    assert ToolExchange(arguments_hash="").fingerprint is None


def test_an_answer_may_be_changed_without_changing_the_recording():
    exchange = ToolExchange(result={"a": [1]})
    exchange.answer["a"].append(2)
    assert exchange.answer == {"a": [1]}
    assert ToolExchange().answer is None
    assert ToolExchange().result is UNSET
