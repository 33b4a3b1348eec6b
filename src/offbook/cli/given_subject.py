"""What a command line gives to be explored: a workflow, a scenario, or a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from offbook.cli.given_models import check_models
from offbook.cli.given_state import given_state
from offbook.config import modules_of, plan_of
from offbook.config.recordings import is_folder, slug
from offbook.errors import InputError
from offbook.subjects.described import AnyDescribed, DescribedProgram, DescribedScenario, DescribedWorkflow
from offbook.subjects.opening import config_of, scenario_of
from offbook.workflow.load import load_workflow

WORKFLOWS = (".yaml", ".yml")
RECORDINGS = "recordings"
USAGE = "offbook explore FLOW.yaml --recording PATH, or SIM.py, or --replay PATH -- COMMAND"


class GivenSubject(Struct, frozen=True, kw_only=True):
    """The arguments that say what is explored. `command` is what stands behind `--`."""

    file: str | None
    command: Sequence[str] | None
    recording: str | None
    scenario: str | None
    agent: str | None
    config: str | None
    settings: list[str]
    state: str | None

    def described(self) -> AnyDescribed:
        """What is explored.

        Raises:
            InputError: it is not said, or said twice, or something that it needs is missing or wrong.
        """
        if (self.file is None) == (self.command is None):
            reason = "nothing is given to be explored" if self.file is None else "a file and a program are given"
            raise InputError(reason, source="explore", hint=USAGE)
        if self.file is None:
            return DescribedProgram(recording=self._recording(), command=tuple(self.command or ()))
        if self.file.endswith(WORKFLOWS):
            return self._workflow(self.file)
        if self.file.endswith(".py"):
            return self._scenario(self.file)
        raise InputError("this is neither a workflow nor a file of scenarios", source=self.file, hint=USAGE)

    def _recording(self) -> str:
        if self.recording is None:
            hint = "--recording PATH; make one by run --record, or exec --record"
            raise InputError("no recording is given", source="explore", hint=hint)
        return self.recording

    def _workflow(self, file: str) -> DescribedWorkflow:
        definition = load_workflow(file)
        check_models(definition, file)
        state = given_state(definition.state, settings=self.settings, file=self.state)
        return DescribedWorkflow(recording=self._recording(), file=file, state=state)

    def _scenario(self, file: str) -> DescribedScenario:
        path = Path(file)
        if not path.is_file():
            raise InputError("there is no such file", source=file)
        config = config_of(file, self.config)
        with modules_of([config.folder, path.resolve().parent]):
            scenario = scenario_of(path.resolve(), self.scenario)
        plan = plan_of(config, [scenario], agents=[] if self.agent is None else [self.agent])
        recording = self.recording or f"{path.parent / RECORDINGS}/"
        if is_folder(recording):
            recording = str(Path(recording) / f"{slug(scenario.name)}.json")
        return DescribedScenario(
            recording=recording, file=file, scenario=scenario.name, agent=plan.agents[0], config=self.config
        )
