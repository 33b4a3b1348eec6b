"""Running a test that is explored: its case, and before that once without a fault."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from inspect import iscoroutinefunction, signature
from traceback import format_exception
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.performance import Watch
from offbook.explore.run import Run
from offbook.explore.stage import Stage
from offbook.explore.theatre import Theatre
from offbook.explore.verdict import Judged, judge
from offbook.faults import FaultPlan
from offbook.pytest_plugin.explored_cases import FIXTURE, ExploredCase
from offbook.pytest_plugin.finding_text import finding_text
from offbook.pytest_plugin.staged_offbook import StagedOffbook
from offbook.pytest_plugin.tally import Tally
from offbook.recording.stores.locate import open_store

BROKEN = (AssertionError, pytest.fail.Exception)
_HOUSES = pytest.StashKey["dict[object, House]"]()


class House:
    """The theatre of a test in this process, and what its run without a fault did, once that was made."""

    def __init__(self, explored: ExploredCase) -> None:
        self.theatre = Theatre(open_store(explored.recording).read(), explored.said.divergence)
        self.clean: Run | None = None


class Seen(Struct, frozen=True):
    """What a run of the test did, and the error that ended it, if one did."""

    run: Run
    error: BaseException | None = None

    @property
    def problem(self) -> str:
        """Why a run without a fault is none to start from."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        return self.run.hung or self.run.diverged


class ExploredTest:
    """An item of a test that is explored."""

    def __init__(self, item: pytest.Function, explored: ExploredCase) -> None:
        self._item, self._explored = item, explored
        self._offbook = cast("StagedOffbook", item.funcargs[FIXTURE])

    def run(self) -> Tally:
        """Run the case, fail if its verdict is one to fail on, and tell how many calls were answered."""
        __tracebackhide__ = True
        house = self._house()
        case = self._explored.case
        if house.clean is None or case is None:
            seen = self._seen(house.theatre.stage(FaultPlan()))
            self._check_clean(seen)
            house.clean = house.clean or seen.run
        if case is None:
            return self._tally(house.clean)
        seen = self._seen(house.theatre.stage(case.plan))
        self._check(seen, judge(seen.run, house.clean))
        return self._tally(seen.run)

    def _house(self) -> House:
        houses = self._item.session.stash.setdefault(_HOUSES, {})
        others = {name: place for name, place in self._item.callspec.indices.items() if name != FIXTURE}
        key = self._item.nodeid.partition("[")[0], tuple(sorted(others.items()))
        if key not in houses:
            houses[key] = House(self._explored)
        return houses[key]

    def _seen(self, stage: Stage) -> Seen:
        """What one run on the stage did. An assertion of the test that does not hold is broken."""
        said, errors = self._explored.said, list[BaseException]()
        watch = Watch(stage, declared=said.declared, deadlines=said.deadlines)
        self._offbook.bind(stage, watch)

        def play() -> Any:
            try:
                return self._called(watch)
            except BROKEN as error:
                errors.append(error)
            except Exception as error:
                errors.append(error)
                raise

        run = watch.seen(play)
        broken = [str(error) or type(error).__name__ for error in errors if isinstance(error, BROKEN)]
        return Seen(replace(run, broken=tuple(broken)), errors[0] if errors else None)

    def _called(self, watch: Watch) -> Any:
        function = _function(self._item.obj)
        given = self._item.funcargs
        arguments = {name: given[name] for name in signature(function).parameters if name in given}
        if iscoroutinefunction(function):
            return watch.to_its_end(function(**arguments))
        return function(**arguments)

    def _check_clean(self, seen: Seen) -> None:
        __tracebackhide__ = True
        if not seen.problem:
            return
        if seen.error is not None and self._explored.case is None:
            raise seen.error
        pytest.fail(f"the run fails without any fault: {seen.problem}", pytrace=False)

    def _check(self, seen: Seen, judged: Judged) -> None:
        __tracebackhide__ = True
        if seen.error is not None:
            self._item.add_report_section("call", "error", _traceback(seen.error))
        if judged.verdict in self._explored.said.fail_on:
            again = f"pytest {shlex.quote(self._item.nodeid)}"
            pytest.fail(finding_text(judged, str(self._explored.case), again), pytrace=False)

    def _tally(self, run: Run) -> Tally:
        return Tally(self._explored.recording, served=len(run.calls) + len(run.tools))


def _traceback(error: BaseException) -> str:
    """The traceback of an error, from the test on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(format_exception(type(error), error, trace))


def _function(found: Callable[..., Any]) -> Callable[..., Any]:
    """The test's own function, where a plugin has put one around it that runs what is async in real time."""
    inner = getattr(found, "__wrapped__", None)
    return inner if inner is not None and iscoroutinefunction(inner) and not iscoroutinefunction(found) else found


def explored_case_of(item: pytest.Item) -> ExploredCase | None:
    """The case that an item is of, if its test is explored."""
    callspec = getattr(item, "callspec", None)
    case = None if callspec is None else callspec.params.get(FIXTURE)
    return case if isinstance(case, ExploredCase) else None
