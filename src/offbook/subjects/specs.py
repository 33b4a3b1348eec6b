"""Specs of subjects and settings of explorations as plain values, and the subjects that they open."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.explorer import Subject
from offbook.explore.options import DEFAULT_DEADLINES, Deadlines, Divergence, Invariant, OnDivergence
from offbook.messages import JsonObject
from offbook.providers.provider import Provider
from offbook.recording.tool_replay import called_tool_names, recorded_tool_names
from offbook.text import did_you_mean, did_you_mean_file
from offbook.tools.effects import ToolDeclaration

if TYPE_CHECKING:
    from offbook.subjects.program.program import ProgramSubject
    from offbook.subjects.scenario import ScenarioSubject
    from offbook.subjects.workflow import WorkflowSubject


DEFAULT_DIVERGENCE: OnDivergence = "explore"


class SubjectSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """Something to explore, and its recording. Paths are relative to the working directory."""

    recording: str


class WorkflowSpec(SubjectSpec, frozen=True, tag="workflow"):
    """A workflow file, and the state of its runs."""

    file: str
    state: JsonObject = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """Its arguments on the command line."""
        settings = (f"{key}={value if isinstance(value, str) else _json(value)}" for key, value in self.state.items())
        return [self.file, "--recording", self.recording, *(word for each in settings for word in ("--set", each))]


class ScenarioSpec(SubjectSpec, frozen=True, tag="scenario"):
    """A scenario of a file with an agent of a config. Without `config` it is the one nearest to the file."""

    file: str
    scenario: str
    agent: str
    config: str | None = None

    @property
    def arguments(self) -> list[str]:
        config = [] if self.config is None else ["--config", self.config]
        chosen = ["--scenario", self.scenario, "--agent", self.agent]
        return [self.file, *chosen, *config, "--recording", self.recording]


class ProgramSpec(SubjectSpec, frozen=True, tag="program"):
    """A program and its arguments, and the config of its MCP servers, if we also stand in for those."""

    command: tuple[str, ...]
    mcp: str | None = None

    @property
    def arguments(self) -> list[str]:
        return ["--replay", self.recording, *([] if self.mcp is None else ["--mcp", self.mcp])]


AnySubjectSpec: TypeAlias = WorkflowSpec | ScenarioSpec | ProgramSpec


def explore_command(spec: AnySubjectSpec, options: list[str]) -> str:
    """Return the shell command that explores it with further options."""
    program = ["--", *spec.command] if isinstance(spec, ProgramSpec) else []
    return shlex.join(["offbook", "explore", *spec.arguments, *options, *program])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class ExploreSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of the runs of a subject.

    `optional` names steps and tools that a run may go on without.
    `declared` names the errors that it raises when it gives up; for a program, also its exit codes. `deadline_s` is how
    long a run may take: in virtual time in this process; for a program, how long it may wait for an answer.

    `side_effects`, `read_only`, `idempotent` and `undoes` declare tools, in addition to their own declarations. An item
    of `idempotent` is like `pay` or, with the argument that is the idempotency key, `pay:key`; one of `undoes` is like
    `cancel_hotel=book_hotel`. `effects` is a file to which a program adds a line for each of its effects. `results` are
    the files that it writes, as names or patterns, and `check` a command that fails if something is wrong after a run.

    A run of a program or a workflow `crashes` in some cases: it is killed, and started again. `keep` are the folders
    that a program finds then as it left them, and that every run finds as they were before the first one.

    Tools that would run for real and are not `read_only` are refused unless `runs_tools`: those of a workflow if the
    recording has no calls of tools, and those of a program.

    `fresh` starts a program anew for every case, in real time. So does `intercept`, which answers it as its proxy where
    it calls a vendor, or one of `intercept_hosts`. With `block_network`, it reaches nothing else but this machine.
    `base_url_vars` are further variables from which a program takes the address of its models, like `MY_URL`, or
    `MY_URL=/v1` with the path of that address.
    """

    on_divergence: OnDivergence = DEFAULT_DIVERGENCE
    default_response: str = "Mock response"
    declared: tuple[str, ...] = ()
    deadline_s: float | None = None
    side_effects: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()
    effects: str | None = None
    results: tuple[str, ...] = ()
    check: str | None = None
    optional: tuple[str, ...] = ()
    runs_tools: bool = False
    crashes: bool = False
    keep: tuple[str, ...] = ()
    fresh: bool = False
    base_url_vars: tuple[str, ...] = ()
    intercept: bool = False
    intercept_hosts: tuple[str, ...] = ()
    block_network: bool = False

    @property
    def arguments(self) -> list[str]:
        """The settings as arguments on the command line."""
        values = {
            "--on-divergence": "" if self.on_divergence == DEFAULT_DIVERGENCE else self.on_divergence,
            "--default-response": "" if self.on_divergence != "default" else self.default_response,
            "--declared": ",".join(self.declared),
            "--deadline": "" if self.deadline_s is None else f"{self.deadline_s:g}",
            "--side-effects": ",".join(self.side_effects),
            "--read-only": ",".join(self.read_only),
            "--idempotent": ",".join(self.idempotent),
            "--undoes": ",".join(self.undoes),
            "--effects": self.effects or "",
            "--check": self.check or "",
            "--optional": ",".join(self.optional),
        }
        options = [word for name, value in values.items() if value for word in (name, value)]
        options += [word for each in self.results for word in ("--result", each)]
        options += [word for folder in self.keep for word in ("--keep", folder)]
        options += [word for name in self.base_url_vars for word in ("--base-url-var", name)]
        options += [word for host in self.intercept_hosts for word in ("--intercept-host", host)]
        flags = {"--crash": self.crashes, "--run-tools": self.runs_tools, "--fresh": self.fresh}
        flags |= {"--intercept": self.intercept, "--block-network": self.block_network}
        return [*options, *(name for name, is_set in flags.items() if is_set)]

    @property
    def deadlines(self) -> Deadlines:
        return DEFAULT_DEADLINES if self.deadline_s is None else replace(DEFAULT_DEADLINES, virtual_s=self.deadline_s)

    @property
    def declarations(self) -> dict[str, ToolDeclaration]:
        """Declarations of tools in the settings, by their names.

        Raises:
            InputError: two declarations of a tool contradict each other, or one cannot be read.
        """
        keys = dict(_partition(each, ":") for each in self.idempotent)
        undone = dict(_split_undoes(each) for each in self.undoes)
        names = dict.fromkeys((*self.side_effects, *self.read_only, *keys, *undone))
        declared = {
            name: ToolDeclaration(
                side_effect=name in self.side_effects,
                read_only=name in self.read_only,
                idempotent=keys[name] or True if name in keys else False,
                undoes=undone.get(name),
            )
            for name in names
        }
        for name, declaration in declared.items():
            declaration.check(name)
        return declared

    def check_tools(
        self, recording: str | os.PathLike[str], others: Iterable[str] = (), *, has_run: bool = True
    ) -> None:
        """Check that the tools that the settings name, and their arguments, are those of the recording or of `others`.

        A tool that undoes another may be in neither: it runs only after a failure. Before a program `has_run`, a name
        may be that of an effect that it reports: only those that only read, and those like another, are refused. The
        effects that it reports may have further arguments: only those like another are refused.

        Raises:
            InputError: there is no such tool or argument, with a suggestion, or the recording cannot be read.
        """
        if not (self.side_effects or self.read_only or self.idempotent or self.undoes):
            return
        undoing = {_split_undoes(each)[0] for each in self.undoes}
        recorded = recorded_tool_names(recording)
        names = recorded.known | set(others) | undoing
        keys = dict(_partition(each, ":") for each in self.idempotent)
        named = {
            "--side-effects": self.side_effects,
            "--read-only": self.read_only,
            "--idempotent": keys,
            "--undoes": [name for each in self.undoes for name in _split_undoes(each)],
        }
        for option, tools in named.items():
            for tool in tools:
                is_sure = has_run or (names and option == "--read-only") or did_you_mean(tool, names)
                if tool not in names and is_sure:
                    hint = did_you_mean(tool, names, kind="tools")
                    raise InputError(f"there is no tool {tool!r}", source=option, hint=hint)
        for tool, key in keys.items():
            arguments = recorded.arguments.get(tool, set())
            if key and key not in arguments and (hint := did_you_mean(key, arguments)):
                raise InputError(f"{tool} has no argument {key!r}", source="--idempotent", hint=hint)

    def divergence(self, live: Provider) -> Divergence:
        """Return what answers a request that was never recorded. The policy `live` asks `live`."""
        return Divergence(self.on_divergence, self.default_response, live)


def _partition(text: str, separator: str) -> tuple[str, str]:
    name, _, rest = text.partition(separator)
    return name.strip(), rest.strip()


def _split_undoes(text: str) -> tuple[str, str]:
    name, undone = _partition(text, "=")
    if not (name and undone):
        hint = "--undoes cancel_hotel=book_hotel"
        raise InputError(f"expected TOOL=TOOL, got {text!r}", source="--undoes", hint=hint)
    return name, undone


DEFAULT_SETTINGS = ExploreSettings()


@contextmanager
def open_subject(spec: AnySubjectSpec, settings: ExploreSettings) -> Iterator[Subject]:
    """Open the subject that the spec describes, for a block.

    Raises:
        InputError: something that it needs is missing or wrong, or the settings do not fit it.
    """
    if (settings.results or settings.check is not None) and not isinstance(spec, ProgramSpec):
        hint = "they are for a program; assert what must hold in the scenario, or with --invariants"
        raise InputError("there is no program", source="--result" if settings.results else "--check", hint=hint)
    _check_program_settings(spec, settings)
    with ExitStack() as stack:
        match spec:
            case WorkflowSpec():
                workflow = _open_workflow(spec, settings)
                stack.callback(workflow.close)
                yield workflow
            case ScenarioSpec():
                scenario = _open_scenario(spec, settings, stack)
                stack.callback(scenario.close)
                yield scenario
            case ProgramSpec():
                yield stack.enter_context(_open_program(spec, settings))


def _check_program_settings(spec: AnySubjectSpec, settings: ExploreSettings) -> None:
    if settings.crashes and isinstance(spec, ScenarioSpec):
        hint = "only a program (-- COMMAND) and a workflow (FLOW.yaml) can be started again"
        raise InputError("a scenario cannot be killed and started again", source="--crash", hint=hint)
    if settings.keep and not isinstance(spec, ProgramSpec):
        hint = "a workflow keeps its progress as offbook run does, and needs no folder"
        raise InputError("it is for a program", source="--keep", hint=hint)
    network = {"--intercept": settings.intercept, "--intercept-host": settings.intercept_hosts}
    for option, is_given in (network | {"--block-network": settings.block_network}).items():
        if is_given and not isinstance(spec, ProgramSpec):
            hint = "what runs in this process is answered without the network; --intercept is for a program: -- COMMAND"
            raise InputError("it is for a program", source=option, hint=hint)


def _open_workflow(spec: WorkflowSpec, settings: ExploreSettings) -> WorkflowSubject:
    from offbook.subjects.workflow import WorkflowSubject  # noqa: PLC0415 - each subject loads what it alone needs
    from offbook.workflow.file.load import load_workflow  # noqa: PLC0415

    definition = load_workflow(spec.file)
    folder = Path(spec.file).parent
    return WorkflowSubject(definition, spec.recording, state=spec.state, folder=folder, settings=settings)


def _open_scenario(spec: ScenarioSpec, settings: ExploreSettings, stack: ExitStack) -> ScenarioSubject:
    from offbook.config import import_from, plan_run  # noqa: PLC0415
    from offbook.subjects.scenario import ScenarioSubject, config_of, scenario_of  # noqa: PLC0415

    config, file = config_of(spec.file, spec.config), Path(spec.file).resolve()
    stack.enter_context(import_from([config.folder, file.parent]))
    scenario = scenario_of(file, spec.scenario)
    settings.check_tools(spec.recording, [*scenario.mocks, *scenario.schemas])
    plan_run(config, [scenario], agents=[spec.agent])
    return ScenarioSubject(config, scenario, spec.agent, spec.recording, settings=settings)


def _open_program(spec: ProgramSpec, settings: ExploreSettings) -> ProgramSubject:
    from offbook.subjects.program.program import ProgramSubject  # noqa: PLC0415

    if settings.on_divergence == "live":
        reason = "unrecorded calls of a program cannot be answered live"
        raise InputError(reason, source="--on-divergence", hint="use explore, stop or default")
    check_real_tools(spec, settings)
    return ProgramSubject(spec.command, replay=spec.recording, mcp=spec.mcp, settings=settings)


def real_tools(spec: ProgramSpec, settings: ExploreSettings) -> list[str]:
    """Return the tools that the program would run for real: those that its recording calls, unless they only read or
    we stand in for their MCP server.

    Raises:
        InputError: the recording, or the config of the MCP servers, cannot be read.
    """
    names = [name for name in called_tool_names(spec.recording) if name not in settings.read_only]
    if spec.mcp is None:
        return names
    from offbook.subjects.program.tools import load_mcp_tools  # noqa: PLC0415 - only programs with MCP servers need it

    tools = load_mcp_tools(spec.mcp, spec.recording)
    return [name for name in names if not tools.find(name)]


def check_real_tools(spec: ProgramSpec, settings: ExploreSettings) -> None:
    """Refuse a program whose tools would do something for real in every case, unless the settings allow it.

    Raises:
        InputError: they do not allow it, or the recording cannot be read.
    """
    tools = [] if settings.runs_tools else real_tools(spec, settings)
    if tools:
        reason = f"the program would run its tools for real in every case: {', '.join(tools)}"
        hint = (
            "--run-tools, if that does no harm: with a test account, a sandbox or a dry run; "
            f"or --read-only {','.join(tools)}, as far as they only read"
        )
        raise InputError(reason, source="explore", hint=hint)


INVARIANT_PREFIX = "invariant_"


def load_invariants(file: str) -> list[Invariant]:
    """Load the functions of a Python file whose names start with `invariant_`, in order. Each takes a Run.

    Raises:
        InputError: the file does not exist, cannot be imported, or has no such function.
    """
    from offbook.config.discovery import execute_file, import_from  # noqa: PLC0415

    path = Path(file)
    if not path.is_file():
        raise InputError("there is no such file", source=file, hint=did_you_mean_file(file))
    with import_from([path.resolve().parent]):
        module = execute_file(path.resolve())
    found = [value for name, value in vars(module).items() if name.startswith(INVARIANT_PREFIX) and callable(value)]
    if not found:
        hint = "def invariant_one_refund(run):\n        assert run.side_effects['refund'] <= 1"
        raise InputError(f"it has no function whose name starts with {INVARIANT_PREFIX}", source=file, hint=hint)
    return found
