"""Explores a Python function."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from offbook.explore.cases import chosen_case
from offbook.explore.explorer import Exploration, Explorer
from offbook.explore.harness import Harness, HarnessFactory
from offbook.explore.monitor import MonitoredFunction
from offbook.explore.observer import NO_DECLARATIONS
from offbook.explore.options import (
    DEFAULT_DEADLINES,
    EXPLORE_DIVERGENCE,
    Deadlines,
    Divergence,
    ExploreOptions,
    GaveUp,
    Invariant,
    gave_up_by,
    select_variants,
)
from offbook.explore.run import Run
from offbook.explore.state import State, check_state
from offbook.faults import FaultPlan, parse_fault
from offbook.recording.match.continuation import Continuation
from offbook.recording.stores.locate import open_store
from offbook.settings import configured_tools, find_project
from offbook.subjects.executors import Workers, executor_of
from offbook.subjects.forked_run import IsolatedSubject
from offbook.tools.effects import ToolDeclaration, declared_tools


class FunctionSubject(IsolatedSubject):
    """A function of a harness with a result, run on a recording.

    Args:
        declared: the errors with which the function gives up, as classes or names.
        declarations: declarations of tools by name, in addition to their own.
        state: returns the state after a run.

    Raises:
        InputError: the recording cannot be read, or `state` is not a function.
    """

    def __init__(
        self,
        function: Callable[[Harness], Any],
        recording: str | os.PathLike[str],
        *,
        declared: Sequence[type[BaseException] | str] = (),
        divergence: Divergence = EXPLORE_DIVERGENCE,
        deadlines: Deadlines = DEFAULT_DEADLINES,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
        state: State | None = None,
    ) -> None:
        check_state(state)
        self.name = getattr(function, "__name__", "function")
        super().__init__(HarnessFactory(open_store(recording).read(), divergence, declarations=declarations), deadlines)
        self._monitored = MonitoredFunction(function, declared=declared, deadlines=deadlines, state=state)

    def run_here(self, plan: FaultPlan, continuation: Continuation) -> Run:
        return self._monitored.run(self._harnesses, plan, continuation)


def explore_function(  # noqa: PLR0913 - each is an option of its own, given by name
    function: Callable[[Harness], Any],
    recording: str | os.PathLike[str],
    *,
    faults: str | Iterable[str] = "all",
    pairs: bool = False,
    budget: int | str | None = None,
    declared: Sequence[type[BaseException] | str] = (),
    invariants: Sequence[Invariant] = (),
    divergence: Divergence = EXPLORE_DIVERGENCE,
    deadlines: Deadlines = DEFAULT_DEADLINES,
    tools: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    optional: Collection[str] = (),
    gave_up: str | GaveUp | None = None,
    state: State | None = None,
    cases: Iterable[str | Sequence[str]] = (),
    until_quiet: int | None = None,
    workers: Workers = "auto",
) -> Exploration:
    """Replay a function with each fault at each site of its recorded run.

    Args:
        function: takes a harness and calls its `provider` or `gateway`, or an SDK with its `http_client()` or
            `sync_http_client()`, and its `tools(…)`; sync or async.
        faults: `all`, or names of faults; `all,orders` also tries other orders of calls, and cancellations.
        pairs: whether to also try a second fault after each.
        budget: the largest number of cases, or a time like `5m` in which it should end; the most telling first.
        declared: the errors that the function raises when it gives up, as classes or names.
        invariants: what must hold for every run.
        divergence: what answers requests that were never recorded.
        deadlines: how long a run may take.
        tools: what is declared about tools by name, such as those of an SDK that the harness does not wrap. Tools that
            are not named here are as `[tools.NAME]` of the nearest `offbook.toml` declares them.
        optional: the steps and tools that the function may go on without.
        gave_up: tells of what the function returned whether it has given up: a function, or a pattern.
        state: returns the state that a run has left, in its process: a function of no arguments, or of the run. Bytes,
            and what is in a `Path`, are compared as JSON, as text, or as the rows of an SQLite database. If it is that
            of the clean run, other calls of effects are fine; if it is another and the result is the same, that is a
            `wrong effect`.
        cases: cases of your own, instead of those of `faults`: each a fault like `call=2: timeout 60000`, or several.
        until_quiet: stop when so many cases in a row have found no new cause of a finding.
        workers: how many cases run at once; `auto` is one for each core.

    Raises:
        InputError: the recording cannot be read, there is no such fault, or the function fails without a fault.
    """
    in_config = configured_tools(find_project())
    subject = FunctionSubject(
        function,
        recording,
        declared=declared,
        divergence=divergence,
        deadlines=deadlines,
        declarations=declared_tools(in_config) | dict(tools),
        state=state,
    )
    try:
        options = ExploreOptions(
            variants=select_variants(faults),
            pairs=pairs,
            budget=budget,
            invariants=invariants,
            optional=frozenset(optional) | {name for name, tool in in_config.items() if tool.optional},
            gave_up=gave_up_by(gave_up),
            unchecked=frozenset(in_config),
            until_quiet=until_quiet,
        )
        explorer = Explorer(subject, options, executor=executor_of(subject, workers))
        plans = [[parse_fault(line) for line in ([case] if isinstance(case, str) else case)] for case in cases]
        own = [replace(chosen_case(lines, explorer.clean), id=f"{number:04}") for number, lines in enumerate(plans, 1)]
        return explorer.explore(own or None)
    finally:
        subject.close()
