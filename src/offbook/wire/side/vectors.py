"""Vectors that stand in for embeddings: drawn from what they embed, and from nothing else."""

from __future__ import annotations

import math
from hashlib import sha256, shake_256
from struct import pack, unpack

_HALF = 2**31


def unit_vector(content: bytes, dimensions: int) -> list[float]:
    """A vector of length 1 for `content`: the same in every process, and another for other content.

    Its numbers are ones that four bytes hold, so that they are equal however they are sent. A vector of
    fewer dimensions points where the first ones of a longer vector do.
    """
    drawn = shake_256(sha256(content).digest()).digest(4 * dimensions)
    sides = [number - _HALF + 0.5 for number in unpack(f"<{dimensions}I", drawn)]
    length = math.sqrt(math.fsum(side * side for side in sides))
    return list(unpack(f"<{dimensions}f", pack(f"<{dimensions}f", *(side / length for side in sides))))


def packed(vector: list[float]) -> bytes:
    """The vector as float32 numbers, the lowest byte first."""
    return pack(f"<{len(vector)}f", *vector)
