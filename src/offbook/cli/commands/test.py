"""offbook test, prompts: runs scenarios, also on change, and shows the prompts of simulated users and judges."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from offbook.cli.options import AsJson, RecordModeOption, ShardOption

_POLL_PAUSE = partial(time.sleep, 0.3)


def run_tests(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files or folders of scenarios; by default those of the config.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="The config, instead of the nearest offbook.toml.")] = None,
    scenario: Annotated[str | None, typer.Option(help="Only scenarios with this text in their name.")] = None,
    agent: Annotated[
        list[str],
        typer.Option(help="Run with this agent instead of those that the scenarios name. Repeat it to compare agents."),
    ] = [],  # noqa: B006
    record: Annotated[
        str | None,
        typer.Option(help="Record every model call in this file, or in one file per scenario in this folder."),
    ] = None,
    record_mode: RecordModeOption = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            "--recording",
            help="Answer every model call from this recording, or from this folder's recordings.",
        ),
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="The number of runs of each scenario.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="The number of concurrent conversations.")] = None,
    workers: Annotated[
        str,
        typer.Option(metavar="N|auto|ray|ray://…", help="The number of processes, or a Ray cluster."),
    ] = "1",
    reporter: Annotated[
        list[str],
        typer.Option(help="Another report: junit=PATH, html=PATH, json=PATH or github. Repeatable."),
    ] = [],  # noqa: B006
    shard: ShardOption = None,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Run again when a file of the project changes.")] = False,
) -> None:
    """Run scenarios with the agents of the config.

    Exits with 1 if a scenario failed or no recorded call got an answer, with 2 on bad input, with 3 if a replay had no
    answer, with 130 if interrupted, with the ended scenarios in the reports. A replay is instant, and needs no network
    and no key. --record-mode decides about existing exchanges.

    [bold]Examples[/bold]

      offbook test

      offbook test sims/ --scenario refund --record recordings/refund.json

      offbook test --replay recordings/refund.json --reporter junit=junit.xml
    """
    from offbook.cli.parse import parse_shard_option, parse_workers
    from offbook.cli.runners.scenarios import (
        ScenarioOptions,
        check_record_mode,
        load_or_find_config,
        parse_mode,
        run_scenarios,
    )

    options = ScenarioOptions(
        mode=parse_mode(record, replay),
        record_mode=check_record_mode(record_mode, record=record, is_watched=watch),
        paths=tuple(paths or ()),
        config=config,
        scenario=scenario,
        agents=tuple(agent),
        repeat=repeat,
        concurrency=concurrency,
        workers=parse_workers(workers),
        reporters=tuple(reporter),
        shard=parse_shard_option(shard, reporters=reporter, is_json=as_json),
        is_json=as_json,
    )
    if watch:
        folder = load_or_find_config(options).folder
        raise typer.Exit(run_on_change(lambda: run_scenarios(options), poll_changes(folder)))
    raise typer.Exit(run_scenarios(options))


def run_on_change(run: Callable[[], int], changes: Iterable[object]) -> int:
    """Run now and after every change, until interrupted or until changes end. Return the last exit code.

    A problem with the files is printed, and the next change is awaited.
    """
    from offbook.cli import FINE, INTERRUPTED

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
    from offbook.config.discovery import project_files

    moments = {}
    for file in project_files(folder):
        with suppress(FileNotFoundError):
            moments[file] = file.stat().st_mtime_ns
    return moments


def _run_once(run: Callable[[], int]) -> int:
    from offbook.cli import BAD_INPUT
    from offbook.cli.output.console import print_message
    from offbook.errors import OffbookError

    try:
        return run()
    except OffbookError as error:
        print_message("error: ", str(error), style="bold red", is_err=True)
        return BAD_INPUT


def prompts(
    name: Annotated[str | None, typer.Argument(help="The name of a prompt, or the end of it.")] = None,
) -> None:
    """Show the prompts of simulated users and judges.

    Shows the setting that replaces each prompt.

    [bold]Examples[/bold]

      offbook prompts

      offbook prompts judge.helpfulness
    """
    from offbook.cli.output.console import echo, print_message
    from offbook.scenarios.judge import prompts as all_prompts

    known = all_prompts()
    for step in _choose(name, list(known)):
        print_message(f"{step}: ", _replacement(step), style="bold")
        echo(f"\n{known[step].rstrip()}\n")


def _choose(name: str | None, steps: list[str]) -> list[str]:
    from offbook.errors import InputError
    from offbook.text import did_you_mean

    chosen = [step for step in steps if name in (None, step, step.rpartition(".")[2])]
    if not chosen:
        hint = did_you_mean(str(name), steps, kind="prompts")
        raise InputError(f"there is no prompt {name!r}", source="prompts", hint=hint)
    return chosen


def _replacement(step: str) -> str:
    """Return the setting that replaces a prompt."""
    from offbook.scenarios.judge import METRICS

    if step == "user":
        return 'replace it with a file: [user] template = "user.txt"'
    if step.rpartition(".")[2] in METRICS:
        return 'replace it with your own metric: [judge] metrics = ["my_metrics:NAME"]'
    return 'used once a run, if something failed: [judge] group_errors = "model"'
