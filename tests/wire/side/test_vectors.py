"""Vectors that stand in for embeddings."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.wire.side.vectors import packed, unit_vector

contents = st.binary(min_size=1, max_size=64)
sizes = st.integers(1, 300)


@given(contents, sizes)
def test_a_vector_is_finite_and_of_length_one(content, dimensions):
    vector = unit_vector(content, dimensions)
    assert len(vector) == dimensions
    assert all(math.isfinite(side) for side in vector)
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


@given(contents, contents, st.integers(3, 300))
def test_vectors_are_equal_if_and_only_if_what_they_embed_is(one, other, dimensions):
    assert (unit_vector(one, dimensions) == unit_vector(other, dimensions)) == (one == other)


@given(contents, st.integers(2, 100))
def test_fewer_dimensions_point_where_the_first_of_more_do(content, dimensions):
    short, long = unit_vector(content, dimensions), unit_vector(content, 3 * dimensions)[:dimensions]
    scale = math.hypot(*long)
    assert [side / scale for side in long] == pytest.approx(short, abs=1e-5)


def test_a_vector_is_the_same_for_ever():
    assert packed(unit_vector(b"hello", 4)).hex() == "6a36723f93f8663ec9876cbee2c0c53c"
    assert unit_vector(b"hello", 2) == [0.9727400541305542, 0.23189830780029297]


def test_a_vector_is_the_same_in_another_process():
    code = "from offbook.wire.side.vectors import *; print(packed(unit_vector(b'hello', 99)).hex())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == packed(unit_vector(b"hello", 99)).hex()


def test_vectors_of_unlike_contents_are_nearly_at_right_angles():
    one, other = unit_vector(b"hello", 1536), unit_vector(b"world", 1536)
    assert abs(sum(map(math.prod, zip(one, other, strict=True)))) < 0.1
