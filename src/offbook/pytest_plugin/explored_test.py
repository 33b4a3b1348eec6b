"""Explored tests, one item for each case with its fixture and verdict, and regression files as items."""

from __future__ import annotations

import shlex
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Never, TypeVar

import pytest
from msgspec import Struct

from offbook.clock import refuse_in_loop
from offbook.errors import InputError, OffbookError
from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.explorer import named_calls, next_continuation
from offbook.explore.harness import Harness
from offbook.explore.monitor import RunMonitor
from offbook.explore.options import select_variants
from offbook.explore.run import ModelCall, Run, recorded_run, sites_of
from offbook.explore.verdict import Assessment, assess
from offbook.faults import FaultPlan
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.pytest_plugin.backend import RecordingUsage
from offbook.pytest_plugin.explored_run import ObservedRun, TestSubject
from offbook.pytest_plugin.fixture import NOTHING_EXPLORED, refuse_http
from offbook.pytest_plugin.markers import ExploreMarker, explore_marker_of, recording_plan_of
from offbook.pytest_plugin.options import OFFBOOK
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.stores.locate import open_store
from offbook.subjects.regression import load_regression, reproduce
from offbook.text import did_you_mean
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools

CLEAN = "clean"
"""The id of the item without a fault."""


class ExploredCase(Struct, frozen=True):
    """A case of a test on its recording. Without `case` it is the clean run."""

    marker: ExploreMarker
    recording: str
    case: FaultCase | None = None

    @property
    def id(self) -> str:
        """The case in the name of its item, like `2 agent: timeout`. It is the same in every process."""
        if self.case is None:
            return CLEAN
        return ": ".join((self.case.cells[0].row, self.case.cells[0].column))


class UnreadableCases(Struct, frozen=True):
    """The cases of a test that cannot be known, and why."""

    problem: str


def parametrize_cases(metafunc: pytest.Metafunc) -> None:
    """Generate an item for each case of a test, the clean run first.

    It is the only one if there is no recording yet, and while recording. If an argument of the marker is wrong, or the
    recording cannot be read, there is one item, which fails with the error.
    """
    cases: Sequence[ExploredCase | UnreadableCases | None]
    try:
        cases = _explored_cases(metafunc.definition)
    except InputError as error:
        cases = [UnreadableCases(str(error))]
    ids = [case.id if isinstance(case, ExploredCase) else CLEAN for case in cases]
    metafunc.parametrize(OFFBOOK, cases, ids=ids, indirect=True)


def _explored_cases(node: pytest.Item) -> list[ExploredCase | None]:
    marker = explore_marker_of(node)
    if marker is None:
        return [None]
    variants = select_variants(marker.faults)
    plan = recording_plan_of(node)
    store = open_store(plan.location)
    if plan.record is not None or not store.exists():
        return [None]
    cases = cases_of(sites_of(recorded_run(store.load())), variants, budget=marker.budget)
    return [ExploredCase(marker, plan.location, case) for case in (None, *cases)]


T = TypeVar("T")


class ExploredFixture:
    """The fixture `offbook` of an explored test: models and tools for the runs of one item.

    An item may make the clean run before its case. `provider` and `tools(…)` use the harness of the current run, even
    if they were created before it.
    """

    is_recording = False

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.provider: Provider = _CurrentHarness(self)
        self._harness: Harness | None = None
        self._monitor: RunMonitor | None = None
        self._gateway: ProviderGateway | None = None

    def __repr__(self) -> str:
        return f"<offbook exploring {self.recording}>"

    def bind(self, harness: Harness, monitor: RunMonitor) -> None:
        """Use this harness for the next run."""
        self._harness, self._monitor, self._gateway = harness, monitor, None

    @property
    def harness(self) -> Harness:
        """The harness of the current run.

        Raises:
            InputError: the test does not run yet, as while fixtures are set up.
        """
        if self._harness is None:
            hint = "let fixtures keep offbook.provider or offbook.tools(…), and call them in the test"
            raise InputError("no call is answered before the test runs", source="offbook", hint=hint)
        return self._harness

    @property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls. Every run has its own."""
        if self._gateway is None:
            self._gateway = ProviderGateway(sink=self.harness.recovery_counter)
            self._gateway.register(self.provider)
        return self._gateway

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools so that they are replayed, if the recording has calls of tools, and fail where the case says.

        Raises:
            InputError: one of them is not a tool.
        """
        return Toolbox([self._on_current_harness(tool) for tool in Toolbox.of(*given).values()])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in virtual time.

        Raises:
            EventLoopError: the test is async itself; await `work` instead.
        """
        refuse_in_loop(work)
        if self._monitor is None:
            work.close()
            raise InputError("no coroutine runs before the test does", source="offbook.run")
        return self._monitor.run(work)

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls of the current run, in the order in which they ended."""
        return [] if self._harness is None else list(self._harness.calls)

    def live(self, provider: object) -> None:
        """Do nothing: an explored test never asks a live provider."""

    def unused(self) -> list[UnusedEntry]:
        """Return nothing: a run with a fault may leave entries unused."""
        return []

    def faults(self, *faults: object) -> Never:
        """Raise InputError: the case has the faults."""
        hint = "remove mark.explore or offbook.faults"
        raise InputError("the faults of an explored test come from its case", source="offbook.faults", hint=hint)

    def __getattr__(self, name: str) -> Never:
        if name in {"stand_in", "http_client", "sync_http_client", "serving", "mcp"}:
            refuse_http(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _on_current_harness(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            return self.harness.wrap(tool).callable(**arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            value = call(**arguments)
            return await value if hasattr(type(value), "__await__") else value

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)


class _CurrentHarness(Provider):
    """Passes requests on to the harness of the current run."""

    name = "explore"

    def __init__(self, offbook: ExploredFixture) -> None:
        self._offbook = offbook

    async def send(self, request: Request) -> Reply:
        return await self._offbook.harness.provider.send(request)


def finding_text(assessment: Assessment, case: str, again: str) -> str:
    """Return the verdict with its evidence, the faults, and the command that reproduces it."""
    first, *more = assessment.evidence or ("",)
    return "\n  ".join([f"{assessment.verdict}: {first}", *more, f"fault: {case}", f"again: {again}"])


_SUBJECTS = pytest.StashKey["dict[object, TestSubject]"]()


class ExploredTest:
    """An item of an explored test."""

    def __init__(self, item: pytest.Function, explored: ExploredCase) -> None:
        self._item, self._explored = item, explored

    def run(self) -> RecordingUsage:
        """Run the case, fail if its verdict is one to fail on, and return the usage of the recording."""
        __tracebackhide__ = True
        subject, case = self._subject(), self._explored.case
        if subject.clean is None or case is None:
            observed = subject.observe(self._item, FaultPlan())
            self._check_clean(observed)
            subject.clean = subject.clean or observed.run
        if case is None:
            return self._usage(subject.clean)
        observed, assessment = self._worst(case.plan, subject, subject.clean)
        self._check(observed, assessment)
        return self._usage(observed.run)

    def _worst(self, plan: FaultPlan, subject: TestSubject, clean: Run) -> tuple[ObservedRun, Assessment]:
        """Run the case, also with every continuation if one was needed, and return the run with the worst verdict."""
        observed, optional = [subject.observe(self._item, plan)], self._explored.marker.optional
        while (continuation := next_continuation([each.run for each in observed])) is not None:
            observed.append(subject.observe(self._item, plan, continuation))
        assessed = [(each, assess(each.run, clean, optional=optional)) for each in observed]
        return min(assessed, key=lambda pair: pair[1].severity)

    def _subject(self) -> TestSubject:
        subjects = self._item.session.stash.setdefault(_SUBJECTS, {})
        others = {name: place for name, place in self._item.callspec.indices.items() if name != OFFBOOK}
        key = self._item.nodeid.partition("[")[0], tuple(sorted(others.items()))
        if key not in subjects:
            subjects[key] = TestSubject(self._explored.recording, self._explored.marker)
        return subjects[key]

    def _check_clean(self, observed: ObservedRun) -> None:
        __tracebackhide__ = True
        if not observed.problem:
            if not observed.run.calls and not observed.run.tools:
                pytest.fail(NOTHING_EXPLORED, pytrace=False)
            self._check_optional(named_calls(observed.run))
            return
        if observed.error is not None and self._explored.case is None:
            raise observed.error
        if observed.ending.failure and self._explored.case is None:
            pytest.fail(f"{observed.problem}\n\n{observed.ending.failure}", pytrace=False)
        pytest.fail(f"the run fails without any fault: {observed.problem}", pytrace=False)

    def _check_optional(self, names: set[str]) -> None:
        """Fail for a misspelt name. A marker of a class may name what only another of its tests calls."""
        __tracebackhide__ = True
        for name in self._explored.marker.optional:
            if name not in names and (hint := did_you_mean(name, names)):
                pytest.fail(f"mark.explore: optional: there is no step or tool {name!r}\n  hint: {hint}", pytrace=False)

    def _check(self, observed: ObservedRun, assessment: Assessment) -> None:
        __tracebackhide__ = True
        self._item.add_report_section("call", "error", observed.ending.traceback)
        if assessment.verdict in self._explored.marker.fail_on:
            again = f"pytest {shlex.quote(self._item.nodeid)}"
            pytest.fail(finding_text(assessment, str(self._explored.case), again), pytrace=False)

    def _usage(self, run: Run) -> RecordingUsage:
        return RecordingUsage(recording=self._explored.recording, served=len(run.calls) + len(run.tools))


def explored_case_of(item: pytest.Item) -> ExploredCase | None:
    """Return the case of an item; None if its test is not explored."""
    callspec = getattr(item, "callspec", None)
    case = None if callspec is None else callspec.params.get(OFFBOOK)
    return case if isinstance(case, ExploredCase) else None


class RegressionFile(pytest.File):
    """A file like `regress/0007.json`, with one item."""

    def collect(self) -> Iterator[RegressionItem]:
        yield RegressionItem.from_parent(self, name="regression")


class RegressionItem(pytest.Item):
    """A finding, run again. It passes when it is no longer a finding."""

    def runtest(self) -> None:
        regression = load_regression(self.path)
        result = reproduce(self.path)
        if result.is_finding:
            again = f"offbook replay --plan {shlex.quote(str(self.path))}"
            pytest.fail(finding_text(result.assessment, str(regression), again), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.name}: regression"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        error = excinfo.value
        return str(error) if isinstance(error, OffbookError) else super().repr_failure(excinfo, *style)
