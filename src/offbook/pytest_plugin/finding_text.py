"""What a test run shows of a finding."""

from __future__ import annotations

from offbook.explore.verdict import Judged


def finding_text(judged: Judged, case: str, again: str) -> str:
    """The verdict and what it rests on, the faults, and the command that shows it again."""
    first, *more = judged.evidence or ("",)
    return "\n  ".join([f"{judged.verdict}: {first}", *more, f"fault: {case}", f"again: {again}"])
