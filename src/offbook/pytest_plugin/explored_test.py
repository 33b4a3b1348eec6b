"""Explored tests: one item for each case, the fixture that they get, and the verdict that fails them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction, signature
from traceback import format_exception
from typing import Any, Never, TypeVar, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import refuse_in_loop
from offbook.errors import InputError
from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.harness import Harness, HarnessFactory
from offbook.explore.monitor import RunMonitor
from offbook.explore.run import ModelCall, Run
from offbook.explore.sites import recorded_run, sites_of
from offbook.explore.variants import select_variants
from offbook.explore.verdict import Assessment, assess
from offbook.faults import FaultPlan
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.pytest_plugin.backend import RecordingUsage
from offbook.pytest_plugin.markers import ExploreMarker, explore_marker_of
from offbook.pytest_plugin.plan import recording_plan_of
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.stores.locate import open_store
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTool, GivenTools

FIXTURE = "offbook"
CLEAN = "clean"


class ExploredCase(Struct, frozen=True):
    """A case of a test, or without one its run without a fault. `recording` is where it is answered from."""

    said: ExploreMarker
    recording: str
    case: FaultCase | None = None

    @property
    def id(self) -> str:
        """The case in the name of its item, like `2 agent: timeout`: the same in every process."""
        if self.case is None:
            return CLEAN
        return ": ".join((self.case.cells[0].row, self.case.cells[0].column))


def parametrize_cases(metafunc: pytest.Metafunc) -> None:
    """Make an item for each case of a test, the run without a fault first.

    Where there is no recording yet, and while one is made, that is the only one.

    Raises:
        CollectError: the marker says something that cannot be, or the recording cannot be read.
    """
    try:
        cases = _explored_cases(metafunc.definition)
    except InputError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    ids = [CLEAN if case is None else case.id for case in cases]
    metafunc.parametrize(FIXTURE, cases, ids=ids, indirect=True)


def _explored_cases(node: pytest.Item) -> list[ExploredCase | None]:
    said = explore_marker_of(node)
    if said is None:
        return [None]
    variants = select_variants(said.faults)
    plan = recording_plan_of(node)
    store = open_store(plan.location)
    if plan.record is not None or not store.exists():
        return [None]
    found = cases_of(sites_of(recorded_run(store.load())), variants, budget=said.budget)
    return [ExploredCase(said, plan.location, case) for case in (None, *found)]


T = TypeVar("T")


class ExploredFixture:
    """Stands in for models and tools in the runs of one item: without a fault if need be, then with its case.

    What is asked by `provider` and `tools(…)` goes to the harness of the run under way, whenever they were taken.
    """

    is_recording = False

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.provider: Provider = _CurrentHarness(self)
        self._harness: Harness | None = None
        self._watch: RunMonitor | None = None
        self._gateway: ProviderGateway | None = None

    def __repr__(self) -> str:
        return f"<offbook exploring {self.recording}>"

    def bind(self, harness: Harness, watch: RunMonitor) -> None:
        """Let a run begin."""
        self._harness, self._watch, self._gateway = harness, watch, None

    @property
    def harness(self) -> Harness:
        """The harness of the run under way.

        Raises:
            InputError: none is, as while fixtures are set up.
        """
        if self._harness is None:
            hint = "let fixtures keep offbook.provider or offbook.tools(…), and ask in the test"
            raise InputError("nothing is asked before the test runs", source="offbook", hint=hint)
        return self._harness

    @property
    def gateway(self) -> ProviderGateway:
        """The provider behind a gateway that tries failed calls again. It is of the run under way alone."""
        if self._gateway is None:
            self._gateway = ProviderGateway(sink=self.harness.recovery_counter)
            self._gateway.register(self.provider)
        return self._gateway

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """The same tools, answered from the recording if it has calls of tools, and failing as the case says.

        Raises:
            InputError: one of them is no tool.
        """
        named: dict[str, ToolDef] = {}
        for each in given:
            named |= Toolbox([each] if callable(each) or isinstance(each, ToolDef) else each)
        return Toolbox([self._staged(tool) for tool in named.values()])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end, in virtual time.

        Raises:
            EventLoopError: the test is async itself; await `work` there.
        """
        refuse_in_loop(work)
        if self._watch is None:
            work.close()
            raise InputError("nothing runs before the test does", source="offbook.run")
        return self._watch.run(work)

    @property
    def calls(self) -> list[ModelCall]:
        """The calls of models in the run under way, in the order they ended."""
        return [] if self._harness is None else list(self._harness.calls)

    def live(self, provider: object) -> None:
        """Nothing is asked live."""

    def unused(self) -> list[UnusedEntry]:
        """What a run with a fault leaves unused says nothing."""
        return []

    def faults(self, *faults: object) -> Never:
        """The case says which faults strike."""
        hint = "leave out mark.explore, or offbook.faults"
        raise InputError("an explored test is given its faults by the case", source="offbook.faults", hint=hint)

    def __getattr__(self, name: str) -> Never:
        if name in {"stand_in", "http_client", "sync_http_client", "serving"}:
            hint = "ask offbook.provider, or explore it as a program: offbook explore --replay PATH -- COMMAND"
            raise InputError("HTTP clients are not explored in a test", source=f"offbook.{name}", hint=hint)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _staged(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            return self.harness.wrap(tool).callable(**arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            value = call(**arguments)
            return await value if hasattr(type(value), "__await__") else value

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)


class _CurrentHarness(Provider):
    """Asks the harness of the run under way."""

    name = "explore"

    def __init__(self, offbook: ExploredFixture) -> None:
        self._offbook = offbook

    async def send(self, request: Request) -> Reply:
        return await self._offbook.harness.provider.send(request)


def finding_text(judged: Assessment, case: str, again: str) -> str:
    """The verdict and what it rests on, the faults, and the command that shows it again."""
    first, *more = judged.evidence or ("",)
    return "\n  ".join([f"{judged.verdict}: {first}", *more, f"fault: {case}", f"again: {again}"])


ASSERTION_ERRORS = (AssertionError, pytest.fail.Exception)
_RECORDINGS = pytest.StashKey["dict[object, ExploredRecording]"]()


class ExploredRecording:
    """The theatre of a test in this process, and what its run without a fault did, once that was made."""

    def __init__(self, explored: ExploredCase) -> None:
        self.harnesses = HarnessFactory(open_store(explored.recording).read(), explored.said.divergence)
        self.clean: Run | None = None


class ObservedRun(Struct, frozen=True):
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
        self._offbook = cast("ExploredFixture", item.funcargs[FIXTURE])

    def run(self) -> RecordingUsage:
        """Run the case, fail if its verdict is one to fail on, and tell how many calls were answered."""
        __tracebackhide__ = True
        recording = self._recording()
        case = self._explored.case
        if recording.clean is None or case is None:
            seen = self._seen(recording.harnesses.create(FaultPlan()))
            self._check_clean(seen)
            recording.clean = recording.clean or seen.run
        if case is None:
            return self._tally(recording.clean)
        seen = self._seen(recording.harnesses.create(case.plan))
        self._check(seen, assess(seen.run, recording.clean))
        return self._tally(seen.run)

    def _recording(self) -> ExploredRecording:
        recordings = self._item.session.stash.setdefault(_RECORDINGS, {})
        others = {name: place for name, place in self._item.callspec.indices.items() if name != FIXTURE}
        key = self._item.nodeid.partition("[")[0], tuple(sorted(others.items()))
        if key not in recordings:
            recordings[key] = ExploredRecording(self._explored)
        return recordings[key]

    def _seen(self, harness: Harness) -> ObservedRun:
        """What one run on the harness did. An assertion of the test that does not hold is broken."""
        said, errors = self._explored.said, list[BaseException]()
        watch = RunMonitor(harness, declared=said.declared, deadlines=said.deadlines)
        self._offbook.bind(harness, watch)

        def play() -> Any:
            try:
                return self._called(watch)
            except ASSERTION_ERRORS as error:
                errors.append(error)
            except Exception as error:
                errors.append(error)
                raise

        run = watch.seen(play)
        broken = [str(error) or type(error).__name__ for error in errors if isinstance(error, ASSERTION_ERRORS)]
        return ObservedRun(replace(run, broken=tuple(broken)), errors[0] if errors else None)

    def _called(self, watch: RunMonitor) -> Any:
        function = _test_function(self._item.obj)
        given = self._item.funcargs
        arguments = {name: given[name] for name in signature(function).parameters if name in given}
        if iscoroutinefunction(function):
            return watch.run(function(**arguments))
        return function(**arguments)

    def _check_clean(self, seen: ObservedRun) -> None:
        __tracebackhide__ = True
        if not seen.problem:
            return
        if seen.error is not None and self._explored.case is None:
            raise seen.error
        pytest.fail(f"the run fails without any fault: {seen.problem}", pytrace=False)

    def _check(self, seen: ObservedRun, judged: Assessment) -> None:
        __tracebackhide__ = True
        if seen.error is not None:
            self._item.add_report_section("call", "error", _traceback(seen.error))
        if judged.verdict in self._explored.said.fail_on:
            again = f"pytest {shlex.quote(self._item.nodeid)}"
            pytest.fail(finding_text(judged, str(self._explored.case), again), pytrace=False)

    def _tally(self, run: Run) -> RecordingUsage:
        return RecordingUsage(self._explored.recording, served=len(run.calls) + len(run.tools))


def _traceback(error: BaseException) -> str:
    """The traceback of an error, from the test on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(format_exception(type(error), error, trace))


def _test_function(found: Callable[..., Any]) -> Callable[..., Any]:
    """The test's own function, where a plugin has put one around it that runs what is async in real time."""
    inner = getattr(found, "__wrapped__", None)
    return inner if inner is not None and iscoroutinefunction(inner) and not iscoroutinefunction(found) else found


def explored_case_of(item: pytest.Item) -> ExploredCase | None:
    """The case that an item is of, if its test is explored."""
    callspec = getattr(item, "callspec", None)
    case = None if callspec is None else callspec.params.get(FIXTURE)
    return case if isinstance(case, ExploredCase) else None
