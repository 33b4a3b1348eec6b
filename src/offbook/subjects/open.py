"""Opens the subject that a spec describes, and loads the invariants of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from offbook.config import Config, collect_scenarios, find_config, import_from, load_config, plan_run
from offbook.config.modules import execute_file
from offbook.errors import InputError
from offbook.explore.runner import Subject
from offbook.explore.verdict import Invariant
from offbook.scenarios.scenario import Scenario
from offbook.subjects.program import ProgramSubject
from offbook.subjects.scenario import ScenarioSubject
from offbook.subjects.specs import AnySubjectSpec, ExploreSettings, ProgramSpec, ScenarioSpec, WorkflowSpec
from offbook.subjects.workflow import WorkflowSubject
from offbook.text import did_you_mean
from offbook.workflow.file.load import load_workflow

PROGRAM_DEADLINE_S = 20.0
"""How long a program may run, where nothing else is said."""


@contextmanager
def open_subject(spec: AnySubjectSpec, settings: ExploreSettings) -> Iterator[Subject]:
    """The subject, until the block ends.

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
    definition = load_workflow(spec.file)
    folder = Path(spec.file).parent
    return WorkflowSubject(definition, spec.recording, state=spec.state, folder=folder, settings=settings)


def _open_scenario(spec: ScenarioSpec, settings: ExploreSettings, stack: ExitStack) -> ScenarioSubject:
    config, file = config_of(spec.file, spec.config), Path(spec.file).resolve()
    stack.enter_context(import_from([config.folder, file.parent]))
    scenario = scenario_of(file, spec.scenario)
    plan_run(config, [scenario], agents=[spec.agent])
    return ScenarioSubject(config, scenario, spec.agent, spec.recording, settings=settings)


def config_of(file: str, config: str | None) -> Config:
    """The config that is named, or the one nearest to a file of scenarios.

    Raises:
        InputError: there is none, or it is wrong.
    """
    return find_config(Path(file).resolve().parent) if config is None else load_config(config)


def scenario_of(file: Path, name: str | None) -> Scenario:
    """The scenario of a file: the one of that name, or else the only one.

    Raises:
        InputError: the file cannot be imported, there is no such scenario, or none is named and there are several.
    """
    scenarios = {scenario.name: scenario for scenario in collect_scenarios([file])}
    if name is None and len(scenarios) == 1:
        return next(iter(scenarios.values()))
    if name in scenarios:
        return scenarios[name]
    names = ", ".join(map(repr, scenarios)) or "none"
    if name is None:
        reason, hint = f"it declares {len(scenarios)} scenarios", f"choose one by --scenario: {names}"
    else:
        reason, hint = f"there is no scenario {name!r}", did_you_mean(name, scenarios, kind="scenarios")
    raise InputError(reason, source=str(file), hint=hint)


def _open_program(spec: ProgramSpec, settings: ExploreSettings) -> ProgramSubject:
    if settings.on_divergence == "live":
        reason = "a program's calls that were never recorded cannot be asked live"
        raise InputError(reason, source="--on-divergence", hint="stop, or default")
    codes = [_exit_code(each) for each in settings.declared]
    return ProgramSubject(
        spec.command,
        replay=spec.recording,
        side_effects=settings.side_effects,
        declared_exits=codes,
        on_divergence=settings.on_divergence,
        default_response=settings.default_response,
        deadline_s=PROGRAM_DEADLINE_S if settings.deadline_s is None else settings.deadline_s,
    )


def _exit_code(declared: str) -> int:
    if not declared.isdigit():
        reason = f"a program ends by an exit code, not by {declared!r}"
        raise InputError(reason, source="--declared", hint="--declared 3,4")
    return int(declared)


INVARIANT_PREFIX = "invariant_"


def load_invariants(file: str) -> list[Invariant]:
    """The functions of a Python file whose names start with `invariant_`, in order. Each takes a Run.

    Raises:
        InputError: the file is not there, cannot be imported, or has no such function.
    """
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
