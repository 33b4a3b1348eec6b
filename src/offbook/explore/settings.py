"""The settings of an exploration and the arguments of `offbook explore`: each option with its help, declared once."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.settings import Option, ToolSettings, fitting_tools, is_pattern
from offbook.text import compile_pattern, did_you_mean
from offbook.wire.settings import (
    EXACT,
    LENIENT_REQUESTS,
    WORKDIR,
    BaseUrlVars,
    BlockNetwork,
    Intercept,
    InterceptHosts,
    PresetName,
)

if TYPE_CHECKING:
    from offbook.explore.options import Deadlines, Divergence
    from offbook.providers.provider import Provider
    from offbook.tools.effects import ToolDeclaration

OnDivergence: TypeAlias = Literal["explore", "stop", "default", "live"]
DEFAULT_RESPONSE = "Mock response"

SUBJECT, CASES, RUNS, REPORTS = "What to explore", "Which cases", "How it runs", "Findings and reports"


def _check_gave_up(pattern: str | None) -> None:
    if pattern is not None:
        compile_pattern(pattern, source="gave_up")


Declared: TypeAlias = Annotated[
    tuple[str, ...],
    Option("Errors that the agent may raise when it gives up; for a program, also exit codes.", has_names=True),
]


class RegressionOptions(Struct, frozen=True, kw_only=True):
    """The `-o` settings for a replayed finding."""

    section: ClassVar[str] = "explore"

    declared: Declared = ()


class AgentSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The known facts about an agent and its tools, and the policy for unrecorded requests.

    `tools` are the config's `[tools.NAME]` declarations. They apply wherever a tool of that name is called.
    """

    section: ClassVar[str] = "explore"

    on_divergence: Annotated[
        OnDivergence,
        Option(
            "The answer to an unrecorded request: explore continues as different models might, stop ends "
            "the run, default uses default_response, live calls the model."
        ),
    ] = "explore"
    default_response: Annotated[str, Option("The answer for on_divergence = default. Implies it.")] = DEFAULT_RESPONSE
    lenient_requests: Annotated[bool, Option(LENIENT_REQUESTS)] = False
    exact: Annotated[bool, Option(EXACT)] = False
    declared: Declared = ()
    deadline_s: Annotated[
        Annotated[float, Meta(ge=0.001)] | None,
        Option(
            "The time limit of a run on its virtual clock, in seconds; for a program, of one wait for an answer.",
            key="deadline",
            metavar="SECONDS",
            unset="20 for each answer that a program waits for, 3600 on the virtual clock",
        ),
    ] = None
    side_effects: Annotated[
        tuple[str, ...], Option("Tools that must not run twice.", has_names=True, instead="[tools.NAME] effect")
    ] = ()
    read_only: Annotated[
        tuple[str, ...],
        Option("Tools that only read, and do no harm.", has_names=True, instead="[tools.NAME] read_only"),
    ] = ()
    idempotent: Annotated[
        tuple[str, ...],
        Option(
            "Tools that may run twice with the same arguments, or with the same value of one: NAME or NAME:ARGUMENT.",
            has_names=True,
            instead="[tools.NAME] idempotent",
        ),
    ] = ()
    undoes: Annotated[
        tuple[str, ...],
        Option("Tools that undo others: cancel_hotel=book_hotel.", has_names=True, instead="[tools.NAME] undoes"),
    ] = ()
    optional: Annotated[tuple[str, ...], Option("Steps and tools that a run may go on without.", has_names=True)] = ()
    gave_up: Annotated[
        str | None,
        Option(
            "A run whose result matches this pattern has given up.",
            "--gave-up",
            metavar="REGEX",
            panel=REPORTS,
            check=_check_gave_up,
        ),
    ] = None
    tools: dict[str, ToolSettings] = {}

    @property
    def deadlines(self) -> Deadlines:
        from offbook.explore.options import DEFAULT_DEADLINES  # noqa: PLC0415 - help shows options without exploring

        return DEFAULT_DEADLINES if self.deadline_s is None else replace(DEFAULT_DEADLINES, virtual_s=self.deadline_s)

    def divergence(self, live: Provider | None = None) -> Divergence:
        """Return the policy for unrecorded requests. The policy `live` asks `live`."""
        from offbook.explore.options import Divergence  # noqa: PLC0415

        return Divergence(
            self.on_divergence,
            self.default_response,
            live,
            lenient_requests=self.lenient_requests,
            exact=self.exact,
        )

    @property
    def optional_names(self) -> frozenset[str]:
        """The steps and tools that a run may go on without, including those of `[tools.NAME]`."""
        return frozenset(self.optional) | {name for name, tool in self.tools.items() if tool.optional}

    @property
    def read_only_names(self) -> set[str]:
        """The tools that only read, including those of `[tools.NAME]`."""
        return {*self.read_only, *(name for name, tool in self.tools.items() if tool.read_only)}

    @property
    def declarations(self) -> dict[str, ToolDeclaration]:
        """The settings' declarations about tools, by name.

        Raises:
            InputError: two declarations of a tool contradict each other, or one cannot be read.
        """
        from offbook.tools.effects import ToolDeclaration  # noqa: PLC0415

        keys = dict(_partition(each, ":") for each in self.idempotent)
        undone = dict(_split_undoes(each) for each in self.undoes)
        declared = {}
        for name in dict.fromkeys((*self.side_effects, *self.read_only, *keys, *undone, *self.tools)):
            tool = self.tools.get(name, ToolSettings())
            declared[name] = ToolDeclaration(
                side_effect=tool.effect or name in self.side_effects,
                read_only=tool.read_only or name in self.read_only,
                idempotent=keys[name] or True if name in keys else tool.idempotent,
                undoes=undone.get(name, tool.undoes),
                may_remain=tool.may_remain,
                failed=tool.failed,
            )
            declared[name].check(name)
        return declared


class ExploreSettings(AgentSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of a subject's runs, kept in regression files."""

    without_flags: ClassVar[tuple[str, ...]] = ("intercept",)

    effects: Annotated[
        str | None, Option("A file to which the program adds a JSON line for each of its effects.", metavar="FILE")
    ] = None
    results: Annotated[
        tuple[str, ...],
        Option(
            "Files that are part of the program's result, as names or patterns, in the working directory or in "
            "'$TMPDIR/…'.",
            was="--result",
            metavar="FILE",
        ),
    ] = ()
    check: Annotated[
        str | None,
        Option("A command to run after each run of the program; it fails if something is wrong.", metavar="COMMAND"),
    ] = None
    state_of: Annotated[
        str | None,
        Option(
            "A file or folder in which the program leaves its state, or a command that prints it: an equal end state "
            "overrules other effects, and a different one is a finding.",
            metavar="COMMAND|FILE",
        ),
    ] = None
    runs_tools: Annotated[
        bool,
        Option(
            "Run tools for real: a program's, and those that are not recorded.",
            "--run-tools",
            key="run_tools",
            panel=RUNS,
        ),
    ] = False
    crashes: Annotated[
        bool,
        Option(
            "Also kill the program or the workflow at each call, and restart it.",
            "--crash",
            key="crash",
            panel=CASES,
        ),
    ] = False
    keep: Annotated[
        tuple[str, ...],
        Option(
            "A folder in which the program keeps its state. It is restored before each run. Repeatable.",
            "--keep",
            metavar="FOLDER",
            panel=RUNS,
            is_path=True,
        ),
    ] = ()
    workdir: Annotated[str | None, WORKDIR._replace(panel=RUNS)] = None
    fresh: Annotated[bool, Option("Start a Python or Node program anew for every case, in real time.")] = False
    preset: PresetName = "auto"
    base_url_vars: BaseUrlVars = ()
    intercept: Intercept = False
    intercept_hosts: InterceptHosts = ()
    block_network: BlockNetwork = False

    def naming_tools(self, recording: str | os.PathLike[str]) -> Self:
        """Return the settings with the tools of a recording in place of patterns like `*refund`. One that none fits
        stays, for `check_tools`.

        Raises:
            InputError: the recording cannot be read.
        """
        if not any(map(is_pattern, (*self.tools, *self.side_effects, *self.read_only, *self.idempotent))):
            return self
        from offbook.recording.recorded_tools import RecordedTools  # noqa: PLC0415

        names = sorted(RecordedTools(recording).known)

        def named(declared: Iterable[str]) -> tuple[str, ...]:
            found = [(each, _partition(each, ":")[0]) for each in declared]
            fitting = [
                [each.replace(key, name, 1) for name in fnmatch.filter(names, key)] or [each] for each, key in found
            ]
            return tuple(dict.fromkeys(name for each in fitting for name in each))

        return replace(
            self,
            tools=fitting_tools(self.tools, names),
            side_effects=named(self.side_effects),
            read_only=named(self.read_only),
            idempotent=named(self.idempotent),
        )

    def check_tools(
        self, recording: str | os.PathLike[str], others: Iterable[str] = (), *, has_run: bool = True
    ) -> None:
        """Check that the named tools and their arguments are those of the recording or of `others`.

        Those of `[tools.NAME]` are not checked: the config holds for more than this run. A tool that undoes another may
        be in neither, because it runs only after a failure. Before a program `has_run`, a name may be a reported
        effect's: only read-only ones, and near misses of another name, are refused. Reported effects may have further
        arguments: only near misses are refused.

        Raises:
            InputError: there is no such tool or argument, with a suggestion, or the recording cannot be read.
        """
        if not (self.side_effects or self.read_only or self.idempotent or self.undoes):
            return
        from offbook.recording.recorded_tools import RecordedTools  # noqa: PLC0415

        undoing = {_split_undoes(each)[0] for each in self.undoes}
        recorded = RecordedTools(recording)
        names = recorded.known | set(others) | undoing
        keys = dict(_partition(each, ":") for each in self.idempotent)
        named = {
            "side_effects": self.side_effects,
            "read_only": self.read_only,
            "idempotent": keys,
            "undoes": [name for each in self.undoes for name in _split_undoes(each)],
        }
        for key, tools in named.items():
            for tool in tools:
                is_sure = has_run or (names and key == "read_only") or did_you_mean(tool, names)
                if tool not in names and is_sure:
                    hint = did_you_mean(tool, names, kind="tools")
                    raise InputError(f"there is no tool {tool!r}", source=key, hint=hint)
        for tool, argument in keys.items():
            arguments = recorded.arguments.get(tool, set())
            if argument and argument not in arguments and (hint := did_you_mean(argument, arguments)):
                raise InputError(f"{tool} has no argument {argument!r}", source="idempotent", hint=hint)


def _partition(text: str, separator: str) -> tuple[str, str]:
    name, _, rest = text.partition(separator)
    return name.strip(), rest.strip()


def _split_undoes(text: str) -> tuple[str, str]:
    name, undone = _partition(text, "=")
    if not (name and undone):
        hint = "undoes=cancel_hotel=book_hotel"
        raise InputError(f"expected TOOL=TOOL, got {text!r}", source="undoes", hint=hint)
    return name, undone


DEFAULT_SETTINGS = ExploreSettings()


def _check_verdicts(names: tuple[str, ...]) -> None:
    from offbook.explore.verdict import parse_verdicts  # noqa: PLC0415 - help shows options without exploring

    parse_verdicts(names, source="fail_on")


def _check_budget(value: int | str | None) -> None:
    from offbook.explore.schedule import parse_budget  # noqa: PLC0415

    parse_budget(value)


class ExploreArguments(ExploreSettings, frozen=True, kw_only=True):
    """The arguments of `offbook explore`: how the subject runs, which cases run, and how they are reported."""

    panels: ClassVar[tuple[str, ...]] = (SUBJECT, CASES, RUNS, REPORTS)

    recording: Annotated[
        str | None,
        Option(
            "The recorded run; for scenarios, by default next to the file.",
            "--replay --recording",
            key="replay",
            metavar="PATH",
            panel=SUBJECT,
            is_path=True,
        ),
    ] = None
    mcp: Annotated[
        str | None,
        Option(
            "Stand in for the MCP servers of this config; {mcp} in the command becomes the config to use.",
            "--mcp",
            metavar="CONFIG",
            panel=SUBJECT,
            is_path=True,
        ),
    ] = None
    state_keys: Annotated[
        tuple[str, ...],
        Option(
            "Set a key of a workflow's state to JSON or text: a.b=1. Repeatable.",
            "--set",
            key="set",
            metavar="KEY=VALUE",
            panel=SUBJECT,
            is_per_run=True,
        ),
    ] = ()
    state: Annotated[
        str | None, Option("A JSON file with keys of a workflow's state.", metavar="FILE", is_path=True)
    ] = None
    scenario: Annotated[str | None, Option("The scenario of the file.", metavar="NAME", is_per_run=True)] = None
    agent: Annotated[str | None, Option("The agent of the config.", metavar="NAME")] = None
    config: Annotated[
        str | None, Option("The config, instead of the nearest offbook.toml.", metavar="FILE", is_per_run=True)
    ] = None
    faults: Annotated[
        str,
        Option(
            "Which faults to try: all (the default), or names: timeout,http_error.",
            "--faults",
            metavar="NAMES",
            panel=CASES,
        ),
    ] = "all"
    orders: Annotated[
        bool,
        Option(
            "Also permute the completion order of concurrent calls, cancel the run, and deliver results twice; like "
            "--faults all,orders."
        ),
    ] = False
    pairs: Annotated[bool, Option("Also try a second fault after each.")] = False
    until_quiet: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Option("Stop when so many cases in a row have found no new cause of a finding.", metavar="CASES"),
    ] = None
    must_reach: Annotated[
        tuple[str, ...],
        Option(
            "Steps, tools, recovery paths (retry, fallback) or names of offbook.reached that a case has to reach; "
            "exit with 1 otherwise.",
            has_names=True,
        ),
    ] = ()
    max_recovery_calls: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Option("How many further calls a run may make after a fault; more are a finding.", metavar="CALLS"),
    ] = None
    budget: Annotated[
        int | str | None,
        Option(
            "Run the most informative cases: at most this many, or within this time: 2000, 90s, 5m, 2h.",
            "--budget",
            metavar="CASES|TIME",
            panel=CASES,
            check=_check_budget,
        ),
    ] = None
    allow_partial: Annotated[
        bool, Option("Exit with 0 instead of 4 if a budget left cases out and the others have no finding.")
    ] = False
    fault: Annotated[
        tuple[str, ...],
        Option(
            "Run only the case of this fault: 'call=2: timeout'. Repeat it for a case of several faults.",
            "--fault",
            metavar="FAULT",
            panel=CASES,
            is_per_run=True,
        ),
    ] = ()
    only: Annotated[
        tuple[str, ...],
        Option("Run only the case with this id. Repeatable.", "--only", metavar="ID", panel=CASES, is_per_run=True),
    ] = ()
    list_cases: Annotated[
        bool,
        Option(
            "List the cases after the run without a fault, without running them.",
            "--list",
            key="list",
            panel=CASES,
            is_per_run=True,
        ),
    ] = False
    shard: Annotated[
        str | None,
        Option(
            "Run one of N parts of the cases: 3/16. offbook merge joins their json=PATH reports.",
            "--shard",
            metavar="K/N",
            panel=CASES,
            is_per_run=True,
        ),
    ] = None
    invariants: Annotated[
        str | None,
        Option("A Python file whose functions invariant_… must hold for every run.", metavar="FILE", is_path=True),
    ] = None
    workers: Annotated[
        int | str,
        Option(
            "The number of concurrent cases (one per core by default), or a Ray cluster.",
            "--workers",
            metavar="N|auto|ray|ray://…",
            panel=RUNS,
        ),
    ] = "auto"
    fail_on: Annotated[
        tuple[str, ...],
        Option(
            "Exit with 1 on these verdicts or reasons only: repeated-effect,hung,storm.",
            "--fail-on",
            metavar="VERDICTS",
            panel=REPORTS,
            has_names=True,
            check=_check_verdicts,
        ),
    ] = ()
    report: Annotated[
        tuple[str, ...],
        Option(
            "Write a page with the heatmap and all runs to PATH.html, or another report: json=PATH, junit=PATH, "
            "github. Repeatable.",
            "--report --reporter",
            metavar="PATH",
            panel=REPORTS,
        ),
    ] = ()
    compare: Annotated[
        str | None, Option("An earlier json=PATH report to compare with.", metavar="PATH", is_path=True)
    ] = None
    regress: Annotated[
        str | None,
        Option("A folder to write each finding to, as a file that pytest runs.", metavar="FOLDER", is_path=True),
    ] = None
    as_json: Annotated[bool, Option("Print JSON.", "--json", key="json", panel=REPORTS, is_per_run=True)] = False
    quiet: Annotated[bool, Option("Print failures only.", "--quiet -q", panel=REPORTS)] = False

    def fitting(self, given: Self, *, file: str | None) -> Self:
        """Return the options without those of the config that do not apply to the subject: a file or a program.

        `given` are the options without the config's. Inapplicable ones among them are refused later.
        """
        unfit = {"mcp", *_PROGRAM_OPTIONS} if file is not None else set[str]()
        if file is None and self.on_divergence == "live":
            unfit.add("on_divergence")
        if file is not None and file.endswith(".py"):
            unfit.add("crashes")
        if self.shard is not None:
            unfit |= {"compare", "regress"}
            unfit |= set() if str(self.budget).isdecimal() else {"budget"}
        return replace(self, **{name: getattr(given, name) for name in unfit})


_PROGRAM_OPTIONS = (
    "effects",
    "results",
    "check",
    "state_of",
    "keep",
    "workdir",
    "intercept",
    "intercept_hosts",
    "block_network",
)
