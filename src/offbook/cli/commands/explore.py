"""offbook explore: replays a recorded run with each fault at each call."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import typer

from offbook.cli.options import (
    AsJson,
    BaseUrlVars,
    BlockNetwork,
    Declared,
    HtmlReport,
    Intercept,
    InterceptHosts,
    ProgramCommand,
    Quiet,
    Settings,
    ShardOption,
    StateFile,
    check_placeholder,
    program_args,
)


class ExploreCommand(ProgramCommand):
    """Shows its many options in panels, by what they are for."""

    panels: ClassVar[dict[str, tuple[str, ...]]] = {
        "What to explore": ("recording", "mcp", "scenario", "agent", "config", "settings", "state"),
        "Which cases": ("faults", "orders", "crash", "pairs", "budget", "fault", "only", "list_cases", "shard"),
        "What its tools do": ("run_tools", "side_effects", "read_only", "idempotent", "undoes", "effects", "optional"),
        "What counts as a finding": ("declared", "invariants", "result", "check", "deadline", "fail_on", "compare"),
        "After a fault": ("on_divergence", "default_response"),
        "Reports": ("report", "reporter", "regress", "as_json", "quiet"),
        "How it runs": (
            *("workers", "fresh", "keep", "base_url_var"),
            *("intercept", "intercept_host", "block_network"),
        ),
    }

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)
        panel_of = {name: panel for panel, names in self.panels.items() for name in names}
        for parameter in parameters:
            parameter.rich_help_panel = panel_of.get(parameter.name)
        places = {name: place for place, name in enumerate(panel_of)}
        return sorted(parameters, key=lambda parameter: places.get(parameter.name, -1))


SETTINGS = {"cls": ExploreCommand}


def explore(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="A workflow, or a file of scenarios; a program comes after --.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option("--replay", "--recording", help="The recorded run; for scenarios, by default next to the file."),
    ] = None,
    mcp: Annotated[
        str | None,
        typer.Option(
            "--mcp",
            metavar="CONFIG",
            help="Stand in for the MCP servers of this config, too; {mcp} in the command is the config to use.",
        ),
    ] = None,
    faults: Annotated[str, typer.Option("--faults", help="Which faults to try: all, or names: timeout,http_error.")] = (
        "all"
    ),
    orders: Annotated[
        bool,
        typer.Option(
            "--orders",
            help="Also try other orders in which calls that overlap end, cancellations and repeated results.",
        ),
    ] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also try a second fault after each.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="CASES|TIME",
            help="Run the most informative cases: at most this many, or as long as the time lasts: 2000, 90s, 5m, 2h.",
        ),
    ] = None,
    fault: Annotated[
        list[str],
        typer.Option(
            help="Run only the case of this fault: 'call=2: timeout'. Repeat it for a case of several faults."
        ),
    ] = [],  # noqa: B006
    only: Annotated[list[str], typer.Option(help="Run only the case with this id. Repeatable.")] = [],  # noqa: B006
    list_cases: Annotated[
        bool, typer.Option("--list", help="List the cases, and run none: only the run without a fault.")
    ] = False,
    on_divergence: Annotated[
        Literal["explore", "stop", "default", "live"],
        typer.Option(
            help="On a request that was never recorded: explore how a model may go on, stop the run, use a default "
            "answer, or call the model."
        ),
    ] = "explore",
    default_response: Annotated[
        str | None, typer.Option(help="The default answer. Implies --on-divergence default.")
    ] = None,
    invariants: Annotated[
        str | None, typer.Option(help="A Python file whose functions invariant_… must hold for every run.")
    ] = None,
    declared: Declared = "",
    side_effects: Annotated[str, typer.Option(help="Tools that must not run twice: NAME,…")] = "",
    read_only: Annotated[str, typer.Option(help="Tools that only read, and do no harm: NAME,…")] = "",
    idempotent: Annotated[
        str,
        typer.Option(help="Tools that may run twice with the same arguments, or the same key: NAME,NAME:ARGUMENT,…"),
    ] = "",
    undoes: Annotated[str, typer.Option(help="Tools that undo others: cancel_hotel=book_hotel,…")] = "",
    effects: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file to which the program adds a JSON line for each of its effects."),
    ] = None,
    result: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="A file that the program writes, or a pattern: it is part of its result. In the working directory, or "
            "'$TMPDIR/…'. Repeatable.",
        ),
    ] = [],  # noqa: B006
    check: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Run this after each run of the program; it fails if something is wrong."),
    ] = None,
    optional: Annotated[str, typer.Option(help="Steps and tools that a run may go on without: NAME,…")] = "",
    run_tools: Annotated[
        bool,
        typer.Option("--run-tools", help="Run tools for real: those of a program, and those that are not recorded."),
    ] = False,
    crash: Annotated[
        bool,
        typer.Option("--crash", help="Also kill the program, or the workflow, at each call, and start it again."),
    ] = False,
    keep: Annotated[
        list[str],
        typer.Option(
            metavar="FOLDER",
            help="A folder in which the program keeps its state: each run finds it as it was before. Repeatable.",
        ),
    ] = [],  # noqa: B006
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start a Python or Node program anew for every case, in real time."),
    ] = False,
    base_url_var: BaseUrlVars = [],  # noqa: B006
    intercept: Intercept = False,
    intercept_host: InterceptHosts = [],  # noqa: B006
    block_network: BlockNetwork = False,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="How long a run may take, in seconds of its virtual clock; how long a program may wait for an answer.",
        ),
    ] = None,
    workers: Annotated[
        str,
        typer.Option(metavar="N|auto|ray|ray://…", help="How many cases run at once; or a Ray cluster that runs them."),
    ] = "auto",
    report: HtmlReport = None,
    reporter: Annotated[
        list[str], typer.Option(help="Another report: html=PATH, json=PATH, junit=PATH or github. Repeatable.")
    ] = [],  # noqa: B006
    fail_on: Annotated[
        str | None, typer.Option(help="Exit with 1 on these verdicts or reasons only: repeated-effect,hung,storm.")
    ] = None,
    compare: Annotated[str | None, typer.Option(metavar="PATH", help="Compare with an earlier json=PATH report.")] = (
        None
    ),
    regress: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Write each finding to this folder, as a file that pytest runs."),
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="The scenario of the file.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent of the config.")] = None,
    config: Annotated[str | None, typer.Option(help="The config, instead of the nearest offbook.toml.")] = None,
    settings: Settings = [],  # noqa: B006
    state: StateFile = None,
    shard: ShardOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Replay a recorded run with each fault at each call.

    Each fault is tried at each call, attempt and stream position. Exits with 1 on a finding, such as a repeated
    effect, a broken result that was accepted or a run that hangs, and if a verdict is worse than in the report of
    --compare; with 2 on bad input, or if the run fails without a fault; with 130 if interrupted, and reports then hold
    the cases that ended.

    A program runs its tools for real in every case: it needs --run-tools, unless they only read (--read-only), or are
    those of MCP servers that offbook stands in for (--mcp).

    [bold]Examples[/bold]

      offbook explore flow.yaml --recording runs/today.json --report report.html

      offbook explore sim_refund.py

      offbook explore --replay runs/today.json --run-tools -- python my_agent.py

      offbook explore --replay runs/today.json --mcp .mcp.json -- python my_agent.py {mcp}

      offbook explore --replay runs/today.json --crash --keep state/ --run-tools -- python my_agent.py
    """
    from offbook.cli.parse import check_page, parse_names, parse_shard_option, parse_workers
    from offbook.cli.runners.exploration import (
        ExploreArguments,
        SubjectArguments,
        run_exploration,
    )
    from offbook.explore.verdict import FINDING_TITLES, parse_verdicts
    from offbook.subjects.specs import DEFAULT_DIVERGENCE, DEFAULT_SETTINGS, ExploreSettings

    check_page(report)
    check_placeholder(program_args(ctx) or (), mcp)
    if default_response is not None and on_divergence == DEFAULT_DIVERGENCE:
        on_divergence = "default"
    explore_settings = ExploreSettings(
        on_divergence=on_divergence,
        default_response=DEFAULT_SETTINGS.default_response if default_response is None else default_response,
        declared=parse_names(declared),
        deadline_s=deadline,
        side_effects=parse_names(side_effects),
        read_only=parse_names(read_only),
        idempotent=parse_names(idempotent),
        undoes=parse_names(undoes),
        effects=effects,
        results=tuple(result),
        check=check,
        optional=parse_names(optional),
        runs_tools=run_tools,
        crashes=crash,
        keep=tuple(keep),
        fresh=fresh,
        base_url_vars=tuple(base_url_var),
        intercept=intercept,
        intercept_hosts=tuple(intercept_host),
        block_network=block_network,
    )
    subject = SubjectArguments(
        file=file,
        command=program_args(ctx),
        recording=recording,
        mcp=mcp,
        scenario=scenario,
        agent=agent,
        config=config,
        settings=settings,
        state=state,
    )
    options = ExploreArguments(
        faults=",".join([faults, *["crash"] * crash, *["orders"] * orders]),
        has_pairs=pairs,
        budget=budget,
        lines=fault,
        only=only,
        is_list=list_cases,
        invariants=invariants,
        workers=parse_workers(workers),
        reporters=[*reporter, *([] if report is None else [f"html={report}"])],
        fail_on=FINDING_TITLES if fail_on is None else parse_verdicts(parse_names(fail_on), source="--fail-on"),
        compare=compare,
        regress=regress,
        shard=parse_shard_option(shard, reporters=reporter, is_json=as_json),
        is_json=as_json,
        is_quiet=quiet,
    )
    raise typer.Exit(run_exploration(subject.spec(), explore_settings, options))
