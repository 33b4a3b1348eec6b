"""The hooks that pytest calls. Their imports happen when a test needs them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offbook.pytest_plugin.options import (
    EXPLORE,
    EXPLORE_MARKER_HELP,
    OFFBOOK,
    OFFBOOK_MARKER_HELP,
    add_options,
    options_of,
)
from offbook.pytest_plugin.summary import (
    PLAN,
    USAGE,
    RecordingSummary,
    attach_usage,
    has_passed,
    summarize_in_one_line,
    unlogged_misses,
)

if TYPE_CHECKING:
    from offbook.pytest_plugin.explored_test import ExploredFixture
    from offbook.pytest_plugin.fixture import Offbook
    from offbook.shard import Shard

_MARKER_ERROR = pytest.StashKey[str]()
_FIXTURE: pytest.StashKey[Offbook] = pytest.StashKey()
_INTERCEPTING = "_offbook_intercepting"
"""The fixture of a test that has the marker alone."""
_SHARD: pytest.StashKey[Shard] = pytest.StashKey()
_MISSED = pytest.StashKey[str]()
"""The unrecorded calls of a test that failed."""
_KEY_ADVICE = pytest.StashKey[str]()
"""The missing key of a test that failed while recording."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", OFFBOOK_MARKER_HELP)
    config.addinivalue_line("markers", EXPLORE_MARKER_HELP)
    _use_rules_of_redaction(config)
    _read_shard(config)
    if not _is_worker(config):
        config.pluginmanager.register(RecordingSummary(), "offbook-summary")


def _use_rules_of_redaction(config: pytest.Config) -> None:
    """Put the rules of the nearest config into force, until the end of the run."""
    from offbook.errors import InputError
    from offbook.recording.redact.rules import redacting, rules_near

    try:
        rules = rules_near(config.rootpath)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    in_force = ExitStack()
    in_force.enter_context(redacting(rules))
    config.add_cleanup(in_force.close)


def _read_shard(config: pytest.Config) -> None:
    """Stash the shard to run, if any."""
    text = options_of(config).shard
    if text is None:
        return
    from offbook.errors import InputError
    from offbook.shard import parse_shard

    try:
        config.stash[_SHARD] = parse_shard(text, source="--offbook-shard")
    except InputError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the shard that runs."""
    return [f"offbook: shard {config.stash[_SHARD]}"] if _SHARD in config.stash else []


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Name the keys that recording again requires, before a test needs them."""
    from offbook.pytest_plugin.recordings import keys_to_set

    plans = [item.stash[PLAN] for item in items if PLAN in item.stash]
    keys = keys_to_set(plans, os.environ)
    return [f"offbook: recording makes live calls, and no key is set: export {'=…, '.join(keys)}=…"] if keys else []


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this is a worker process of pytest-xdist."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect files of scenarios, which are not modules of tests as well, and regression files."""
    collectors = yield
    if _is_regression(file_path):
        from offbook.pytest_plugin.explored_test import RegressionFile

        return [*collectors, RegressionFile.from_parent(parent, path=file_path)]
    if not _declares_scenarios(file_path):
        return collectors
    from offbook.pytest_plugin.scenario_item import ScenarioFile

    others = [each for each in collectors if not isinstance(each, pytest.Module)]
    return [*others, ScenarioFile.from_parent(parent, path=file_path)]


def _declares_scenarios(file: Path) -> bool:
    """Return whether a file declares scenarios. Other files of such names must not be executed."""
    return file.name.startswith("sim_") and file.suffix == ".py" and b"offbook" in file.read_bytes()


def _is_regression(file: Path) -> bool:
    if file.suffix != ".json":
        return False
    from offbook.subjects import is_regression

    return is_regression(file)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate an item for each case of an explored test."""
    if metafunc.definition.get_closest_marker(EXPLORE) is not None and OFFBOOK in metafunc.fixturenames:
        from offbook.pytest_plugin.explored_test import parametrize_cases

        parametrize_cases(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other shards, and plan the recording of each test before anything runs."""
    if (shard := config.stash.get(_SHARD, None)) is not None:
        config.hook.pytest_deselected(items=[item for item in items if not shard.has(item.nodeid)])
        items[:] = [item for item in items if shard.has(item.nodeid)]
    for item in items:
        names = getattr(item, "fixturenames", [])
        has_fixture = OFFBOOK in names
        if item.get_closest_marker(OFFBOOK) is not None or has_fixture:
            if not has_fixture:
                names.insert(0, _INTERCEPTING)
            _plan_recording(item)
        if not has_fixture and any(mark.name == EXPLORE for mark in item.own_markers):
            hint = f"def {item.name.partition('[')[0]}({OFFBOOK}): …, or remove mark.{EXPLORE}"
            item.stash[_MARKER_ERROR] = f"the test is not explored: it does not use {OFFBOOK}\n  hint: {hint}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a shard without tests pass."""
    shard = session.config.stash.get(_SHARD, None)
    if shard is not None and shard.count > 1 and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def _plan_recording(item: pytest.Item) -> None:
    from offbook.errors import InputError
    from offbook.pytest_plugin.markers import recording_plan_of

    try:
        item.stash[PLAN] = recording_plan_of(item)
    except InputError as error:
        item.stash[_MARKER_ERROR] = str(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail only the test with a wrong marker."""
    if _MARKER_ERROR in item.stash:
        pytest.fail(item.stash[_MARKER_ERROR], pytrace=False)


@pytest.fixture(name=OFFBOOK)
def _offbook(request: pytest.FixtureRequest) -> Iterator[Offbook | ExploredFixture]:
    """Models and tools for a test, answered from its recording: `provider`, `http_client()`, `tools(…)`."""
    from offbook.pytest_plugin.fixture import Offbook
    from offbook.pytest_plugin.markers import recording_plan_of

    item: pytest.Item = request.node
    explored = getattr(request, "param", None)
    if explored is not None:
        from offbook.pytest_plugin.explored_test import ExploredFixture, UnreadableCases

        if isinstance(explored, UnreadableCases):
            pytest.fail(explored.problem, pytrace=False)
        fixture = ExploredFixture(explored.recording)
        yield fixture
        fixture.close()
        return
    if PLAN not in item.stash:  # requested by name while the test runs
        item.stash[PLAN] = recording_plan_of(item)
    offbook = item.stash[_FIXTURE] = Offbook(item.stash[PLAN])
    with unlogged_misses():
        yield offbook
    is_passed = has_passed(item)
    item.stash[USAGE] = offbook.close(passed=is_passed)
    offbook.check_missed()
    if not is_passed or not isinstance(item, pytest.Function):
        return
    if OFFBOOK in signature(item.function).parameters:
        offbook.check_used()
    elif _INTERCEPTING in item.fixturenames and any(mark.name == OFFBOOK for mark in item.own_markers):
        offbook.check_called(item.stash[USAGE])


@pytest.fixture(name=_INTERCEPTING)
def _intercepting(offbook: Offbook) -> None:
    """Answer all clients of a test with the marker but without the fixture."""
    offbook.intercept_all()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a case of an explored test."""
    if pyfuncitem.get_closest_marker(EXPLORE) is None:
        return None
    from offbook.pytest_plugin.explored_test import ExploredTest, explored_case_of

    explored = explored_case_of(pyfuncitem)
    if explored is None:
        return None
    pyfuncitem.stash[USAGE] = ExploredTest(pyfuncitem, explored).run()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test with an unrecorded call, an unfired fault or, if that is an error, unused entries."""
    try:
        yield
    except pytest.skip.Exception:
        raise
    except BaseException:  # pytest.fail and sys.exit raise no Exception
        if _FIXTURE in item.stash:
            item.stash[_MISSED] = item.stash[_FIXTURE].describe_missed()
            item.stash[_KEY_ADVICE] = item.stash[_FIXTURE].missing_key_advice()
        raise
    offbook = item.stash.get(_FIXTURE, None)
    if offbook is not None:
        offbook.check_missed()
        offbook.check_unfired()
        offbook.check_unused()
        offbook.check_explored()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test passed, and attach the usage of its recording to its reports."""
    report = yield
    attach_usage(report, item)
    if report.when == "call" and call.excinfo is not None and (missed := item.stash.get(_MISSED, "")):
        from offbook.pytest_plugin.summary import report_missed

        report_missed(report, item, call.excinfo, missed)
    if report.when == "call" and (advice := item.stash.get(_KEY_ADVICE, "")):
        report.sections.append(("offbook", advice))
    if item.get_closest_marker(EXPLORE) is not None:
        summarize_in_one_line(report)
    return report
