"""What a docstring says about a function and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import docstring_parser
from msgspec import Struct


class Documentation(Struct, frozen=True):
    """A function's description, and those of its parameters by name."""

    description: str
    parameters: Mapping[str, str]


def documentation_of(docstring: str | None) -> Documentation:
    """What a docstring in Google, NumPy or reST style says; one in no style is a description as a whole."""
    parsed = docstring_parser.parse(inspect.cleandoc(docstring or ""))
    return Documentation(
        (parsed.description or "").strip(),
        {each.arg_name: each.description for each in parsed.params if each.description},
    )
