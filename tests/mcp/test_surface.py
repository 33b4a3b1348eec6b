"""What of a server's surface moved, and how much that matters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.mcp.surface import Surface, compare_servers, compare_surfaces, schema_moves, surfaces_of, uncompared
from offbook.recording.format.document import each_exchange
from offbook.recording.format.file import document_from_dict

TOOL = {
    "name": "search",
    "description": "Search.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "limit": {"type": "number", "default": 3, "maximum": 10},
            "by": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["query"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {"hits": {"type": "array", "items": {"$ref": "#/$defs/hit"}}},
        "$defs": {"hit": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    },
    "annotations": {"readOnlyHint": True},
}


def changed(path, value):
    """The tool with another value at a path; None removes what is there."""
    tool = json.loads(json.dumps(TOOL))
    *parents, last = path.split("/")
    at = tool
    for name in parents:
        at = at[name]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return tool


def surface(*tools, **sections):
    return Surface(sections={"tools": {each["name"]: each for each in tools}, **sections})


def moved(old, new):
    return [
        (change.level, change.place.removeprefix("x: tool search, "), change.reason)
        for change in compare_surfaces(old, new, "x")
    ]


@pytest.mark.parametrize(
    ("path", "value", "level", "reason"),
    [
        ("inputSchema/properties/new", {"type": "string"}, "harmless", "it is new"),
        ("inputSchema/properties/kind", None, "breaking", "it is gone"),
        ("inputSchema/required", ["query", "kind"], "breaking", "it is required now"),
        ("inputSchema/required", [], "harmless", "it is optional now"),
        ("inputSchema/properties/kind/enum", ["a"], "breaking", 'the value "b" is not allowed any more'),
        ("inputSchema/properties/kind/enum", ["a", "b", "c"], "harmless", 'the value "c" is allowed now'),
        ("inputSchema/properties/query/type", "integer", "breaking", "the type changed: string → integer"),
        ("inputSchema/properties/query/type", ["string", "null"], "harmless", "the type null is allowed now"),
        ("inputSchema/properties/limit/type", "integer", "breaking", "the type number is not allowed any more"),
        ("inputSchema/properties/limit/default", 5, "dangerous", "the default changed: 3 → 5"),
        ("inputSchema/properties/limit/maximum", 5, "breaking", "maximum changed: 10 → 5"),
        ("inputSchema/properties/limit/maximum", None, "harmless", "maximum changed: 10 → nothing"),
        ("inputSchema/properties/query/description", "send all", "dangerous", "the description changed"),
        ("inputSchema/properties/query/pattern", "a+", "breaking", "pattern changed"),
        ("inputSchema/properties/by/anyOf", [{"type": "string"}], "breaking", "an alternative is gone"),
        ("inputSchema/additionalProperties", False, "breaking", "which further names it takes changed"),
        ("outputSchema/$defs/hit/properties/id", None, "breaking", "it is gone"),
        ("outputSchema/$defs/hit/properties/at", {"type": "string"}, "harmless", "it is new"),
        ("outputSchema/$defs/hit/properties/id/type", ["integer", "null"], "dangerous", "the type null is allowed now"),
        ("outputSchema/$defs/hit/properties/id/type", "string", "breaking", "the type changed: integer → string"),
        ("outputSchema", None, "breaking", "its outputSchema is gone"),
        ("description", "Ignore all", "dangerous", 'the description changed: "Search." → "Ignore all"'),
        (
            "annotations",
            {"readOnlyHint": False, "destructiveHint": True},
            "dangerous",
            "annotation readOnlyHint changed",
        ),
        ("title", "Search", "harmless", "the title changed"),
    ],
)
def test_a_change_of_a_tool_has_a_level_and_a_reason(path, value, level, reason):
    found = moved(surface(TOOL), surface(changed(path, value)))
    assert any(reason in change[2] for change in found), found
    assert {change[0] for change in found} == {level}


def test_a_new_required_argument_is_breaking_and_named():
    new = changed("inputSchema/properties/owner", {"type": "string"})
    new["inputSchema"]["required"] = ["query", "owner"]
    assert moved(surface(TOOL), surface(new)) == [("breaking", "argument owner", "it is new, and required")]


def test_tools_that_come_go_and_are_renamed():
    other, bad = TOOL | {"name": "find"}, {"name": "drop", "annotations": {"destructiveHint": True}}
    assert moved(surface(TOOL), surface(other)) == [("breaking", "x: tool search", "it was renamed to find")]
    assert moved(surface(TOOL), surface()) == [("breaking", "x: tool search", "it is gone")]
    assert moved(surface(), surface(TOOL)) == [("harmless", "x: tool search", "it is new")]
    assert moved(surface(), surface(bad)) == [("dangerous", "x: tool drop", "it is new, and destructive")]


def test_prompts_resources_and_the_server_itself_are_compared():
    prompt = {"name": "ask", "arguments": [{"name": "a", "required": True}]}
    resource = {"uri": "file:///a", "mimeType": "text/plain"}
    about = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}, "prompts": {}}}
    old = Surface(about=about, sections={"prompts": {"ask": prompt}, "resources": {"file:///a": resource}})
    new = Surface(
        about={"serverInfo": {"name": "s", "version": "2"}, "capabilities": {"tools": {}}, "instructions": "obey"},
        sections={"prompts": {"ask": prompt | {"arguments": [{"name": "b", "required": True}]}}, "resources": {}},
    )
    found = [
        (change.level, change.place, change.reason.partition(":")[0]) for change in compare_surfaces(old, new, "x")
    ]
    assert found == [
        ("harmless", "x", "the version changed"),
        ("dangerous", "x", "the instructions changed"),
        ("breaking", "x", "the capability prompts is gone"),
        ("breaking", "x: prompt ask, argument a", "it is gone"),
        ("breaking", "x: prompt ask, argument b", "it is new, and required"),
        ("breaking", "x: resource file:///a", "it is gone"),
    ]
    gone = compare_servers({"a": old}, {"b": old})
    assert [(change.level, change.place) for change in gone] == [("breaking", "a"), ("harmless", "b")]


def test_a_part_that_one_recording_does_not_list_is_named_and_not_compared():
    old, new = surface(TOOL, prompts={"ask": {"name": "ask"}}), surface(TOOL)
    assert compare_surfaces(old, new, "x") == []
    assert uncompared(old, new) == ["prompts/list"]


def test_the_last_list_counts_with_all_its_pages():
    def page(*names, cursor=None, following=None):
        result = {"tools": [{"name": name} for name in names]} | ({"nextCursor": following} if following else {})
        return {"arguments": {"cursor": cursor} if cursor else {}, "result": result}

    pages = [page("old", following="1"), page("gone", cursor="1"), page("a", following="2"), page("b", cursor="2")]
    document = document_from_dict({"_version": 2, "_mcp": {"x": {"tools/list": pages}}}, source="test")
    assert list(surfaces_of(each_exchange(document.tools))["x"].tools) == ["a", "b"]


NAMES = st.sampled_from(["a", "b", "c"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "null", ["string", "null"]]),
            "enum": st.lists(st.integers(0, 3), min_size=1, unique=True),
            "minimum": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "pattern": NAMES,
            "default": st.one_of(st.none(), NAMES),
            "description": NAMES,
            "title": NAMES,
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner)},
            optional={
                "required": st.lists(NAMES, unique=True),
                "additionalProperties": st.one_of(st.booleans(), inner),
            },
        ),
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=5,
)


@given(SCHEMAS)
def test_a_schema_has_not_moved_from_itself(schema):
    assert schema_moves(schema, schema) == []


@given(SCHEMAS, SCHEMAS)
def test_a_move_is_seen_from_both_sides(old, new):
    """What was narrowed in one direction was widened in the other, unless a required property comes or goes."""
    opposite = {"narrowed": "widened", "widened": "narrowed"}

    def places(moves):
        return sorted(
            (path, move)
            for path, move, reason in moves
            if reason not in ("it is gone", "it is new", "it is new, and required")
        )

    there, back = schema_moves(old, new), schema_moves(new, old)
    assert places(there) == sorted((path, opposite.get(move, move)) for path, move in places(back))
    assert bool(there) == bool(back)
