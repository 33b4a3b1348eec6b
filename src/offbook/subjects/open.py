"""Opens the subject that a spec describes, and loads the invariants of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from offbook.errors import InputError
from offbook.explore.explorer import Subject
from offbook.explore.verdict import Invariant
from offbook.recording.tool_names import called_tool_names
from offbook.subjects.specs import AnySubjectSpec, ExploreSettings, ProgramSpec, ScenarioSpec, WorkflowSpec

if TYPE_CHECKING:
    from offbook.subjects.program import ProgramSubject
    from offbook.subjects.scenario import ScenarioSubject
    from offbook.subjects.workflow import WorkflowSubject


@contextmanager
def open_subject(spec: AnySubjectSpec, settings: ExploreSettings) -> Iterator[Subject]:
    """Open the subject that the spec describes, for a block.

    Raises:
        InputError: something that it needs is missing or wrong, or the settings do not fit it.
    """
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
    from offbook.subjects.program import ProgramSubject  # noqa: PLC0415

    if settings.on_divergence == "live":
        reason = "unrecorded calls of a program cannot be answered live"
        raise InputError(reason, source="--on-divergence", hint="use explore, stop or default")
    check_real_tools(spec, settings)
    return ProgramSubject(spec.command, replay=spec.recording, settings=settings)


def real_tools(spec: ProgramSpec, settings: ExploreSettings) -> list[str]:
    """Return the tools that the program would run for real: those that its recording calls, unless they only read.

    Raises:
        InputError: the recording cannot be read.
    """
    return [name for name in called_tool_names(spec.recording) if name not in settings.read_only]


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
    from offbook.config.modules import execute_file, import_from  # noqa: PLC0415

    path = Path(file)
    if not path.is_file():
        raise InputError("there is no such file", source=file)
    with import_from([path.resolve().parent]):
        module = execute_file(path.resolve())
    found = [value for name, value in vars(module).items() if name.startswith(INVARIANT_PREFIX) and callable(value)]
    if not found:
        hint = "def invariant_one_refund(run):\n        assert run.side_effects['refund'] <= 1"
        raise InputError(f"it has no function whose name starts with {INVARIANT_PREFIX}", source=file, hint=hint)
    return found
