"""Running scenarios for a command: with reports as they end, and an exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator

import typer
from msgspec import Struct
from msgspec.structs import replace

from offbook.cli.exit_codes import FAILED, FINE, INTERRUPTED, MISMATCH
from offbook.cli.json_output import JsonOutput
from offbook.cli.scenario_options import ScenarioOptions
from offbook.cli.termination import Termination
from offbook.cli.unused import told_unused
from offbook.clock import run
from offbook.config import (
    Config,
    Plan,
    collect_scenarios,
    error_grouping,
    find_config,
    load_config,
    modules_of,
    open_cast,
    plan_of,
    rules_of,
    scenario_files,
)
from offbook.errors import InputError, OffbookError
from offbook.recording.cursor import Unused
from offbook.report import Reporter, Reporters, reporter_of
from offbook.scenarios.result import SuiteResult
from offbook.scenarios.runner import Cast, RunRules, ScenarioRunner
from offbook.scenarios.scenario import Scenario
from offbook.session import Replay


class Done(Struct, frozen=True):
    """What became of a run, and what a replay left unused."""

    result: SuiteResult
    unused: list[Unused]


def run_scenarios(options: ScenarioOptions) -> int:
    """Find and run scenarios, report them, and give the exit code.

    Raises:
        InputError: the config, a file or a scenario is wrong, or something that they need is missing.
    """
    config = config_of(options)
    files = scenario_files(config, options.paths)
    with modules_of([config.folder, *(file.parent for file in files)]):
        plan = plan_of(config, _chosen(collect_scenarios(files), options), agents=options.agents)
        return _run(config, plan, options)


def config_of(options: ScenarioOptions) -> Config:
    """The config that is named, or the nearest one.

    Raises:
        InputError: there is none, or it is wrong.
    """
    return find_config() if options.config is None else load_config(options.config)


def _chosen(scenarios: list[Scenario], options: ScenarioOptions) -> list[Scenario]:
    text = (options.scenario or "").lower()
    chosen = [scenario for scenario in scenarios if text in scenario.name.lower()]
    if not chosen:
        names = ", ".join(scenario.name for scenario in scenarios) or "none"
        reason = f"no scenario has {options.scenario!r} in its name" if scenarios else "the files declare no scenario"
        raise InputError(reason, source="scenarios", hint=f"scenarios: {names}")
    return chosen


def _run(config: Config, plan: Plan, options: ScenarioOptions) -> int:
    work = _Run(config, plan, options)
    try:
        with Termination():
            done = run(work.to_its_end(), virtual_time=isinstance(options.mode, Replay))
    except KeyboardInterrupt:
        work.cut_off()
        return INTERRUPTED
    except OffbookError:
        if work.is_begun:
            work.cut_off()
        raise
    work.reporter.finish(done.result)
    _print_unused(done.unused, options)
    return _exit_code(done.result)


class _Run:
    """A run under way, of which what has ended can be told if it is cut off."""

    def __init__(self, config: Config, plan: Plan, options: ScenarioOptions) -> None:
        self._config, self._plan, self._options = config, plan, options
        self.reporter = Reporters(*_reporters(options))
        self._runner = ScenarioRunner(Cast({}))
        self._grouping = error_grouping(config)
        self.is_begun = False

    async def to_its_end(self) -> Done:
        """Hold all conversations and group their errors; reports begin when everybody who takes part is there."""
        plan, repeat = self._plan, self._options.repeat or self._config.run.repeat
        async with open_cast(self._config, plan, self._options.mode) as opened:
            self.reporter.begin(len(plan.pairs))
            self.is_begun = True
            rules = _rules(self._config, self._options)
            self._runner = ScenarioRunner(opened.cast, rules, on_scenario=self.reporter.told)
            result = await self._runner.run(plan.scenarios, agents=plan.asked_agents, repeat=repeat)
            groups = await self._grouping.groups_of(result, opened.provider)
            return Done(replace(result, groups=groups), opened.unused())

    def cut_off(self) -> None:
        """Report what has ended by now."""
        ended = self._runner.so_far()
        self.reporter.finish(replace(ended, groups=self._grouping.free_groups_of(ended)))


def _rules(config: Config, options: ScenarioOptions) -> RunRules:
    rules = rules_of(config)
    return rules if options.concurrency is None else replace(rules, concurrency=options.concurrency)


def _exit_code(result: SuiteResult) -> int:
    failures = [failure for each in result.scenarios for held in each.conversations for failure in held.failures]
    if any(failure.kind == "mismatch" for failure in failures):
        return MISMATCH
    return FINE if result.passed else FAILED


def _reporters(options: ScenarioOptions) -> Iterator[Reporter]:
    """The reports, files first: one that cannot be written is found before a terminal shows anything."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY", "")
    for declared in options.reporters:
        yield reporter_of(f"github={summary}" if declared == "github" and summary else declared)
    yield JsonOutput() if options.is_json else reporter_of("console")


def _print_unused(unused: list[Unused], options: ScenarioOptions) -> None:
    """Say which exchanges a replay of all scenarios has left."""
    if unused and not options.is_partial:
        typer.echo(told_unused(unused), err=options.is_json)
