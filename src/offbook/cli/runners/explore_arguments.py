"""Parses the arguments of `offbook explore`: the subject, the cases, and the verdicts that fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from offbook.cli.parse import check_models, parse_state
from offbook.config import import_from, plan_run
from offbook.config.recordings import is_folder, slug
from offbook.errors import InputError
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict
from offbook.subjects.executors import Workers
from offbook.subjects.scenario import config_of, scenario_of
from offbook.subjects.specs import AnySubjectSpec, ProgramSpec, ScenarioSpec, WorkflowSpec
from offbook.text import did_you_mean
from offbook.workflow.file.load import load_workflow


class ExploreArguments(Struct, frozen=True, kw_only=True):
    """Which cases run, how they are reported, and which verdicts fail.

    `lines` are the faults of a single case to run instead of all; `only` has ids of cases. `compare` is an earlier
    report, `regress` a folder for findings.
    """

    faults: str = "all"
    has_pairs: bool = False
    budget: int | None = None
    lines: Sequence[str] = ()
    only: Sequence[str] = ()
    is_list: bool = False
    invariants: str | None = None
    workers: Workers = "auto"
    reporters: Sequence[str] = ()
    fail_on: frozenset[Verdict] = FINDINGS
    compare: str | None = None
    regress: str | None = None
    is_json: bool = False
    is_quiet: bool = False


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a list like `refund,pay`."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_verdicts(text: str | None) -> frozenset[Verdict]:
    """Return the verdicts in a list, with hyphens for spaces; without a list, those that are findings.

    Raises:
        InputError: there is no such verdict.
    """
    if text is None:
        return FINDINGS
    known = {verdict.replace(" ", "-"): verdict for verdict in VERDICTS}
    for name in parse_names(text):
        if name not in known:
            hint = did_you_mean(name, known, kind="verdicts")
            raise InputError(f"there is no verdict {name!r}", source="--fail-on", hint=hint)
    return frozenset(known[name] for name in parse_names(text))


def parse_workers(text: str) -> Workers:
    """Return a number of workers, or `auto`.

    Raises:
        InputError: it is neither.
    """
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"expected a number or auto, got {text!r}", source="--workers", hint="--workers 2")
    return int(text)


WORKFLOW_SUFFIXES = (".yaml", ".yml")
RECORDINGS_FOLDER = "recordings"
USAGE = "offbook explore FLOW.yaml --recording PATH, or SIM.py, or --replay PATH -- COMMAND"


class SubjectArguments(Struct, frozen=True, kw_only=True):
    """The arguments that name the subject. `command` is what follows `--`."""

    file: str | None
    command: Sequence[str] | None
    recording: str | None
    scenario: str | None
    agent: str | None
    config: str | None
    settings: list[str]
    state: str | None

    def spec(self) -> AnySubjectSpec:
        """Return the subject to explore.

        Raises:
            InputError: there is no subject, or there are two, or something that it needs is missing or wrong.
        """
        if (self.file is None) == (self.command is None):
            reason = "a file or a program is missing" if self.file is None else "there are both a file and a program"
            raise InputError(reason, source="explore", hint=USAGE)
        if self.file is None:
            return ProgramSpec(recording=self._recording(), command=tuple(self.command or ()))
        if self.file.endswith(WORKFLOW_SUFFIXES):
            return self._workflow(self.file)
        if self.file.endswith(".py"):
            return self._scenario(self.file)
        raise InputError("this is not a workflow or a file of scenarios", source=self.file, hint=USAGE)

    def _recording(self) -> str:
        if self.recording is None:
            hint = "--recording PATH; make one with run --record or exec --record"
            raise InputError("a recording is missing", source="explore", hint=hint)
        return self.recording

    def _workflow(self, file: str) -> WorkflowSpec:
        definition = load_workflow(file)
        check_models(definition, file)
        state = parse_state(definition.state, settings=self.settings, file=self.state)
        return WorkflowSpec(recording=self._recording(), file=file, state=state)

    def _scenario(self, file: str) -> ScenarioSpec:
        path = Path(file)
        if not path.is_file():
            raise InputError("there is no such file", source=file)
        config = config_of(file, self.config)
        with import_from([config.folder, path.resolve().parent]):
            scenario = scenario_of(path.resolve(), self.scenario)
        plan = plan_run(config, [scenario], agents=[] if self.agent is None else [self.agent])
        recording = self.recording or f"{path.parent / RECORDINGS_FOLDER}/"
        if is_folder(recording):
            recording = str(Path(recording) / f"{slug(scenario.name)}.json")
        return ScenarioSpec(
            recording=recording, file=file, scenario=scenario.name, agent=plan.agents[0], config=self.config
        )
