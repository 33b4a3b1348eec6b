"""The faults that a command line asks for."""

from __future__ import annotations

from understudy.faults import FaultPlan, parse_fault


def given_faults(lines: list[str], *, file: str | None) -> FaultPlan:
    """The plan of the lines, and behind them that of a file.

    Raises:
        InputError: a line or the file cannot be read.
    """
    plan = FaultPlan() if file is None else FaultPlan.load(file)
    return FaultPlan([*map(parse_fault, lines), *plan], chaos=plan.chaos)
