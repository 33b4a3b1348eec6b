"""Runs scenarios for a command, with reports and an exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from offbook import __version__
from offbook.cli import FINE, INTERRUPTED
from offbook.cli.options import RecordMode, require_record_mode
from offbook.cli.output.console import print_message, print_no_answer
from offbook.cli.output.scenarios import ReportedInOrder, end_scenarios, scenario_reporters
from offbook.cli.run_program import Termination
from offbook.clock import run
from offbook.config import (
    Config,
    OpenParticipants,
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
from offbook.config.participants import ErrorGrouping
from offbook.config.recordings import is_folder, recording_files, scenarios_recorded_at, slug
from offbook.errors import InputError, OffbookError
from offbook.events import RecordedCallCounter
from offbook.pipeline import Live, Record, Replay
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.redact.rules import add_rules_of
from offbook.recording.stores.locate import open_store, recording_digest
from offbook.recording.transaction import keep_recording
from offbook.report import Reporters
from offbook.scenarios.result import PlannedScenario, SuiteOrigin, SuiteResult, SuiteShard
from offbook.scenarios.runner import Participants, RunRules, ScenarioRunner
from offbook.scenarios.scenario import Scenario
from offbook.shard import Shard, digest_of
from offbook.text import did_you_mean_file

if TYPE_CHECKING:
    from offbook.subjects.executors import AnyWorkers, RayAddress
    from offbook.workers.process import WorkerPool
    from offbook.workers.suite import SuiteConversations, SuiteSpec


class ScenarioOptions(Struct, frozen=True, kw_only=True):
    """The scenarios to run, their agents, their settings, and the reports. None means the config's value."""

    mode: Live | Record | Replay = Live()
    record_mode: RecordMode | None = None
    paths: tuple[str, ...] = ()
    config: str | None = None
    scenario: str | None = None
    agents: tuple[str, ...] = ()
    repeat: int | None = None
    concurrency: int | None = None
    workers: AnyWorkers = 1
    reporters: tuple[str, ...] = ()
    shard: Shard | None = None
    is_json: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether some scenarios or agents of the config may not run."""
        return bool(self.paths or self.scenario or self.agents)


def parse_mode(record: str | None, replay: str | None) -> Live | Record | Replay:
    """Return the mode of the options.

    Raises:
        InputError: both are given, or the folder to replay does not exist.
    """
    if record is not None and replay is not None:
        raise InputError("--record and --replay exclude each other", hint="use only one of them")
    if replay is not None:
        if replay.endswith("/") and not Path(replay).is_dir():
            hint = did_you_mean_file(replay, f"record it: offbook test --record {replay}")
            raise InputError("there is no such folder", source=replay, hint=hint)
        return Replay(replay)
    return Live() if record is None else Record(record)


def check_record_mode(mode: RecordMode | None, *, record: str | None, is_watched: bool) -> RecordMode | None:
    """Return the given record mode.

    Raises:
        InputError: nothing is recorded, or it is missing for consecutive runs.
    """
    if record is None and mode is not None:
        raise InputError("--record-mode requires --record", hint="add --record PATH")
    if record is not None and mode is None and is_watched:
        raise InputError("--watch records again and again", hint="add --record-mode all, which replaces repeated calls")
    return mode


class SuiteOutcome(Struct, frozen=True):
    """The result of a run, a replay's unused exchanges, and the reason why a recording run recorded nothing."""

    result: SuiteResult
    unused: list[UnusedEntry]
    no_answer: str = ""


def run_scenarios(options: ScenarioOptions) -> int:
    """Find and run scenarios, report them, and return the exit code.

    Raises:
        InputError: the config, a file or a scenario is wrong, or something that they need is missing.
    """
    config = load_or_find_config(options)
    files = scenario_files(config, options.paths)
    with import_from([config.folder, *(file.parent for file in files)]):
        plan = plan_run(config, _choose(collect_scenarios(files), options, files), agents=options.agents)
        if isinstance(options.mode, Live):
            _note_recordings(plan, files)
        return _run(config, plan, _with_record_mode(options, plan))


def _note_recordings(plan: RunPlan, files: Sequence[Path]) -> None:
    """Note on stderr that real models answer, if there are recordings that could."""
    names = [f"{slug(scenario.name)}.json" for scenario, _ in plan.pairs]
    for folder in dict.fromkeys(file.parent / "recordings" for file in files):
        if any((folder / name).exists() for name in names):
            shown = shlex.quote(os.path.relpath(folder))
            print_message("note: ", f"real models answer; --replay {shown}/ answers from the recordings", is_err=True)
            return


def _with_record_mode(options: ScenarioOptions, plan: RunPlan) -> ScenarioOptions:
    """Return the options with their record mode, by default replacing repeated calls.

    Raises:
        InputError: a recording has exchanges and no mode is given, or it cannot be read.
    """
    if not isinstance(options.mode, Record):
        return options
    path, mode = options.mode.path, options.record_mode or "all"
    for file in _recordings(path, (scenario.name for scenario, _ in plan.pairs)):
        mode = require_record_mode(file, options.record_mode, default="all")
    return replace(options, mode=Record(path, mode))


def _recordings(path: str, scenarios: Iterable[str]) -> list[str]:
    """Return the recordings of these scenarios: the one at `path`, or one for each in that folder."""
    files = dict.fromkeys(f"{slug(name)}.json" for name in scenarios)
    return [str(Path(path) / file) for file in files] if is_folder(path) else [path]


def load_or_find_config(options: ScenarioOptions) -> Config:
    """Return the named config, or the nearest one.

    Raises:
        InputError: no config was found, or it is invalid.
    """
    config = find_config() if options.config is None else load_config(options.config)
    add_rules_of(config.source)
    return config


def _choose(scenarios: list[Scenario], options: ScenarioOptions, files: Sequence[Path]) -> list[Scenario]:
    text = (options.scenario or "").lower()
    chosen = [scenario for scenario in scenarios if text in scenario.name.lower()]
    if not chosen:
        if not scenarios:
            hint = 'declare one: scenario("greets", turns=["Hi"]), from offbook.scenarios import scenario'
            is_one, is_empty = len(files) == 1, not any(file.stat().st_size for file in files)
            what = "is empty" if is_empty else "declares no scenario"
            reason = f"the file {what}" if is_one else "the files declare no scenario"
            raise InputError(reason, source=", ".join(map(str, files[:3])), hint=hint)
        names = ", ".join(scenario.name for scenario in scenarios)
        reason = f"no scenario has {options.scenario!r} in its name"
        raise InputError(reason, source="scenarios", hint=f"scenarios: {names}")
    return chosen


def _run(config: Config, plan: RunPlan, options: ScenarioOptions) -> int:
    work = _Run(config, plan, options)
    try:
        with Termination():
            done = run(work.run(), virtual_time=work.is_virtual and not work.has_workers)
    except KeyboardInterrupt:
        work.report_partial()
        return INTERRUPTED
    except OffbookError:
        if work.has_started:
            work.report_partial(to_files_only=options.is_json)
        raise
    result = replace(done.result, origin=_origin(options))
    work.reporter.finish(result)
    unused = [] if options.shard is not None else _unused_of(plan, done.unused, is_partial=options.is_partial)
    code = end_scenarios(result, unused, record_again=_record_again(options), is_json=options.is_json)
    return print_no_answer(done.no_answer) if code == FINE and done.no_answer else code


def _unused_of(plan: RunPlan, unused: list[UnusedEntry], *, is_partial: bool) -> list[UnusedEntry]:
    """Return the unused exchanges; of a part of the scenarios and agents, only theirs."""
    theirs = tuple(f"{scenario.name}/{agent}/" for scenario, agent in plan.pairs)
    return [each for each in unused if not is_partial or each.key.startswith(theirs)]


def _record_again(options: ScenarioOptions) -> str:
    """Return the command that records a replay again, or "". Other scenarios' exchanges stay."""
    if not isinstance(options.mode, Replay):
        return ""
    mode = "all" if options.is_partial else "fresh"
    repeat = f" --repeat {options.repeat}" if options.repeat else ""
    return f"offbook test{_arguments(options)}{repeat} --record {shlex.quote(options.mode.path)} --record-mode {mode}"


def _arguments(options: ScenarioOptions) -> str:
    """Return the arguments that choose the same scenarios, each after a space."""
    named = [("--config", options.config), ("--scenario", options.scenario)]
    named += [("--agent", agent) for agent in options.agents]
    words = [*options.paths, *(word for name, value in named if value is not None for word in (name, value))]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _origin(options: ScenarioOptions) -> SuiteOrigin:
    """Return the origin that a run's reports name, equal in every run and every shard.

    The recording time is known when the run has ended.
    """
    mode, command = options.mode, f"offbook test{_arguments(options)}"
    if isinstance(mode, Live):
        return SuiteOrigin(version=__version__, command=command)
    return SuiteOrigin(
        version=__version__,
        command=f"{command} --{type(mode).__name__.lower()} {shlex.quote(mode.path)}",
        recording=mode.path,
        recorded_at=scenarios_recorded_at(mode.path) if options.reporters or options.is_json else "",
    )


class _Run:
    """A run in progress, whose scenarios so far can be reported if it is interrupted."""

    def __init__(self, config: Config, plan: RunPlan, options: ScenarioOptions) -> None:
        self._config, self._options = config, options
        self._grouping, self._rules = error_grouping(config), _rules(config, options)
        self._shard = None
        if options.shard is not None:
            self._shard = _suite_shard(plan, options, self._rules, self._grouping)
            plan = _plan_of_shard(plan, options.shard)
            if not plan.pairs:
                print_message("note: ", f"the shard {options.shard} holds no scenario", is_err=True)
        self._plan = plan
        reporters = list(scenario_reporters(options.reporters, is_json=options.is_json, shard=self._shard))
        in_order = _planned(plan) if isinstance(options.mode, Replay) else ()
        self.reporter, self._files = ReportedInOrder(Reporters(*reporters), in_order), Reporters(*reporters[:-1])
        self._runner = ScenarioRunner(Participants({}))
        self._repeat = options.repeat or config.run.repeat
        self.is_virtual = isinstance(options.mode, Replay) and not mcp_configs(config, plan)
        self._workers = self._choose_workers()
        self.has_started = False
        self._recorded = RecordedCallCounter()

    @property
    def has_workers(self) -> bool:
        """Whether other processes run the conversations."""
        return self._workers != 1

    async def run(self) -> SuiteOutcome:
        """Run all conversations and group their errors. Reports begin when all participants are open."""
        plan = self._plan
        participants = open_participants(self._config, plan, self._options.mode, sink=self._recorded)
        async with participants as opened, self._executor(opened) as runs:
            self.reporter.begin(len(plan.pairs))
            self.has_started = True
            on_scenario = self.reporter.on_scenario
            self._runner = ScenarioRunner(opened.participants, self._rules, executor=runs, on_scenario=on_scenario)
            result = await self._runner.run_pairs(plan.pairs, repeat=self._repeat)
            _keep_recordings_of_failures(self._options.mode, result)
            if runs is not None:
                self._recorded.outcomes.update(runs.recorded)
                for file, ids in runs.used().items():
                    opened.note_used(file, ids)
            groups = await self._grouping.groups_of(result, opened.provider)
            unused = opened.log.unused()
            shard = self._ended_shard(unused, opened.opened)
            result = replace(result, groups=groups, shard=shard)
            return SuiteOutcome(result, unused, self._recorded.describe_failure())

    def _ended_shard(self, unused: Sequence[UnusedEntry], opened: Sequence[str]) -> SuiteShard | None:
        """Return the shard with its unused exchanges, which are omitted unless all scenarios run."""
        if self._shard is None or self._options.is_partial:
            return self._shard
        return replace(self._shard, unused=tuple(unused), opened=tuple(dict.fromkeys(opened)))

    def _choose_workers(self) -> int | RayAddress:
        """Return the number of useful processes, or the cluster."""
        if self._options.workers == 1:
            return 1
        with_mcp = next(iter(mcp_configs(self._config, self._plan)), None)
        if with_mcp is not None:
            reason = f"the MCP servers of the agent {with_mcp} are for one process"
            raise InputError(reason, source="--workers", hint="leave --workers out")
        from offbook.subjects.executors import RayAddress, worker_count

        if isinstance(self._options.workers, RayAddress):
            if isinstance(self._options.mode, Record):
                reason = "a cluster has its own files: the recording would be made there"
                raise InputError(reason, source="--record", hint="use --workers N on this machine")
            return self._options.workers
        conversations = sum(each.conversations or self._rules.conversations for each, _ in self._plan.pairs)
        return min(worker_count(self._options.workers), self._rules.concurrency, conversations * self._repeat)

    @asynccontextmanager
    async def _executor(self, opened: OpenParticipants) -> AsyncIterator[SuiteConversations | None]:
        """Start several workers, or return None to run all conversations in this process."""
        if not self.has_workers:
            yield None
            return
        from offbook.workers.suite import SuiteConversations

        opened.open_recordings(self._plan)
        async with self._pool() as pool:
            is_recorded = isinstance(self._options.mode, Record)
            yield SuiteConversations(pool, self._rules, is_virtual=self.is_virtual, is_recorded=is_recorded)

    @asynccontextmanager
    async def _pool(self) -> AsyncIterator[WorkerPool]:
        """Start the processes: here, or on a cluster."""
        if isinstance(self._workers, int):
            from offbook.workers.process import ProcessPool
            from offbook.workers.suite import SuiteWorker

            worker = SuiteWorker(self._config, self._plan, self._options.mode, self._rules)
            async with ProcessPool(worker.serve, self._workers, is_virtual=self.is_virtual) as pool:
                yield pool
        else:
            from offbook.workers.ray_cluster import open_ray_pool

            with open_ray_pool(self._workers, self._suite_spec()) as cluster:
                yield cluster

    def _suite_spec(self) -> SuiteSpec:
        from offbook.workers.suite import SuiteSpec

        mode = self._options.mode
        return SuiteSpec(
            config=self._config.source,
            paths=self._options.paths,
            requested_agents=self._plan.requested_agents,
            pairs=tuple((scenario.name, agent) for scenario, agent in self._plan.pairs),
            rules=self._rules,
            replay=mode.path if isinstance(mode, Replay) else None,
            is_virtual=self.is_virtual,
            folder=str(Path.cwd()),
        )

    def report_partial(self, *, to_files_only: bool = False) -> None:
        """Report the scenarios that have ended."""
        ended = replace(self._runner.so_far(), shard=self._shard, origin=_origin(self._options))
        self.reporter.report_waiting()
        reporter = self._files if to_files_only else self.reporter
        reporter.finish(replace(ended, groups=self._grouping.groups_without_model(ended)))


def _planned(plan: RunPlan) -> list[PlannedScenario]:
    return [PlannedScenario(scenario.name, agent, scenario.source) for scenario, agent in plan.pairs]


def _plan_of_shard(plan: RunPlan, shard: Shard) -> RunPlan:
    """Return the part of a plan that a shard has. A scenario with an agent is in one shard."""
    own = [shard.has(planned.id) for planned in _planned(plan)]
    return replace(plan, pairs=tuple(pair for pair, is_own in zip(plan.pairs, own, strict=True) if is_own))


def _suite_shard(plan: RunPlan, options: ScenarioOptions, rules: RunRules, grouping: ErrorGrouping) -> SuiteShard:
    """Return the shard and its run.

    Raises:
        InputError: the run cannot be split into shards.
    """
    if rules.budget_usd is not None:
        hint = "remove budget_usd from the config, or --shard"
        raise InputError("shards cannot share a budget of money", source="run.budget_usd", hint=hint)
    if grouping.by == "model":
        hint = 'use group_errors = "label", or leave out --shard'
        raise InputError("a model groups the errors of the whole run", source="judge.group_errors", hint=hint)
    planned = _planned(plan)
    mode, repeat = type(options.mode).__name__.lower(), options.repeat or ""
    run = {
        "version": __version__,
        "command": f"offbook test{_arguments(options)}",
        "options": f"{mode}, repeat {repeat}, {rules}",
        "recording": _recordings_digest(options.mode),
        "scenarios": digest_of([*(each.id for each in planned), *_declarations(planned)]),
    }
    return SuiteShard(
        shard=str(options.shard),
        run=run,
        plan=tuple(planned),
        concurrency=rules.concurrency,
        is_grouped=grouping.by == "label",
        record_again=_record_again(options),
    )


def _declarations(planned: Iterable[PlannedScenario]) -> Iterator[bytes]:
    """Yield the contents of the files that declare the scenarios.

    Raises:
        InputError: a file can no longer be read.
    """
    for file in dict.fromkeys(each.source.rpartition(":")[0] for each in planned):
        try:
            yield Path(file).read_bytes()
        except OSError as error:
            reason = f"it declares a scenario and cannot be read: {error.strerror}"
            hint = "shards are told apart by the files that declare their scenarios"
            raise InputError(reason, source=file, hint=hint) from None


def _recordings_digest(mode: Live | Record | Replay) -> str:
    """Return a digest of the replayed recording or folder."""
    if not isinstance(mode, Replay):
        return ""
    if not is_folder(mode.path):
        return recording_digest(mode.path)
    return digest_of(text for file in recording_files(mode.path) for text in (file.name, recording_digest(file)))


def _keep_recordings_of_failures(mode: Live | Record | Replay, result: SuiteResult) -> None:
    """Keep the recordings of failed scenarios unchanged."""
    failed = [each.name for each in result.scenarios if not each.passed]
    if not isinstance(mode, Record) or not failed:
        return
    for file in _recordings(mode.path, failed):
        keep_recording(open_store(file))


def _rules(config: Config, options: ScenarioOptions) -> RunRules:
    rules = run_rules(config)
    return rules if options.concurrency is None else replace(rules, concurrency=options.concurrency)
