"""Docstrings of every common style are understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.tools.documentation import documentation_of

GOOGLE = """Find an order.

    Looks everywhere.

    Args:
        order_id: which order
        deep (bool): how far,
            and further
    Returns:
        the order
"""
NUMPY = """Find an order.

    Looks everywhere.

    Parameters
    ----------
    order_id : int
        which order
    deep : bool, optional
        how far,
        and further
"""
REST = """Find an order.

    Looks everywhere.

    :param order_id: which order
    :param bool deep: how far,
        and further
    :returns: the order
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_description_and_parameters_are_found(docstring):
    documentation = documentation_of(docstring)
    assert documentation.description == "Find an order.\n\nLooks everywhere."
    assert documentation.parameters == {"order_id": "which order", "deep": "how far,\nand further"}


@pytest.mark.parametrize("docstring", [None, "", "  \n "])
def test_no_docstring_says_nothing(docstring):
    documentation = documentation_of(docstring)
    assert (documentation.description, documentation.parameters) == ("", {})


def test_a_parameter_without_a_description_is_left_out():
    assert documentation_of("Find.\n\nArgs:\n    a:\n    b: this").parameters == {"b": "this"}


pieces = st.sampled_from(
    [GOOGLE, NUMPY, REST, ":param", ":raises x", "@param", "Args:", "Returns", "---", "Find it.", "a"]
)
gaps = st.sampled_from(["\n", "\n\n", "\n    ", ": ", " "])


@given(st.lists(pieces | gaps | st.text(max_size=8)))
def test_no_docstring_is_too_odd(parts):
    assert isinstance(documentation_of("".join(parts)).description, str)


def test_a_description_of_one_line_before_parameters_ends_with_its_last_word():
    told = documentation_of("Find an order.\n\n    Args:\n        order_id: which order\n    ")
    assert told.description == "Find an order."
