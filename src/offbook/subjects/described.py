"""What is explored, described in plain values: for another process, or for another day."""

from __future__ import annotations

import shlex
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from offbook.messages import JsonObject


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """Something that can be explored, and its recording. Paths are relative to the working directory."""

    recording: str


class DescribedWorkflow(Described, frozen=True, tag="workflow"):
    """A workflow file, and the state that it is run with."""

    file: str
    state: JsonObject = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """What a command line says of it."""
        settings = (f"{key}={value if isinstance(value, str) else _json(value)}" for key, value in self.state.items())
        return [self.file, "--recording", self.recording, *(word for each in settings for word in ("--set", each))]


class DescribedScenario(Described, frozen=True, tag="scenario"):
    """A scenario of a file, with an agent of a config; None is the config nearest to the file."""

    file: str
    scenario: str
    agent: str
    config: str | None = None

    @property
    def arguments(self) -> list[str]:
        config = [] if self.config is None else ["--config", self.config]
        chosen = ["--scenario", self.scenario, "--agent", self.agent]
        return [self.file, *chosen, *config, "--recording", self.recording]


class DescribedProgram(Described, frozen=True, tag="program"):
    """A program, with its arguments."""

    command: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        return ["--replay", self.recording]


AnyDescribed: TypeAlias = DescribedWorkflow | DescribedScenario | DescribedProgram


def explore_command(described: AnyDescribed, options: list[str]) -> str:
    """The command that explores it with further options, for a shell."""
    behind = ["--", *described.command] if isinstance(described, DescribedProgram) else []
    return shlex.join(["offbook", "explore", *described.arguments, *options, *behind])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
