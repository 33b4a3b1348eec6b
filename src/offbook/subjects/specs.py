"""Specs of subjects and settings of explorations as plain values, and the subjects that they open."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.explorer import Subject
from offbook.explore.options import Invariant
from offbook.explore.settings import ExploreSettings
from offbook.messages import JsonObject
from offbook.presets.preset import KnownProgram, known_program, presets_of, with_preset
from offbook.recording.recorded_tools import RecordedTools, with_recorded_functions
from offbook.settings import find_project
from offbook.text import did_you_mean_file

if TYPE_CHECKING:
    from offbook.subjects.program.launch import Notices
    from offbook.subjects.program.program import ProgramSubject
    from offbook.subjects.scenario import ScenarioSubject
    from offbook.subjects.workflow import WorkflowSubject


class SubjectSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """A subject and its recording. Paths are relative to the working directory."""

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
    """A scenario of a file with an agent of a config, by default the config nearest to the file."""

    file: str
    scenario: str
    agent: str
    config: str | None = None

    @property
    def arguments(self) -> list[str]:
        config = [] if self.config is None else ["-o", f"config={self.config}"]
        chosen = ["-o", f"scenario={self.scenario}", "-o", f"agent={self.agent}"]
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


def record_command(spec: WorkflowSpec | ProgramSpec) -> str:
    """Return the shell command that records its run again."""
    anew = ["--record", spec.recording, "--record-mode", "fresh"]
    if isinstance(spec, ProgramSpec):
        mcp = [] if spec.mcp is None else ["--mcp", spec.mcp]
        return shlex.join(["offbook", "exec", *anew, *mcp, "--", *spec.command])
    state = [word for word in spec.arguments if word not in ("--recording", spec.recording)]
    return shlex.join(["offbook", "run", *state, *anew])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@contextmanager
def open_subject(spec: AnySubjectSpec, settings: ExploreSettings, notices: Notices | None = None) -> Iterator[Subject]:
    """Open the described subject for a block. A program gives its notices to `notices`.

    Raises:
        InputError: something that it needs is missing or wrong, or the settings do not fit it.
    """
    of_program = {"results": settings.results, "check": settings.check, "state_of": settings.state_of}
    given = [name for name, value in of_program.items() if value]
    if given and not isinstance(spec, ProgramSpec):
        hint = "they are for a program; assert what must hold in the scenario, or with -o invariants=FILE"
        raise InputError("there is no program", source=given[0], hint=hint)
    _check_program_settings(spec, settings)
    settings = settings.naming_tools(spec.recording)
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
                yield stack.enter_context(_open_program(spec, settings, notices))


def _check_program_settings(spec: AnySubjectSpec, settings: ExploreSettings) -> None:
    if settings.crashes and isinstance(spec, ScenarioSpec):
        hint = "only a program (-- COMMAND) and a workflow (FLOW.yaml) can be started again"
        raise InputError("a scenario cannot be killed and started again", source="--crash", hint=hint)
    if settings.keep and not isinstance(spec, ProgramSpec):
        hint = "a workflow keeps its progress as offbook run does, and needs no folder"
        raise InputError("it is for a program", source="--keep", hint=hint)
    network = {"intercept": settings.intercept, "intercept_hosts": settings.intercept_hosts}
    for option, is_given in (network | {"block_network": settings.block_network}).items():
        if is_given and not isinstance(spec, ProgramSpec):
            hint = "what runs in this process is answered without the network; it is for a program: -- COMMAND"
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
    settings = replace(settings, tools=config.tools | settings.tools)
    return ScenarioSubject(config, scenario, spec.agent, spec.recording, settings=settings)


def _open_program(spec: ProgramSpec, settings: ExploreSettings, notices: Notices | None) -> ProgramSubject:
    from offbook.subjects.program.launch import NO_NOTICES  # noqa: PLC0415
    from offbook.subjects.program.program import ProgramSubject  # noqa: PLC0415

    if settings.on_divergence == "live":
        reason = "unrecorded calls of a program cannot be answered live"
        raise InputError(reason, source="on_divergence", hint="use explore, stop or default")
    program = known_program(settings.preset, spec.command, presets_of(find_project()))
    settings = with_preset(settings, program.preset)
    _check_own_tools(spec, settings, program)
    check_real_tools(spec, settings)
    settings = replace(settings, tools=with_recorded_functions(settings.tools, RecordedTools(spec.recording)))
    return ProgramSubject(
        spec.command, replay=spec.recording, mcp=spec.mcp, settings=settings, notices=notices or NO_NOTICES
    )


def real_tools(spec: ProgramSpec, settings: ExploreSettings) -> list[str]:
    """Return the tools that the program would run for real: those that its recording calls, unless they only read or
    we stand in for their MCP server.

    Raises:
        InputError: the recording, or the config of the MCP servers, cannot be read.
    """
    recorded = RecordedTools(spec.recording)
    harmless = recorded.replayable | settings.read_only_names
    harmless |= {name for name, tool in settings.tools.items() if tool.run}
    names = [name for name in recorded.called if name not in harmless]
    names = [name for name in names if name not in recorded.steering] if names else []
    if spec.mcp is None:
        return names
    from offbook.subjects.program.tools import load_mcp_tools  # noqa: PLC0415 - only programs with MCP servers need it

    tools = load_mcp_tools(spec.mcp, spec.recording)
    return [name for name in names if not tools.find(name)]


def check_real_tools(spec: ProgramSpec, settings: ExploreSettings) -> None:
    """Refuse a program whose tools would run for real in every case, unless the settings allow it.

    Raises:
        InputError: they do not allow it, or the recording cannot be read.
    """
    tools = [] if settings.runs_tools else real_tools(spec, settings)
    if tools:
        reason = (
            f"no result of {', '.join(tools)} can be replayed: the program would run its tools for real in every case"
        )
        hint = (
            "record it again, with offbook exec: tools of frameworks are recorded, and functions of a loop of your own "
            f'where [tools.{tools[0]}] function = "module:name" names them; or --run-tools, if that does no harm: with '
            f"a test account, a sandbox or a dry run; or -o read_only={','.join(tools)}, as far as they only read"
        )
        if RecordedTools(spec.recording).answered.issuperset(tools):
            allow = f"--run-tools, or [tools.{tools[0]}] run = true"
            hint = f"what it returned cannot be rebuilt from a recording; if it does no harm, let it run: {allow}"
        raise InputError(reason, source="explore", hint=hint)


def _check_own_tools(spec: ProgramSpec, settings: ExploreSettings, program: KnownProgram) -> None:
    """Refuse a known program whose own tools would change this folder in every case, unless the settings allow it.

    Raises:
        InputError: they do not allow it, or the recording cannot be read.
    """
    if settings.workdir is not None or settings.runs_tools:
        return
    own = {name for name in program.preset.tools.split() if settings.tools[name].run}
    if tools := ", ".join(name for name in RecordedTools(spec.recording).called if name in own):
        reason = f"{program.preset.title} would run {tools} for real in every case, in this folder"
        hint = "--workdir FOLDER gives each case a copy of a folder; or --run-tools, if that does no harm"
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
