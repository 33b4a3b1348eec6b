"""What is to be embedded, and the bounds of what may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from offbook.wire.side.token_counts import estimated_tokens
from offbook.wire.side.vectors import unit_vector

MAX_INPUTS = 2_048
MAX_DIMENSIONS = 10_000

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Dimensions: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]

NOT_TEXT = b"\xff"
"""A byte that no text holds as UTF-8: it sets what is not text apart from every text."""


class Embeddable(Struct, frozen=True):
    """Something to embed, as bytes (a text as UTF-8), and about how many tokens it has."""

    content: bytes
    tokens: int

    @classmethod
    def of_text(cls, text: str) -> Embeddable:
        return cls(as_bytes(text), estimated_tokens(text))

    @classmethod
    def of_token_ids(cls, ids: Sequence[int]) -> Embeddable:
        return cls(NOT_TEXT + ",".join(map(str, ids)).encode(), len(ids))

    def vector(self, dimensions: int) -> list[float]:
        return unit_vector(self.content, dimensions)


def as_bytes(text: str) -> bytes:
    """The text as UTF-8; half a surrogate pair, which JSON can hold, as if it were a character."""
    return text.encode("utf-8", "surrogatepass")
