"""Opens one recording in a process of its own and prints what that took: `python -m bench.opening WHO LOCATION`."""

from __future__ import annotations

import asyncio
import re
import resource
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.workload import MAX_TOKENS, MODEL, TEMPERATURE, Call, call_at


class Opening(Struct, frozen=True):
    """What opening took: time until open and until the first answer, memory grown when open, and at the peak."""

    open_ms: float
    answer_ms: float
    resident_mb: float
    peak_mb: float


def opener(who: str) -> Callable[[str], Any]:
    """What opens a recording of `who`."""
    if who == "offbook":
        ours = import_module("offbook.session.provider")
        return lambda location: ours.MockProvider(location, strict="answers" not in location)
    theirs = import_module("agentloom.providers.mock")
    return lambda location: theirs.MockProvider(responses_file=location)


def measure(open_recording: Callable[[str], Any], location: str) -> Opening:
    """Open the recording at `location`, and ask it once."""
    call = call_at(0)
    resident_mb, peak_mb = _memory_mb()
    with asyncio.Runner() as runner:
        runner.get_loop()
        started_s = time.perf_counter()
        provider = open_recording(location)
        opened_s = time.perf_counter()
        runner.run(_ask(provider, call))
        answered_s = time.perf_counter()
    resident_after_mb, peak_after_mb = _memory_mb()
    return Opening(
        (opened_s - started_s) * 1000.0,
        (answered_s - started_s) * 1000.0,
        resident_after_mb - resident_mb,
        peak_after_mb - peak_mb,
    )


async def _ask(provider: Any, call: Call) -> None:
    response = await provider.complete(
        call.messages, MODEL, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, step_id=call.step_id
    )
    if response.content != call.answer:
        raise AssertionError(f"answered {response.content!r} instead of {call.answer!r}")


def _memory_mb() -> tuple[float, float]:
    """Resident now, and at the peak. Where the system does not tell the first, both are the peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1024.0 * 1024.0 if sys.platform == "darwin" else 1024.0
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        return peak_mb, peak_mb
    memory = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status.read_text()))
    return int(memory["VmRSS"]) / 1024.0, int(memory["VmHWM"]) / 1024.0


if __name__ == "__main__":
    print(msgspec.json.encode(measure(opener(sys.argv[1]), sys.argv[2])).decode())
