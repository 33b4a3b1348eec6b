"""Explored tests, one item for each case with its fixture and verdict, and regression files as items."""

from __future__ import annotations

import shlex
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar

import pytest
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.clock import refuse_in_loop
from offbook.errors import InputError, OffbookError
from offbook.explore.cases import FaultCase, cases_of, require_case
from offbook.explore.causes import cause_of
from offbook.explore.explorer import CaseResult, next_continuation, with_noise
from offbook.explore.harness import Harness
from offbook.explore.judge import assess
from offbook.explore.monitor import RunMonitor
from offbook.explore.options import gave_up_by, select_variants
from offbook.explore.run import MISSPELT, ModelCall, Run, named_calls, recorded_run, sites_of
from offbook.explore.schedule import LeftOutFault, in_case_order, left_out, parse_budget, rows_near_effects, schedule
from offbook.explore.verdict import Assessment
from offbook.faults import FaultPlan
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.pytest_plugin.backend import RecordingUsage
from offbook.pytest_plugin.explored_run import ObservedRun, TestEnding, TestSubject
from offbook.pytest_plugin.fixture import NOTHING_EXPLORED, UNEXPLORED, PackageNames, refuse_unexplored
from offbook.pytest_plugin.markers import ExploreMarker, explore_marker_of, recording_plan_of
from offbook.pytest_plugin.options import OFFBOOK
from offbook.pytest_plugin.summary import SAME_CAUSE, USAGE
from offbook.recording.stores.locate import open_store
from offbook.session.log import Log, Served
from offbook.subjects.regression import load_regression, reproduce
from offbook.text import closest_name, did_you_mean
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import wrap_tool
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.request import HttpRequest

if TYPE_CHECKING:
    import httpx2

    from offbook.wire.intercept.in_process import InProcessInterception

CLEAN = "clean"
"""The id of the item without a fault."""


class ExploredCase(Struct, frozen=True):
    """A case of a test on its recording. Without `case` it is the clean run, with the cases that the budget left out.

    `numbered` is the same case with call numbers instead of steps, for HTTP clients.
    """

    marker: ExploreMarker
    recording: str
    case: FaultCase | None = None
    left_out: tuple[LeftOutFault, ...] = ()
    numbered: FaultCase | None = None

    @property
    def id(self) -> str:
        """The case in the name of its item, like `2 agent: timeout`, equal in every process."""
        if self.case is None:
            return CLEAN
        return ": ".join((self.case.cells[0].row, self.case.cells[0].column))


class UnreadableCases(Struct, frozen=True):
    """The cases of a test that cannot be known, and why."""

    problem: str


def parametrize_cases(metafunc: pytest.Metafunc) -> None:
    """Generate an item for each case of a test, the clean run first.

    Without a recording, and while recording, there is only the clean run. An invalid marker or an unreadable recording
    gives one item, which fails with the error.
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
    if any(variant.needs_overlap for variant in variants):
        reason = "the cases of a test come from its recording, which does not show which calls overlap"
        hint = "explore_function and offbook explore try orders; a test can be cancelled: faults='all,cancelled'"
        raise InputError(reason, source="faults", hint=hint)
    _ = marker.declarations  # so that a wrong one is reported before anything runs
    plan = recording_plan_of(node)
    store = open_store(plan.location)
    if plan.record is not None or not store.exists():
        return [None]
    run, budget = recorded_run(store.load()), parse_budget(marker.budget)
    cases, near = cases_of(sites_of(run), variants), rows_near_effects(run)
    if sites_of(run):
        require_case(cases, variants)
    planned = schedule(cases, near).within(budget.cases)
    if budget.time_s is None:
        planned = in_case_order(planned, lambda case: case)
    numbered = {case.id: case for case in cases_of(sites_of(_without_steps(run)), variants)}
    clean = ExploredCase(marker, plan.location, left_out=left_out(cases, planned))
    return [clean, *(ExploredCase(marker, plan.location, case, numbered=numbered[case.id]) for case in planned)]


def _without_steps(run: Run) -> Run:
    return replace(run, calls=tuple(replace(call, step_id=None) for call in run.calls))


T = TypeVar("T")


class ExploredFixture(PackageNames, Served):
    """The fixture `offbook` of an explored test: models and tools for the runs of one item.

    An item may make the clean run before its case. `provider`, HTTP clients and `tools(…)` use the harness of the
    current run, even if they were created before it.
    """

    is_recording = False

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.provider: Provider = _CurrentHarness(self)
        self.stand_in: InProcessClients = _CurrentHttp(self)
        self._interceptions: list[InProcessInterception] = []
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
            InputError: the test is not running yet, as while fixtures are set up.
        """
        if self._harness is None:
            hint = "let fixtures keep offbook.provider, HTTP clients or offbook.tools(…), and call them in the test"
            raise InputError("no call is answered before the test runs", source="offbook", hint=hint)
        return self._harness

    @property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls. Every run has its own."""
        if self._gateway is None:
            self._gateway = ProviderGateway(sink=self.harness.recovery_counter)
            self._gateway.register(self.provider)
        return self._gateway

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """Return a client for an SDK: `AsyncOpenAI(http_client=offbook.http_client())`. No call goes to `transport`."""
        return self.stand_in.http_client(transport)

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """Return a client for a synchronous SDK: `OpenAI(http_client=offbook.sync_http_client())`."""
        return self.stand_in.sync_http_client(transport)

    def intercept(self, *hosts: str) -> InProcessInterception:
        """Answer all requests of httpx, httpx2, requests and aiohttp to the APIs of vendors, and to `hosts`.

        It lasts until the end of the test, or of the block.
        """
        interception = self.stand_in.intercept(*hosts)
        self._interceptions.append(interception)
        return interception

    def close(self) -> None:
        """Undo the effects of `intercept`."""
        for interception in self._interceptions:
            interception.close()

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools to be replayed, if the recording has tool calls, and to fail where the case says.

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

    def assert_golden(self, calls: Iterable[object], *, name: str = "") -> None:
        """Assert that the tool calls are as approved. An explored test approves nothing.

        Raises:
            AssertionError: they are not.
            InputError: an item is not a tool call, or the golden file cannot be read.
        """
        __tracebackhide__ = True
        from offbook.pytest_plugin.golden import GoldenTrajectories  # noqa: PLC0415 - most tests have none

        GoldenTrajectories(self.recording, "TEST").check(None, calls, name=name)

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls of the current run, in the order in which they ended."""
        return [] if self._harness is None else list(self._harness.calls)

    def live(self, provider: object) -> None:
        """Do nothing: an explored test never calls a live provider."""

    @property
    def log(self) -> Log:
        """An empty log: a run with a fault may leave entries unused."""
        return Log()

    def faults(self, *faults: object) -> Never:
        """Raise InputError: the case has the faults."""
        hint = "remove mark.explore or offbook.faults"
        raise InputError("the faults of an explored test come from its case", source="offbook.faults", hint=hint)

    def __getattr__(self, name: str) -> Never:
        if name in UNEXPLORED:
            refuse_unexplored(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _on_current_harness(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            return self.harness.wrap(tool).callable(**arguments)

        return wrap_tool(tool, call, timeout_s=tool.timeout_s)


class _CurrentHarness(Provider):
    """Passes requests on to the harness of the current run."""

    name = "explore"

    def __init__(self, offbook: ExploredFixture) -> None:
        self._offbook = offbook

    async def send(self, request: Request) -> Reply:
        return await self._offbook.harness.provider.send(request)


class _CurrentHttp(InProcessClients):
    """Passes requests of HTTP clients on to the harness of the current run."""

    def __init__(self, offbook: ExploredFixture) -> None:
        self._offbook = offbook

    def accept(self, request: HttpRequest) -> InProcessCall:
        return self._offbook.harness.stand_in.accept(request)

    def close(self) -> None:
        """Do nothing: other clients may continue."""


def finding_text(assessment: Assessment, case: str, again: str) -> str:
    """Return the verdict with its evidence, the faults, and the command that reproduces it."""
    first, *more = assessment.evidence or ("",)
    return "\n  ".join([f"{assessment.title}: {first}", *more, f"fault: {case}", f"again: {again}"])


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
            self._check_clean(observed, subject)
            subject.clean = subject.clean or observed.run
            if case is not None and (subject.clean.result is not None or subject.clean.state is not UNSET):
                subject.clean = with_noise(subject.clean, subject.observe(self._item, FaultPlan()).run)
        if case is None:
            self._warn_of_unknown_streams(subject.clean)
            left = {each.fault: each.cases for each in self._explored.left_out}
            return replace(self._usage(subject.clean), left_out=left)
        self._skip_late(case, subject)
        case = self._case_after(subject.clean)
        observed, assessment = self._worst(case.plan, subject, subject.clean)
        self._check(CaseResult(case, observed.run, assessment), observed.ending, subject)
        return self._usage(observed.run)

    def _skip_late(self, case: FaultCase, subject: TestSubject) -> None:
        """Skip a case that would start after the time of the budget."""
        __tracebackhide__ = True
        if subject.deadline.has_passed:
            left = {case.columns[0]: 1}
            self._item.stash[USAGE] = RecordingUsage(recording=self._explored.recording, left_out=left)
            pytest.skip(f"left out: the budget of {self._explored.marker.budget} is over")

    def _warn_of_unknown_streams(self, clean: Run) -> None:
        """Warn if answers are streamed and the recording, which the cases are made from, does not show that."""
        recorded = recorded_run(open_store(self._explored.recording).load())
        if any(call.is_streamed and call.is_over_http for call in clean.calls) and not any(
            call.is_streamed for call in recorded.calls
        ):
            text = "no fault is tried inside streams: the recording has none; record the test with its HTTP client"
            self._item.warn(pytest.PytestWarning(f"{self._item.nodeid}: {text}"))

    def _case_after(self, clean: Run) -> FaultCase:
        """Return the case, without steps if the clean run's calls have none."""
        case, numbered = self._explored.case, self._explored.numbered
        assert case is not None
        assert numbered is not None
        has_steps = any(call.step_id is not None for call in clean.calls) or not clean.calls
        return case if has_steps else numbered

    def _worst(self, plan: FaultPlan, subject: TestSubject, clean: Run) -> tuple[ObservedRun, Assessment]:
        """Run the case, also with every continuation if one was needed, and return the run with the worst verdict."""
        observed, optional = [subject.observe(self._item, plan)], self._explored.marker.optional_names
        while (continuation := next_continuation([each.run for each in observed])) is not None:
            observed.append(subject.observe(self._item, plan, continuation))
        gave_up = gave_up_by(self._explored.marker.gave_up)
        assessed = [(each, assess(each.run, clean, optional=optional, gave_up=gave_up)) for each in observed]
        return min(assessed, key=lambda pair: pair[1].severity)

    def _subject(self) -> TestSubject:
        subjects = self._item.session.stash.setdefault(_SUBJECTS, {})
        others = {name: place for name, place in self._item.callspec.indices.items() if name != OFFBOOK}
        key = self._item.nodeid.partition("[")[0], tuple(sorted(others.items()))
        if key not in subjects:
            subjects[key] = TestSubject(self._explored.recording, self._explored.marker)
        return subjects[key]

    def _check_clean(self, observed: ObservedRun, subject: TestSubject) -> None:
        __tracebackhide__ = True
        if not observed.problem:
            if not observed.run.calls and not observed.run.tools:
                self._fail_once(("clean", ""), NOTHING_EXPLORED, subject)
            self._check_names(observed.run)
            return
        self._expect_known(("clean", ""), subject)
        if observed.ending.missed:
            pytest.fail(observed.ending.missed, pytrace=False)
        if observed.error is not None and self._explored.case is None:
            raise observed.error
        if observed.ending.failure and self._explored.case is None:
            pytest.fail(f"{observed.problem}\n\n{observed.ending.failure}", pytrace=False)
        pytest.fail(f"the run fails without any fault: {observed.problem}", pytrace=False)

    def _check_names(self, clean: Run) -> None:
        """Fail for a misspelt name. A class marker may name what only other tests of the class call."""
        __tracebackhide__ = True
        marker = self._explored.marker
        tools = {each.tool for each in clean.tools} | {each.tool for each in clean.effects}
        for name in marker.optional:
            if name not in named_calls(clean) and (hint := did_you_mean(name, named_calls(clean))):
                pytest.fail(f"mark.explore: optional: there is no step or tool {name!r}\n  hint: {hint}", pytrace=False)
        for name in set(marker.declarations) - set(marker.tools) - tools:
            if near := closest_name(name, sorted(tools), cutoff=MISSPELT):
                pytest.fail(f"mark.explore: there is no tool {name!r}\n  hint: did you mean {near!r}?", pytrace=False)

    def _check(self, result: CaseResult, ending: TestEnding, subject: TestSubject) -> None:
        __tracebackhide__ = True
        self._item.add_report_section("call", "error", ending.traceback)
        if result.title in self._explored.marker.fail_on:
            again = f"pytest {shlex.quote(self._item.nodeid)}"
            cause = cause_of(result)
            if result.reason == "failed check" and ending.place:
                cause = result.title, ending.place
            self._fail_once(cause, finding_text(result.assessment, str(result.case), again), subject)

    def _fail_once(self, cause: tuple[str, str], text: str, subject: TestSubject) -> Never:
        __tracebackhide__ = True
        self._expect_known(cause, subject)
        pytest.fail(text, pytrace=False)

    def _expect_known(self, cause: tuple[str, str], subject: TestSubject) -> None:
        """Expect the failure of an item if another item failed for this cause, unless pytest ignores expected failures.

        So each cause fails only its first item.
        """
        __tracebackhide__ = True
        first = subject.causes.setdefault(cause, self._item.nodeid)
        if first != self._item.nodeid and not self._item.config.option.runxfail:
            pytest.xfail(f"{SAME_CAUSE} {first}")

    def _usage(self, run: Run) -> RecordingUsage:
        return RecordingUsage(recording=self._explored.recording, served=len(run.calls) + len(run.tools))


def explored_case_of(item: pytest.Item) -> ExploredCase | None:
    """Return the case of an item, or None for a test that is not explored."""
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
