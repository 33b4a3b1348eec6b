"""Mismatches with a schema: all that msgspec would refuse, and nothing else."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.workflow.file.mismatches import find_mismatches
from offbook.workflow.file.schema import WorkflowDefinition

DOCUMENT = {
    "name": "flow",
    "config": {"provider": "openai", "temperature": 1, "fallbacks": [{"provider": "mock", "model": "m"}], "retry": {}},
    "tools": {"say": {"builtin": "function", "function": "m:say"}, "sh": {"builtin": "shell", "allow": ["ls"]}},
    "state": {"text": "hi"},
    "steps": [
        {"type": "llm_call", "id": "a", "prompt": "x", "json": True, "timeout": 1.5, "output": "a.b"},
        {"type": "agent", "id": "b", "prompt": "x", "terminal_tool": ["say"], "prerequisites": {"s": [{"tool": "x"}]}},
        {"type": "tool", "id": "c", "tool": "say", "args": {"text": "x"}, "on_failure": "continue"},
        {"type": "router", "id": "d", "conditions": [{"expression": "true", "target": "e"}], "default": None},
        {"type": "loop", "id": "e", "over": "state.x", "as": "x", "steps": [{"type": "tool", "id": "f", "tool": "t"}]},
        {"type": "subworkflow", "id": "g", "path": "other.yaml", "outputs": {"a": "b.c"}},
    ],
}  # fmt: skip
NUMBERS, TEXTS = [0, -1, 3, 2.5, 10**400], ["", "x", "two words", "mock", "tool"]
VALUES = st.sampled_from([None, True, *NUMBERS, *TEXTS, [], ["x"], {}, {"a": 1}])


def places_in(value, path=()):
    """Every path in a document, with the empty one."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, child in inner:
        yield from places_in(child, (*path, part))


def changed(value, path, new):
    """The document with another value at a path, or another key there."""
    if not path:
        return new
    part, *rest = path
    if isinstance(value, list):
        return [changed(child, rest, new) if index == part else child for index, child in enumerate(value)]
    return value | {part: changed(value[part], rest, new)}


def without(value, path):
    part, *rest = path
    if rest:
        return changed(value, (part,), without(value[part], rest))
    return {key: child for key, child in value.items() if key != part} if isinstance(value, dict) else value[1:]


PLACES = [place for place in places_in(DOCUMENT) if place]


def is_refused(document):
    try:
        msgspec.convert(document, WorkflowDefinition)
    except msgspec.ValidationError:
        return True
    return False


def test_a_document_that_fits_has_no_mismatch():
    assert not is_refused(DOCUMENT)
    assert list(find_mismatches(DOCUMENT, WorkflowDefinition)) == []


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2, unique_by=lambda change: change[0]))
def test_a_document_has_a_mismatch_exactly_if_msgspec_refuses_it(changes):
    document = DOCUMENT
    for place, value in changes:
        if place in set(places_in(document)):
            document = changed(document, place, value)
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_missing_part_is_a_mismatch_exactly_if_msgspec_needs_it(place):
    document = without(DOCUMENT, place)
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)


@pytest.mark.parametrize("place", [place for place in PLACES if isinstance(place[-1], str)], ids=str)
def test_a_renamed_part_is_a_mismatch_exactly_if_msgspec_refuses_it(place):
    *around, name = place
    document = without(DOCUMENT, place)
    inside = document
    for part in around:
        inside = inside[part]
    document = changed(document, tuple(around), inside | {f"{name}x": "x"})
    assert bool(list(find_mismatches(document, WorkflowDefinition))) == is_refused(document)
