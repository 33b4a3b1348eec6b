"""The cases of a test that is explored, known when it is collected: from its recording, without running it."""

from __future__ import annotations

import pytest
from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.case import Case, cases_of
from offbook.explore.menu import chosen
from offbook.explore.recorded_run import recorded_run
from offbook.explore.site import sites_of
from offbook.pytest_plugin.explore_marker import ExploreMarker, explore_marker_of
from offbook.pytest_plugin.plan import plan_of
from offbook.recording.stores.locate import open_store

FIXTURE = "offbook"
CLEAN = "clean"


class ExploredCase(Struct, frozen=True):
    """A case of a test, or without one its run without a fault. `recording` is where it is answered from."""

    said: ExploreMarker
    recording: str
    case: Case | None = None

    @property
    def id(self) -> str:
        """The case in the name of its item, like `2 agent: timeout`: the same in every process."""
        if self.case is None:
            return CLEAN
        return ": ".join((self.case.cells[0].row, self.case.cells[0].column))


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Make an item for each case of a test, the run without a fault first.

    Where there is no recording yet, and while one is made, that is the only one.

    Raises:
        CollectError: the marker says something that cannot be, or the recording cannot be read.
    """
    try:
        cases = _cases(metafunc.definition)
    except InputError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    ids = [CLEAN if case is None else case.id for case in cases]
    metafunc.parametrize(FIXTURE, cases, ids=ids, indirect=True)


def _cases(node: pytest.Item) -> list[ExploredCase | None]:
    said = explore_marker_of(node)
    if said is None:
        return [None]
    dishes = chosen(said.faults)
    plan = plan_of(node)
    store = open_store(plan.location)
    if plan.record is not None or not store.exists():
        return [None]
    found = cases_of(sites_of(recorded_run(store.load())), dishes, budget=said.budget)
    return [ExploredCase(said, plan.location, case) for case in (None, *found)]
