"""Whether memory grows: sampled again and again, the beginning left out."""

from __future__ import annotations

import gc
import re
import resource
import sys
from pathlib import Path

from msgspec import Struct

WARM_UP = 0.2
NOISE_BLOCKS, BLOCKS_A_CALL = 1_000, 0.02
NOISE_MB = 8.0


class Sample(Struct, frozen=True):
    """What is in use after so many calls: blocks of Python's allocator, and resident memory."""

    calls: int
    blocks: int
    resident_mb: float


class Growth(Struct, frozen=True):
    """How much more is in use at the end than after the warm-up."""

    calls: int
    blocks: int
    resident_mb: float

    @property
    def is_flat(self) -> bool:
        """Whether that is less than a leak of one object in fifty calls would make, or noise."""
        return self.blocks <= NOISE_BLOCKS + self.calls * BLOCKS_A_CALL and self.resident_mb <= NOISE_MB


def sample(calls: int) -> Sample:
    """What is in use now, garbage collected."""
    gc.collect()
    return Sample(calls, sys.getallocatedblocks(), _resident_mb())


def growth(samples: list[Sample]) -> Growth:
    """The growth from the end of the warm-up to the last sample."""
    warm = [one for one in samples if one.calls >= samples[-1].calls * WARM_UP] or samples
    first, last = warm[0], samples[-1]
    return Growth(last.calls - first.calls, last.blocks - first.blocks, last.resident_mb - first.resident_mb)


def _resident_mb() -> float:
    """Resident memory; its peak where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmRSS:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 1024.0
    unit = 1024.0 * 1024.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
