"""Specs of subjects and settings of explorations as plain values, for regression files and worker processes."""

from __future__ import annotations

import shlex
from typing import TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.explore.options import DEFAULT_DEADLINES, Deadlines, Divergence, OnDivergence
from offbook.explore.run import Run
from offbook.faults import PlannedFault
from offbook.messages import JsonObject
from offbook.providers.provider import Provider


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
    """A program and its arguments."""

    command: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        return ["--replay", self.recording]


AnySubjectSpec: TypeAlias = WorkflowSpec | ScenarioSpec | ProgramSpec


def explore_command(spec: AnySubjectSpec, options: list[str]) -> str:
    """Return the shell command that explores it with further options."""
    program = ["--", *spec.command] if isinstance(spec, ProgramSpec) else []
    return shlex.join(["offbook", "explore", *spec.arguments, *options, *program])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class ExploreSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a subject is run.

    `declared` names the errors that it raises when it gives up, or the exit codes of a program. `deadline_s` is how
    long a run may take: in virtual time in this process, in real time for a program. `side_effects` names tools with
    side effects, beside those that declare them. If the recording has no calls of tools, such tools are refused, as
    they would run for real, unless `runs_tools`.
    """

    on_divergence: OnDivergence = "stop"
    default_response: str = "Mock response"
    declared: tuple[str, ...] = ()
    deadline_s: float | None = None
    side_effects: tuple[str, ...] = ()
    runs_tools: bool = False

    @property
    def arguments(self) -> list[str]:
        """The settings as arguments on the command line."""
        values = {
            "--on-divergence": "" if self.on_divergence == "stop" else self.on_divergence,
            "--default-response": "" if self.on_divergence != "default" else self.default_response,
            "--declared": ",".join(self.declared),
            "--deadline": "" if self.deadline_s is None else f"{self.deadline_s:g}",
            "--side-effects": ",".join(self.side_effects),
        }
        options = [word for name, value in values.items() if value for word in (name, value)]
        return [*options, "--run-tools"] if self.runs_tools else options

    @property
    def deadlines(self) -> Deadlines:
        return DEFAULT_DEADLINES if self.deadline_s is None else replace(DEFAULT_DEADLINES, virtual_s=self.deadline_s)

    def divergence(self, live: Provider) -> Divergence:
        """Return what answers a request that was never recorded. The policy `live` asks `live`."""
        return Divergence(self.on_divergence, self.default_response, live)


DEFAULT_SETTINGS = ExploreSettings()


class WorkerSpec(Struct, frozen=True):
    """The first line to a worker: what to run."""

    subject: AnySubjectSpec
    settings: ExploreSettings


class WorkerReady(Struct, frozen=True, tag="ready"):
    """The worker has made its clean run and waits for cases."""


class WorkerRejection(Struct, frozen=True, tag="refused"):
    """The worker cannot run its subject, because of bad input."""

    reason: str
    source: str = ""
    place: str = ""
    hint: str = ""


class WorkerResult(Struct, frozen=True, tag="done"):
    """The run of a case."""

    run: Run


WorkerMessage: TypeAlias = WorkerReady | WorkerRejection | WorkerResult
FaultLines: TypeAlias = tuple[PlannedFault, ...]
