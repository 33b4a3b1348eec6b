"""Explores for a command: the subject and the cases of its arguments, reports, regression files and the exit code."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cached_property
from pathlib import Path

import msgspec

from offbook import __version__
from offbook.cli import FAILED, FINE, INTERRUPTED, start_s
from offbook.cli.options import command_notes
from offbook.cli.output.console import echo, echo_json, ending_document, print_message
from offbook.cli.output.exploration import (
    ExplorationOutput,
    PartialExploration,
    exploration_exit_code,
    print_regression,
    regression_document,
)
from offbook.cli.parse import check_models, parse_shard_option, parse_state, parse_workers, report_lines
from offbook.cli.run_program import Interruption, Termination
from offbook.config import import_from, plan_run
from offbook.config.recordings import is_folder, slug
from offbook.errors import InputError
from offbook.explore.cases import FaultCase, chosen_case
from offbook.explore.explorer import CaseExecutor, CleanRunMismatchError, Exploration, Explorer, Subject
from offbook.explore.options import VARIANTS, ExploreOptions, gave_up_by, select_variants
from offbook.explore.schedule import Pace, check_shard, parse_budget
from offbook.explore.settings import ExploreArguments, ExploreSettings
from offbook.explore.verdict import FINDING_TITLES, parse_verdicts
from offbook.faults import parse_fault
from offbook.files import read_file
from offbook.presets.preset import UNKNOWN, known_program, presets_of, with_preset
from offbook.recording.format.foreign import explain_import
from offbook.recording.recorded_tools import RecordedTools
from offbook.recording.stores.locate import last_recorded_at, recording_digest
from offbook.report.exploration import (
    ExplorationReporter,
    ExplorationReporters,
    load_exploration,
)
from offbook.report.exploration.report_input import (
    NO_ORIGIN,
    ExploredShard,
    ReportOptions,
    ReportOrigin,
    causes_of_findings,
)
from offbook.settings import arguments_of, find_project, load_project, resolve, unknown_tools
from offbook.shard import parse_shard
from offbook.subjects.executors import RayAddress, executor_of
from offbook.subjects.program.kept_folders import PLACEHOLDER
from offbook.subjects.regression import Regression, RegressionFolder, load_regression, reproduce
from offbook.subjects.scenario import config_of, scenario_of
from offbook.subjects.specs import (
    AnySubjectSpec,
    ProgramSpec,
    ScenarioSpec,
    WorkflowSpec,
    explore_command,
    load_invariants,
    open_subject,
    real_tools,
    record_command,
)
from offbook.text import did_you_mean, did_you_mean_file, pluralize
from offbook.workflow.file.load import load_workflow

WORKFLOW_SUFFIXES = (".yaml", ".yml")
RECORDINGS_FOLDER = "recordings"
USAGE = "offbook explore FLOW.yaml --recording PATH, or SIM.py, or --replay PATH -- COMMAND"


def subject_of(options: ExploreArguments, file: str | None, command: Sequence[str] | None) -> AnySubjectSpec:
    """Return the subject to explore: the one in a file, or a command's program.

    Raises:
        InputError: there is no subject, or there are two, or something that it needs is missing or wrong.
    """
    if (file is None) == (command is None):
        reason = "a file or a program is missing" if file is None else "there are both a file and a program"
        is_recording = file is not None and not file.endswith((*WORKFLOW_SUFFIXES, ".py"))
        hint = f"if {file} is the recording: --replay {shlex.quote(file or '')} -- COMMAND …" if is_recording else USAGE
        raise InputError(reason, source="explore", hint=hint)
    if file is None:
        return ProgramSpec(recording=_recording(options), command=tuple(command or ()), mcp=options.mcp)
    if options.mcp is not None:
        hint = "it is for a program; tools of workflows and scenarios can fail without it"
        raise InputError("there is no program", source="--mcp", hint=hint)
    if file.endswith(WORKFLOW_SUFFIXES):
        definition = load_workflow(file)
        check_models(definition, file)
        state = parse_state(definition.state, settings=list(options.state_keys), file=options.state)
        return WorkflowSpec(recording=_recording(options), file=file, state=state)
    if file.endswith(".py"):
        return _scenario(options, file)
    reason, hint = "this is not a workflow or a file of scenarios", USAGE
    if Path(file).is_file():
        expected = "a workflow or a file of scenarios"
        reason, hint = explain_import(read_file(file), source=file, expected=expected) or (reason, hint)
    raise InputError(reason, source=file, hint=hint)


def _recording(options: ExploreArguments) -> str:
    if options.recording is None:
        hint = "--recording PATH; make one with run --record or exec --record"
        raise InputError("a recording is missing", source="explore", hint=hint)
    return options.recording


def _scenario(options: ExploreArguments, file: str) -> ScenarioSpec:
    path = Path(file)
    if not path.is_file():
        raise InputError("there is no such file", source=file, hint=did_you_mean_file(file))
    if b"scenario" not in path.read_bytes():  # importing a program would run it
        hint = f"to explore a program: offbook explore --replay PATH -- python {file}"
        raise InputError("it declares no scenarios", source=file, hint=hint)
    config = config_of(file, options.config)
    with import_from([config.folder, path.resolve().parent]):
        scenario = scenario_of(path.resolve(), options.scenario)
    plan = plan_run(config, [scenario], agents=[] if options.agent is None else [options.agent])
    recording = options.recording or f"{path.parent / RECORDINGS_FOLDER}/"
    if is_folder(recording):
        recording = str(Path(recording) / f"{slug(scenario.name)}.json")
    return ScenarioSpec(
        recording=recording, file=file, scenario=scenario.name, agent=plan.agents[0], config=options.config
    )


def run_exploration(spec: AnySubjectSpec, options: ExploreArguments) -> int:
    """Explore a subject, report the cases, and return the exit code.

    Raises:
        InputError: something that the subject needs is missing or wrong, or the clean run fails.
    """
    _check_chosen(spec, options)
    before = None if options.compare is None else load_exploration(options.compare)
    work = _Exploration(spec, options, before)
    try:
        with Termination(), Interruption():
            return work.list_cases() if options.list_cases else work.explore()
    except CleanRunMismatchError as error:
        if isinstance(spec, ScenarioSpec):
            raise
        hint = f"if the change is meant, record it again: {record_command(spec)}"
        raise InputError(error.reason, source=error.source, hint=hint) from None
    except KeyboardInterrupt:
        if not work.so_far.report(work.reporter) and options.as_json:
            echo_json(ending_document("SIGINT", "interrupted", exit_code=INTERRUPTED))
        return INTERRUPTED


def _check_chosen(spec: AnySubjectSpec, options: ExploreArguments) -> None:
    """Refuse invalid choices before anything runs."""
    budget = parse_budget(options.budget, source="--budget")
    if options.shard is not None:
        check_shard(budget, parse_shard(options.shard))
        _check_whole(options)
    for wanted in options.only:
        if not (wanted.isdecimal() and len(wanted) >= 4):
            hint = "an id is like 0007; --list shows them"
            raise InputError(f"there is no case {wanted!r}", source="--only", hint=hint)
    if isinstance(spec, ProgramSpec):
        from offbook.subjects.program.process import check_command
        from offbook.wire.options import parse_fault_plan

        parse_fault_plan(options.fault, has_tools=True, can_crash=True)
        check_command(spec.command)


def _check_whole(options: ExploreArguments) -> None:
    """Refuse options that need all shards' cases, or that choose cases themselves, for a shard."""
    merged = "a shard does not have all cases"
    refused = {
        "compare": (options.compare, merged, f"compare the whole: offbook merge … --compare {options.compare}"),
        "regress": (
            options.regress,
            merged,
            "explore a finding again when the shards are merged: --fault … -o regress=FOLDER",
        ),
        "--fault": (options.fault, "it chooses one case", "leave out --shard"),
        "--only": (options.only, "it chooses the cases", "leave out --shard"),
    }
    for option, (value, reason, hint) in refused.items():
        if value:
            raise InputError(f"it cannot be used with --shard: {reason}", source=option, hint=hint)


class _Exploration:
    """An exploration in progress, whose cases so far can be reported if it is interrupted."""

    def __init__(self, spec: AnySubjectSpec, options: ExploreArguments, before: Exploration | None) -> None:
        self._spec, self._options, self._before = spec, options, before
        self._settings = ExploreSettings(**{name: getattr(options, name) for name in ExploreSettings.__struct_fields__})
        self._program = UNKNOWN
        if isinstance(spec, ProgramSpec):
            self._program = known_program(options.preset, spec.command, presets_of(find_project()))
            self._settings = with_preset(self._settings, self._program.preset)
        fail_on = options.fail_on
        self._fail_on = parse_verdicts(fail_on, source="--fail-on") if fail_on else FINDING_TITLES
        project = find_project() if options.config is None else load_project(options.config)
        self._configured = resolve(ExploreArguments, {}, project=project)
        self._workers = parse_workers(str(options.workers))
        self._faults = ",".join([options.faults, *["crash"] * options.crashes, *["orders"] * options.orders])
        self._reports = report_lines(options.report)
        self._shard = parse_shard_option(options.shard, reporters=self._reports, is_json=options.as_json)
        self.so_far, self._pace = PartialExploration(), Pace()
        self.reporter = ExplorationReporters(*self._reporters())

    def explore(self) -> int:
        """Run the cases, report them, and return the exit code."""
        with open_subject(self._spec, self._settings, self) as subject, self._executor(subject) as executor:
            explorer = self._explorer(subject, executor)
            exploration = explorer.explore(self._only(explorer))
            self.reporter.finish(exploration)
            self._keep(subject, exploration, minimises=explorer.has_time)
            if ran := getattr(subject, "ran_for_real", None):
                counts = ", ".join(f"{tool} {pluralize(count, 'time')}" for tool, count in sorted(ran.items()))
                self.remark(f"tools ran for real in all: {counts}")
        self._note_unknown_tools(exploration)
        return self._exit_code(exploration)

    def _note_unknown_tools(self, exploration: Exploration) -> None:
        if declared := self._options.tools:
            runs = (exploration.clean, *(each.run for each in exploration.results))
            seen = {tool.tool for run in runs for tool in run.tools}
            for text in unknown_tools(declared, seen | RecordedTools(self._spec.recording).known):
                self.remark(text)

    def list_cases(self) -> int:
        """Print the cases."""
        with open_subject(self._spec, self._settings, self) as subject:
            explorer = self._explorer(subject, executor_of(subject, 1))
            chosen = self._only(explorer)
            cases, pairs = explorer.affordable if chosen is None else (chosen, 0)
        if chosen is None:
            self._note_unlisted(pairs)
        if self._options.as_json:
            echo_json(msgspec.json.encode([{"id": case.id, "case": str(case)} for case in cases]))
            return FINE
        for case in cases:
            print_message(f"{case.id}  ", str(case))
        return FINE

    def _note_unlisted(self, pairs: int) -> None:
        """Report what a list of cases lacks: the number of pairs, and the cases that a time budget leaves out."""
        if pairs:
            self.remark(f"about {pluralize(pairs, 'pair')} run as well: which ones, only these runs show")
        if parse_budget(self._options.budget).time_s is not None:
            self.remark("the time decides how many of these run, the most telling ones first")

    @contextmanager
    def _executor(self, subject: Subject) -> Iterator[CaseExecutor]:
        """Open the executor of the cases: here, or on a cluster."""
        if not isinstance(self._workers, RayAddress):
            yield executor_of(subject, self._workers)
            return
        from offbook.workers.ray_cluster import open_ray_executor

        with open_ray_executor(self._workers, self._spec, self._settings) as executor:
            yield executor

    def _explorer(self, subject: Subject, executor: CaseExecutor) -> Explorer:
        options = self._options
        for folder in getattr(subject, "restored", ()):
            text = f"an exploration had been killed, and had left {folder} changed: it is restored"
            print_message("note: ", text, is_err=True)
        wish = ExploreOptions(
            variants=select_variants(self._faults, getattr(subject, "variants", VARIANTS)),
            pairs=options.pairs,
            budget=options.budget,
            invariants=[] if options.invariants is None else load_invariants(options.invariants),
            optional=self._settings.optional_names,
            gave_up=gave_up_by(self._settings.gave_up),
            unchecked=frozenset(self._settings.tools),
            shard=self._shard,
            until_quiet=options.until_quiet,
            max_recovery_calls=options.max_recovery_calls,
        )
        self._announce()
        return Explorer(
            subject,
            wish,
            executor=executor,
            pace=self._pace,
            start_s=start_s.get(None),
            on_begin=self._begin,
            on_case=ExplorationReporters(self.so_far, self.reporter).on_case,
        )

    def warn(self, text: str) -> None:
        print_message("warning: ", text, style="bold yellow", is_err=True)

    def remark(self, text: str) -> None:
        if not self._options.quiet:
            print_message("note: ", text, is_err=True)

    def _announce(self) -> None:
        """Report overlooked parts of a command, the tools that a program runs for real, and the kept folders."""
        if isinstance(self._spec, ProgramSpec):
            if self._program.name:
                self.remark(self._program.announcement(runs_tools=True))
            reads_config = self._options.config is None
            for note in command_notes(self._spec.command, ExploreArguments, name="explore", reads_config=reads_config):
                self.remark(note)
        if self._real_tools:
            where = "in the run without a fault" + ("" if self._options.list_cases else ", and in every case")
            self.remark(f"the program runs its tools for real {where}: {', '.join(self._real_tools)}")
        for folder in self._settings.keep:
            self.remark(_keep_text(folder, self._spec))

    @cached_property
    def _real_tools(self) -> list[str]:
        """The tools that a program runs for real."""
        return [] if isinstance(self._spec, WorkflowSpec | ScenarioSpec) else real_tools(self._spec, self._settings)

    def _begin(self, exploration: Exploration, cases: int) -> None:
        """Report the number of cases, and how often a program runs its tools for real, before the first case."""
        if self._shard is not None and not cases:
            print_message("note: ", f"the shard {self._shard} holds no case", is_err=True)
        if self._real_tools:
            often = "a case that leaves the recording runs up to three times"
            self.remark(f"it runs about {pluralize(cases, 'further time')}: {often}")
        estimate = self._pace.estimate(cases, is_program=exploration.clean.is_program)
        if estimate and not (self._options.quiet or self._options.as_json):
            print_message("", estimate, is_err=True)
        ExplorationReporters(self.so_far, self.reporter).begin(exploration, cases)

    def _only(self, explorer: Explorer) -> Sequence[FaultCase] | None:
        """Return the cases chosen by --only or --fault, or None for all."""
        if self._options.fault:
            lines = tuple(parse_fault(line) for line in self._options.fault)
            known_case = next((case for case in explorer.cases if case.lines == lines), None)
            return [known_case or chosen_case(lines, explorer.clean)]
        if not self._options.only:
            return None
        known = {case.id: case for case in explorer.cases}
        return [_case(known, wanted) for wanted in self._options.only]

    def _reporters(self) -> Iterator[ExplorationReporter]:
        options = self._options
        is_whole = not (options.fault or options.only or options.budget or options.shard)
        output = ExplorationOutput(
            reporters=self._reports,
            is_json=options.as_json,
            is_quiet=options.quiet,
            declared=self._settings.declared if is_whole else (),
        )
        origin = self._origin() if self._reports or options.as_json else NO_ORIGIN
        return output.reporters_of(
            ReportOptions(self._reproduce, self._before, self._explored_shard(), origin), self._pace
        )

    def _origin(self) -> ReportOrigin:
        """Return the origin of the exploration for reports that are kept."""
        try:
            recorded_at = last_recorded_at(self._spec.recording)
        except InputError:  # the subject says what is wrong with it
            recorded_at = ""
        return ReportOrigin(
            version=__version__,
            command=explore_command(self._spec, self._words("invariants", "faults", "orders", "budget", "pairs")),
            recording=self._spec.recording,
            recorded_at=recorded_at,
        )

    def _explored_shard(self) -> ExploredShard | None:
        """Return the shard and its run, or None without --shard."""
        if self._shard is None:
            return None
        chosen = self._words("invariants", "faults", "orders", "budget", "pairs")
        run = {
            "version": __version__,
            "command": explore_command(self._spec, arguments_of(self._settings)),
            "options": " ".join([*chosen, "fail on", *sorted(self._fail_on)]),
            "recording": recording_digest(self._spec.recording),
        }
        allow_partial = self._options.allow_partial
        return ExploredShard(shard=self._shard, run=run, fail_on=self._fail_on, allow_partial=allow_partial)

    def _reproduce(self, case: FaultCase) -> str:
        """Return the command that runs a case again by its faults."""
        faults = [word for line in case.lines for word in ("--fault", str(line))]
        return explore_command(self._spec, [*self._words("invariants"), *faults])

    def _words(self, *further: str) -> list[str]:
        """Return the options of the subject's run, and `further` ones, that the config does not set."""
        among = {*ExploreSettings.__struct_fields__, *further}
        return arguments_of(self._options, base=self._configured, among=among)

    def _keep(self, subject: Subject, exploration: Exploration, *, minimises: bool) -> None:
        """Write a regression file for each cause."""
        if self._options.regress is None:
            return
        kind = Regression(
            offbook="regression",
            verdict="crashed",
            faults=(),
            subject=self._spec,
            settings=self._settings,
            invariants=self._options.invariants,
        )
        first = [cause.results[0] for cause in causes_of_findings(exploration)]
        folder = RegressionFolder(self._options.regress, kind)
        files = folder.keep(subject, exploration.clean, first, minimises=minimises)
        for file in files if not self._options.quiet else ():
            echo(f"kept: offbook replay --plan {file}", err=self._options.as_json)

    def _exit_code(self, exploration: Exploration) -> int:
        """Return the exit code. A requested case whose fault never fired is no success."""
        missed = [str(each.case) for each in exploration.results if each.verdict == "not reached"]
        if missed and (self._options.fault or self._options.only):
            print_message("error: ", f"the run never reached {missed[0]}", style="bold red", is_err=True)
            return FAILED
        allow_partial = self._options.allow_partial or self._shard is not None  # of a shard, `merge` says it
        return exploration_exit_code(
            exploration,
            fail_on=self._fail_on,
            before=self._before,
            allow_partial=allow_partial,
            must_reach=self._options.must_reach,
        )


def _keep_text(folder: str, spec: AnySubjectSpec) -> str:
    if isinstance(spec, ProgramSpec) and any(PLACEHOLDER in word for word in spec.command):
        return f"each run has its own copy of {folder}, and {folder} does not change"
    return f"runs share {folder}, one at a time: it is restored before each, and at the end"


def _case(known: dict[str, FaultCase], id: str) -> FaultCase:
    if id not in known:
        hint = did_you_mean(id, known) or f"there are {pluralize(len(known), 'case')}; --list shows them"
        raise InputError(f"there is no case {id!r}", source="--only", hint=hint)
    return known[id]


def replay_regression(path: str, *, declared: Sequence[str], is_json: bool, is_quiet: bool) -> int:
    """Run the regression in a file, print its verdict, and return 1 if it is still a finding.

    Raises:
        InputError: the file, or something that the regression needs, is missing or wrong.
    """
    regression = load_regression(path)
    with redirect_stdout(io.StringIO()):
        explored = reproduce(path, declared=declared)
    if is_json:
        echo_json(regression_document(regression, explored))
    elif explored.is_finding or not is_quiet:
        print_regression(regression, explored)
    return FAILED if explored.is_finding else FINE
