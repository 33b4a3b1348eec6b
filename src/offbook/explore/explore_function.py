"""Exploring a function in one call, for scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from offbook.explore.divergence import STOP, Divergence
from offbook.explore.exploration import Exploration, Explorer, Wish
from offbook.explore.function_subject import FunctionSubject
from offbook.explore.menu import chosen
from offbook.explore.performance import USUAL, Deadlines
from offbook.explore.stage import Stage
from offbook.explore.verdict import Invariant


def explore_function(
    function: Callable[[Stage], Any],
    recording: str | os.PathLike[str],
    *,
    faults: str | Iterable[str] = "all",
    pairs: bool = False,
    budget: int | None = None,
    declared: Sequence[type[BaseException] | str] = (),
    invariants: Sequence[Invariant] = (),
    divergence: Divergence = STOP,
    deadlines: Deadlines = USUAL,
) -> Exploration:
    """Replay a function with each fault at each place of its recorded run.

    Args:
        function: takes a stage, whose `provider` or `gateway` it asks and whose `tools(…)` it calls; sync or async.
        faults: `all`, or names of faults.
        pairs: whether to try a second fault behind each.
        budget: how many cases to run at most, the most telling ones.
        declared: the errors that the function raises when it has to give up, by class or name.
        invariants: what must hold for every run.
        divergence: what becomes of requests that were never recorded.
        deadlines: how long a run may take.

    Raises:
        InputError: the recording cannot be read, there is no such fault, or the function fails without any.
    """
    subject = FunctionSubject(function, recording, declared=declared, divergence=divergence, deadlines=deadlines)
    try:
        wish = Wish(dishes=chosen(faults), pairs=pairs, budget=budget, invariants=invariants)
        return Explorer(subject, wish).explore()
    finally:
        subject.close()
