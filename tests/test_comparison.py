"""Comparing two of a kind: names in pairs, the nearest pairs, and the paths at which JSON values differ."""

import pytest

from offbook.comparison import difference_between, differing_leaves, nearest_pairs, paired


def test_names_are_paired_in_the_order_of_the_first_then_of_the_second():
    assert list(paired({"b": 1, "a": 2}, {"c": 3, "a": 4})) == [("b", 1, None), ("a", 2, 4), ("c", None, 3)]


def test_the_most_similar_are_paired_first_and_each_once():
    assert nearest_pairs([(8.0, 0, 0), (9.0, 1, 0), (8.0, 0, 1)]) == {0: 1, 1: 0}


def test_of_equally_similar_pairs_the_nearer_places_win():
    assert nearest_pairs([(8.0, 0, 0), (8.0, 0, 2), (8.0, 2, 0), (8.0, 2, 2)]) == {0: 0, 2: 2}


@pytest.mark.parametrize(
    ("old", "new", "leaves"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a[*]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": '{"b": 1}'}, {"a": '{"b": 2}'}, [("a.b", 1, 2)]),
        ({"a": "{1"}, {"a": "{2"}, [("a", "{1", "{2")]),
        ({}, {"a": 1}, [("a", None, 1)]),
    ],
)
def test_values_differ_at_their_innermost_paths(old, new, leaves):
    assert list(differing_leaves(old, new)) == leaves


def test_a_difference_names_the_field_and_both_values():
    assert difference_between({"model": "a", "n": 1}, {"model": "b", "n": 1}) == '  model:\n  -"a"\n  +"b"'
