"""The use of recordings, with unrecorded calls, in tests' reports and in a run's summary."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest._code.code import ExceptionChainRepr

from offbook.errors import RecordingMismatchError
from offbook.pytest_plugin.options import options_of
from offbook.pytest_plugin.recordings import join_entries, unused_recordings
from offbook.text import pluralize, shorten

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionRepr, TracebackEntry

    from offbook.pytest_plugin.backend import RecordingUsage
    from offbook.pytest_plugin.markers import RecordingPlan


PLAN: pytest.StashKey[RecordingPlan] = pytest.StashKey()
PASSED = pytest.StashKey[bool]()
USAGE: pytest.StashKey[RecordingUsage] = pytest.StashKey()
SAME_CAUSE = "for the same cause as"
"""The beginning of the reason of an item that fails as another one has."""
REPORT_ATTRIBUTE = "offbook"
"""The report attribute for the usage of the recording. Reports of workers keep it."""


def same_cause_as(report: pytest.TestReport) -> str:
    """Return the item that failed before for the same cause, or ""."""
    _, found, first = str(getattr(report, "wasxfail", "")).partition(f"{SAME_CAUSE} ")
    return first if found else ""


def has_passed(item: pytest.Item) -> bool:
    """Return whether the test itself has passed."""
    return item.stash.get(PASSED, False)


def attach_usage(report: pytest.TestReport, item: pytest.Item) -> None:
    """Attach the recording of a test to its first report, and the usage to its last."""
    if report.when == "call":
        item.stash[PASSED] = report.passed
    if report.when == "setup" and PLAN in item.stash:
        setattr(report, REPORT_ATTRIBUTE, {"recording": item.stash[PLAN].location})
    if report.when == "teardown" and USAGE in item.stash:
        setattr(report, REPORT_ATTRIBUTE, item.stash[USAGE].to_dict())


COMPLETE_RUNS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class RecordingSummary:
    """Sums up the usage on all reports, including those of workers."""

    def __init__(self) -> None:
        self._usages: list[dict[str, object]] = []
        self._same_cause = Counter[str]()
        self._is_interrupted = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        usage = getattr(report, REPORT_ATTRIBUTE, None)
        if usage is not None:
            self._usages.append(usage)
        if first := same_cause_as(report):
            self._same_cause[first] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Count an item whose cause is known in a group of its own, and not among failures that are expected."""
        return ("grouped", "=", ("GROUPED", {"red": True})) if same_cause_as(report) else None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._is_interrupted = bool(session.shouldstop or session.shouldfail)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        root = config.rootpath
        lines = [*self._counts(), *self._unused(root), *self._not_taken(root), *self._left_out(root)]
        if options_of(config).report_unused and exitstatus in COMPLETE_RUNS and not self._is_interrupted:
            lines += self._unused_recordings(config)
        if lines:
            terminalreporter.section("offbook")
        for line in lines:
            terminalreporter.line(line)

    def _counts(self) -> Iterable[str]:
        if self._usages:
            served, recorded, missed = (self._sum(name) for name in ("served", "recorded", "missed"))
            failed = f" of which {count:,} failed," if (count := self._sum("failed")) else ""
            live = f"{recorded:,} recorded live,{failed}"
            yield f"{pluralize(served, 'call')} served from recordings, {live} {missed:,} missed"
        if but_for := self._counter("but_for"):
            parts = [f"{pluralize(count, 'call')} but for {kinds}" for kinds, count in but_for.items()]
            yield f"matched: {', '.join(parts)}"
        for first, count in self._same_cause.items():
            verb = "fails" if count == 1 else "fail"
            yield f"{pluralize(count, 'item')} {verb} {SAME_CAUSE} {first}, grouped (=); --runxfail shows them"
        if approved := self._sum("approved"):
            yield f"{pluralize(approved, 'golden trajectory', 'golden trajectories')} approved"
        if dropped := self._sum("dropped"):
            yield f"{pluralize(dropped, 'call')} of failed tests not kept; --offbook-keep-failed keeps them"

    def _counter(self, name: str) -> Counter[str]:
        """Return the sum of the counts of all usages."""
        counts = (usage.get(name, {}) for usage in self._usages)
        return sum((Counter(each) for each in counts if isinstance(each, dict)), Counter[str]())

    def _sum(self, name: str) -> int:
        return sum(int(str(usage.get(name, 0))) for usage in self._usages)

    def _unused(self, root: Path) -> Iterable[str]:
        for usage in self._usages:
            unused = usage.get("unused", ())
            if isinstance(unused, list | tuple) and unused:
                yield f"not used in {_relative(str(usage['recording']), root)}: {join_entries(list(unused))}"

    def _not_taken(self, root: Path) -> Iterable[str]:
        """Yield the recorded tools that tests have left to run for real, by recording."""
        for recording, tools in {str(usage["recording"]): usage.get("not_taken") for usage in self._usages}.items():
            if isinstance(tools, list | tuple) and tools:
                where = _relative(recording, root)
                yield f"tools of the program, not taken over in this process: {', '.join(map(str, tools))} ({where})"

    def _left_out(self, root: Path) -> Iterable[str]:
        """Yield the cases that budgets left out, by recording and fault."""
        left: dict[str, Counter[str]] = {}
        for usage in self._usages:
            counts = usage.get("left_out")
            if isinstance(counts, dict):
                left.setdefault(str(usage["recording"]), Counter()).update(counts)
        for recording, counts in left.items():
            faults = "; ".join(f"{count:,} of {fault}" for fault, count in counts.items())
            where = _relative(recording, root)
            yield f"the budget left out {pluralize(counts.total(), 'case')} of {where}: {shorten(faults, 1000)}"

    def _unused_recordings(self, config: pytest.Config) -> Iterable[str]:
        used = {str(usage["recording"]) for usage in self._usages}
        for file in unused_recordings(config, used):
            yield f"no test used {_relative(str(file), config.rootpath)}"


def _relative(path: str, root: Path) -> str:
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


_FOREIGN = (Path(os.__file__).parent, Path(__file__).parent.parent)
"""The folders of the standard library and of offbook."""


def report_missed(
    report: pytest.TestReport, item: pytest.Item, raised: pytest.ExceptionInfo[BaseException], missed: str
) -> None:
    """Add the unrecorded calls to the report; if the error is about them, shorten it to the frames of the project.

    The difference is shown once: by an error of ours, or after an error of an SDK, which wraps or escapes it. The
    traceback is left alone if the user chose its style.
    """
    is_ours = isinstance(raised.value, RecordingMismatchError)
    _, first, *more = missed.splitlines()
    if not is_ours and first.partition(": ")[2] not in str(raised.value):
        report.sections.append(("offbook", missed))
        return
    if may_shorten(item.config):
        report.longrepr = _short(raised, is_ours=is_ours)
        summarize_in_one_line(report)
    if not is_ours:
        report.sections.append(("offbook", missed))
    elif more and more[-1] not in str(raised.value):
        report.sections.append(("offbook", more[-1].strip()))


def missed_text(item: pytest.Item, error: BaseException, diverged: str, *, again: str) -> str:
    """Return the failure of a run by an unrecorded call: its frames in the project, the difference, and how to record
    it again. "" for another failure, or if the user chose a traceback style.
    """
    first, *more = diverged.splitlines()
    is_reason = isinstance(error, RecordingMismatchError) or first.partition(": ")[2] in str(error)
    if not (is_reason and may_shorten(item.config)):
        return ""
    shown = str(_short(pytest.ExceptionInfo.from_exception(error), is_ours=False))
    difference = [line for line in more if not line.startswith("  hint: ")]
    return "\n".join([shown, first, *difference, f"  hint: {again}"])


def may_shorten(config: pytest.Config) -> bool:
    """Return whether the user leaves the style of tracebacks to us."""
    return config.getoption("tbstyle", "auto") == "auto" and not config.getoption("fulltrace", False)


def summarize_in_one_line(report: pytest.TestReport) -> None:
    """Keep only the first line of an error in the summary of a run. Pytest itself shows all lines on CI."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        shown = [line.removeprefix("E   ") for line in str(report.longrepr).splitlines() if line.startswith("E   ")]
        crash.message = (shown or crash.message.splitlines() or [""])[0].strip().rstrip(":")


def _short(raised: pytest.ExceptionInfo[BaseException], *, is_ours: bool) -> ExceptionRepr:
    """Return the error with only the project's frames, and an SDK's error with only its class."""
    own = raised.traceback.filter(_is_own)
    if own:
        raised.traceback = own
    shown = raised.getrepr(style="short", chain=False)
    if not is_ours and isinstance(shown, ExceptionChainRepr):
        error = raised.exconly().partition("\n")[0].partition(":")[0]
        entry = shown.reprtraceback.reprentries[-1]
        frames = [line for line in entry.lines if not line.startswith("E ")]
        entry.lines = [*frames, f"E   {error}: the call is not recorded, see below"]
    return shown


class _ReportedMisses(logging.Filter):
    """Leaves out the log of unrecorded calls, which the report of a test has."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (
            isinstance(record.args, tuple) and any(isinstance(each, RecordingMismatchError) for each in record.args)
        )


@contextmanager
def unlogged_misses() -> Iterator[None]:
    """Keep unrecorded calls out of the log, for a block."""
    logger, reported = logging.getLogger("offbook.wire"), _ReportedMisses()
    logger.addFilter(reported)
    try:
        yield
    finally:
        logger.removeFilter(reported)


def _is_own(entry: TracebackEntry) -> bool:
    return is_own_file(entry.path)


def is_own_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file belongs to the project: not to the standard library, offbook or another package."""
    file = Path(path)
    return "site-packages" not in file.parts and not any(file.is_relative_to(folder) for folder in _FOREIGN)
