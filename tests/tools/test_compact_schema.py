"""Compacting drops titles where they are titles, and only there."""

from offbook.tools.compact_schema import compact


def test_titles_go_at_every_depth():
    schema = {
        "title": "Order",
        "$defs": {"Item": {"title": "Item", "type": "object"}},
        "properties": {"a": {"title": "A", "anyOf": [{"title": "X", "type": "string"}, {"type": "null"}]}},
        "additionalProperties": {"title": "Rest"},
    }
    assert compact(schema) == {
        "$defs": {"Item": {"type": "object"}},
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "additionalProperties": {},
    }


def test_what_is_merely_named_title_stays():
    schema = {
        "properties": {"title": {"type": "string", "default": {"title": "x"}, "examples": [{"title": "y"}]}},
        "required": ["title"],
        "enum": [{"title": "z"}],
    }
    assert compact(schema) == schema
