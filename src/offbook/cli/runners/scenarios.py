"""Runs scenarios for a command, with reports and an exit code, and again whenever files change."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from offbook.cli import BAD_INPUT, FAILED, FINE, INTERRUPTED, MISMATCH
from offbook.cli.output.console import describe_unused, echo, echo_json, print_message
from offbook.cli.run_program import Termination
from offbook.clock import run
from offbook.config import (
    Config,
    RunPlan,
    collect_scenarios,
    error_grouping,
    find_config,
    import_from,
    load_config,
    mcp_configs,
    open_participants,
    plan_run,
    run_rules,
    scenario_files,
)
from offbook.config.discovery import project_files
from offbook.config.recordings import is_folder, slug
from offbook.errors import InputError, OffbookError
from offbook.pipeline import Live, Record, Replay
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.redact.rules import add_rules_of
from offbook.recording.replace_on_close import keep_recording
from offbook.recording.stores.locate import open_store
from offbook.report import Reporter, Reporters, reporter_of
from offbook.report.scenarios.json_report import compact_json
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.scenarios.runner import Participants, RunRules, ScenarioRunner
from offbook.scenarios.scenario import Scenario


class ScenarioOptions(Struct, frozen=True, kw_only=True):
    """Which scenarios run, with which agents, how, and with which reports. None means as in the config."""

    mode: Live | Record | Replay = Live()
    paths: tuple[str, ...] = ()
    config: str | None = None
    scenario: str | None = None
    agents: tuple[str, ...] = ()
    repeat: int | None = None
    concurrency: int | None = None
    reporters: tuple[str, ...] = ()
    is_json: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether some scenarios or agents of the config may not run."""
        return bool(self.paths or self.scenario or self.agents)


def parse_mode(record: str | None, replay: str | None) -> Live | Record | Replay:
    """Return the mode of the options.

    Raises:
        InputError: both are given, or there is no such folder to replay.
    """
    if record is not None and replay is not None:
        raise InputError("--record and --replay exclude each other", hint="leave one of them out")
    if replay is not None:
        if replay.endswith("/") and not Path(replay).is_dir():
            hint = f"record it: offbook test --record {replay}"
            raise InputError("there is no such folder", source=replay, hint=hint)
        return Replay(replay)
    return Live() if record is None else Record(record)


class JsonScenarioOutput:
    """Prints a run as one line of JSON when it ends."""

    def begin(self, scenarios: int) -> None:
        """Wait for the end."""

    def on_scenario(self, scenario: ScenarioResult) -> None:
        """Wait for the end."""

    def finish(self, result: SuiteResult) -> None:
        echo_json(compact_json(result))


class SuiteOutcome(Struct, frozen=True):
    """The result of a run, and the unused exchanges of a replay."""

    result: SuiteResult
    unused: list[UnusedEntry]


def run_scenarios(options: ScenarioOptions) -> int:
    """Find and run scenarios, report them, and return the exit code.

    Raises:
        InputError: the config, a file or a scenario is wrong, or something that they need is missing.
    """
    config = load_or_find_config(options)
    files = scenario_files(config, options.paths)
    with import_from([config.folder, *(file.parent for file in files)]):
        plan = plan_run(config, _choose(collect_scenarios(files), options), agents=options.agents)
        return _run(config, plan, options)


def load_or_find_config(options: ScenarioOptions) -> Config:
    """Return the config that is named, or the nearest one.

    Raises:
        InputError: there is none, or it is wrong.
    """
    config = find_config() if options.config is None else load_config(options.config)
    add_rules_of(config.source)
    return config


def _choose(scenarios: list[Scenario], options: ScenarioOptions) -> list[Scenario]:
    text = (options.scenario or "").lower()
    chosen = [scenario for scenario in scenarios if text in scenario.name.lower()]
    if not chosen:
        names = ", ".join(scenario.name for scenario in scenarios) or "none"
        reason = f"no scenario has {options.scenario!r} in its name" if scenarios else "the files declare no scenario"
        raise InputError(reason, source="scenarios", hint=f"scenarios: {names}")
    return chosen


def _run(config: Config, plan: RunPlan, options: ScenarioOptions) -> int:
    work = _Run(config, plan, options)
    is_virtual = isinstance(options.mode, Replay) and not mcp_configs(config, plan)
    try:
        with Termination():
            done = run(work.run(), virtual_time=is_virtual)
    except KeyboardInterrupt:
        work.report_partial()
        return INTERRUPTED
    except OffbookError:
        if work.has_started:
            work.report_partial(to_files_only=options.is_json)
        raise
    work.reporter.finish(done.result)
    _print_unused(done.unused, options)
    code = _exit_code(done.result)
    if code == MISMATCH and isinstance(options.mode, Replay):
        again = f"offbook test{_arguments(options)} --record {shlex.quote(options.mode.path)}"
        print_message("hint: ", f"record it again, or undo the change: {again}", is_err=options.is_json)
    return code


def _arguments(options: ScenarioOptions) -> str:
    """Return the arguments that choose the same scenarios, each with a space in front."""
    named = [("--config", options.config), ("--scenario", options.scenario)]
    named += [("--agent", agent) for agent in options.agents]
    words = [*options.paths, *(word for name, value in named if value is not None for word in (name, value))]
    return "".join(f" {shlex.quote(word)}" for word in words)


class _Run:
    """A run in progress, whose scenarios so far can be reported if it is interrupted."""

    def __init__(self, config: Config, plan: RunPlan, options: ScenarioOptions) -> None:
        self._config, self._plan, self._options = config, plan, options
        reporters = list(_reporters(options))
        self.reporter, self._files = Reporters(*reporters), Reporters(*reporters[:-1])
        self._runner = ScenarioRunner(Participants({}))
        self._grouping = error_grouping(config)
        self.has_started = False

    async def run(self) -> SuiteOutcome:
        """Run all conversations and group their errors. Reports begin when all participants are open."""
        plan, repeat = self._plan, self._options.repeat or self._config.run.repeat
        async with open_participants(self._config, plan, self._options.mode) as opened:
            self.reporter.begin(len(plan.pairs))
            self.has_started = True
            rules = _rules(self._config, self._options)
            self._runner = ScenarioRunner(opened.participants, rules, on_scenario=self.reporter.on_scenario)
            result = await self._runner.run(plan.scenarios, agents=plan.requested_agents, repeat=repeat)
            _keep_recordings_of_failures(self._options.mode, result)
            groups = await self._grouping.groups_of(result, opened.provider)
            return SuiteOutcome(replace(result, groups=groups), opened.unused())

    def report_partial(self, *, to_files_only: bool = False) -> None:
        """Report the scenarios that have ended."""
        ended = self._runner.so_far()
        reporter = self._files if to_files_only else self.reporter
        reporter.finish(replace(ended, groups=self._grouping.groups_without_model(ended)))


def _keep_recordings_of_failures(mode: Live | Record | Replay, result: SuiteResult) -> None:
    """Let the recordings of scenarios that failed stay as they were."""
    failed = [each.name for each in result.scenarios if not each.passed]
    if not isinstance(mode, Record) or not failed:
        return
    files = [str(Path(mode.path) / f"{slug(name)}.json") for name in failed] if is_folder(mode.path) else [mode.path]
    for file in files:
        keep_recording(open_store(file))


def _rules(config: Config, options: ScenarioOptions) -> RunRules:
    rules = run_rules(config)
    return rules if options.concurrency is None else replace(rules, concurrency=options.concurrency)


def _exit_code(result: SuiteResult) -> int:
    failures = [failure for each in result.scenarios for held in each.conversations for failure in held.failures]
    if any(failure.kind == "mismatch" for failure in failures):
        return MISMATCH
    return FINE if result.passed else FAILED


def _reporters(options: ScenarioOptions) -> Iterator[Reporter]:
    """Yield the reporters, the one of stdout last: a file that cannot be written is found before anything is shown."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
    for declared in options.reporters:
        yield reporter_of(f"github={summary}" if declared == "github" and summary else declared)
    yield JsonScenarioOutput() if options.is_json else reporter_of("console")


def _print_unused(unused: list[UnusedEntry], options: ScenarioOptions) -> None:
    """Print the exchanges that a replay of all scenarios did not use."""
    if unused and not options.is_partial:
        echo(describe_unused(unused), err=options.is_json)


_POLL_PAUSE = partial(time.sleep, 0.3)


def run_on_change(run: Callable[[], int], changes: Iterable[object]) -> int:
    """Run now and after every change, until interrupted or until there are no more changes. Return the last exit code.

    A problem with the files is printed, and the next change is awaited.
    """
    code = FINE
    try:
        for _ in chain([None], changes):
            code = _run_once(run)
            if code == INTERRUPTED:
                break
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def poll_changes(folder: Path, *, pause: Callable[[], object] = _POLL_PAUSE) -> Iterator[None]:
    """Yield whenever a Python file, a config or a workflow in the folder is changed, added or removed.

    It compares with the files of now, after each `pause`.
    """
    return _changes(folder, _modified_times(folder), pause)


def _changes(folder: Path, seen: dict[Path, int], pause: Callable[[], object]) -> Iterator[None]:
    while True:
        pause()
        now = _modified_times(folder)
        if now != seen:
            seen = now
            yield


def _modified_times(folder: Path) -> dict[Path, int]:
    """Return when each file was last changed."""
    moments = {}
    for file in project_files(folder):
        with suppress(FileNotFoundError):
            moments[file] = file.stat().st_mtime_ns
    return moments


def _run_once(run: Callable[[], int]) -> int:
    try:
        return run()
    except OffbookError as error:
        print_message("error: ", str(error), style="bold red", is_err=True)
        return BAD_INPUT
