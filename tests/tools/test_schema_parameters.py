"""A JSON schema as parameters: checked when it is declared, and never a reason to go over the network."""

import pytest

from offbook.errors import InputError, ToolArgumentsError
from offbook.tools.schema_parameters import SchemaParameters

ORDER = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer", "minimum": 1},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "colour": {"enum": ["red", "blue"]},
        "day": {"type": "string", "format": "date"},
        "contact": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "required": ["order_id", "items"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
}


def problems(schema, args):
    with pytest.raises(ToolArgumentsError) as caught:
        SchemaParameters(schema, tool="find").check(args)
    assert caught.value.tool == "find"
    return caught.value.problems


def refusal(schema):
    with pytest.raises(InputError) as caught:
        SchemaParameters(schema, tool="find")
    return str(caught.value)


def test_the_schema_is_reported_as_it_is_declared():
    assert SchemaParameters(ORDER, tool="find").schema == ORDER


@pytest.mark.parametrize("schema", [{}, {"properties": {"a": {}}}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}], ids=str)
def test_a_schema_that_does_not_say_so_is_of_an_object(schema):
    assert SchemaParameters(schema, tool="find").schema == {"type": "object"} | schema


def test_arguments_that_fit_pass():
    args = {"order_id": 1, "items": [{"sku": "a"}], "colour": "red", "day": "2024-02-29", "contact": "me", "x-a": "b"}
    SchemaParameters(ORDER, tool="find").check(args)


def test_wrong_values_are_reported_with_path_reason_and_what_was_given():
    args = {"order_id": "1", "items": [{"sku": "a"}, {"sku": 5}], "colour": "green", "day": "tomorrow", "contact": []}
    assert sorted(problems(ORDER, args)) == [
        "colour: is not one of ['red', 'blue'] (got 'green')",
        "contact: is not valid under any of the given schemas (got [])",
        "day: is not a 'date' (got 'tomorrow')",
        "items[1].sku: is not of type 'string' (got 5)",
        "order_id: is not of type 'integer' (got '1')",
    ]


def test_missing_and_unexpected_arguments_are_named():
    assert sorted(problems(ORDER, {"order": 1, "x-a": "b", "item": 2})) == [
        "item: unexpected, there is no such argument",
        "items: missing",
        "order: unexpected, there is no such argument",
        "order_id: missing",
    ]
    assert problems(ORDER, {"order_id": 1, "items": [{}]}) == ("items[0].sku: missing",)


def test_further_arguments_of_a_wrong_type_are_reported_as_such():
    assert problems({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "b"}) == (
        "a: is not of type 'integer' (got 'b')",
    )


def test_what_is_wrong_with_all_arguments_together_is_reported_without_them():
    assert problems({"type": "object", "minProperties": 1}, {}) == ("should be non-empty",)


def test_the_draft_is_the_one_that_the_schema_names():
    pair = {"pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}}
    seventh = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": pair}
    SchemaParameters(seventh, tool="find").check({"pair": [1, "a"]})
    assert problems(seventh, {"pair": ["a", "a"]}) == ("pair[0]: is not of type 'integer' (got 'a')",)
    assert refusal({"type": "object", "properties": pair}).startswith(
        "find: parameters.properties.pair.items: not a valid"
    )


def test_a_schema_that_is_none_is_refused_with_tool_and_place():
    wrong = {"type": "object", "properties": {"a": {"type": "strin"}}}
    assert refusal(wrong).startswith("find: parameters.properties.a.type: not a valid JSON schema: 'strin'")


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"city": {"type": "string"}}, {"type": "object", "$schema": 7}], ids=str
)
def test_what_does_not_describe_an_object_is_refused_with_an_example(schema):
    assert refusal(schema).startswith("find: parameters: expected the JSON schema of an object\n  hint: {")


@pytest.mark.parametrize("reference", ["#/$defs/nothing", "http://127.0.0.1:9/schema.json", "other.json"])
def test_a_reference_to_elsewhere_is_refused_and_never_fetched(reference):
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": reference}}}}
    message = refusal(schema)
    assert message.startswith("find: parameters: $ref to ")
    assert message.endswith("nothing is fetched")


def test_a_reference_may_name_a_part_by_its_id_and_lead_back_to_itself():
    schema = {
        "$id": "http://127.0.0.1:9/tree",
        "type": "object",
        "properties": {"tree": {"$ref": "node"}},
        "$defs": {"node": {"$id": "node", "type": "array", "items": {"$ref": "#"}}},
    }
    SchemaParameters(schema, tool="find").check({"tree": [[], [[]]]})
    assert problems(schema, {"tree": [[], [5]]}) == ("tree[1][0]: is not of type 'array' (got 5)",)


def test_a_schema_of_an_unknown_dialect_is_read_as_the_latest():
    assert problems({"$schema": "http://127.0.0.1:9/dialect", "type": "object", "required": ["a"]}, {}) == (
        "a: missing",
    )
