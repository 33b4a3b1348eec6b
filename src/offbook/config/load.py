"""Finds and reads a project's config: `offbook.toml`, or `[tool.offbook]` in `pyproject.toml`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from offbook.config.schema import (
    AGENT_KINDS,
    REFERENCE_PATTERN,
    AgentConfig,
    Config,
    JudgeConfig,
    RunConfig,
    Section,
    UserConfig,
)
from offbook.errors import InputError
from offbook.recording.redact.rules import CONFIG_FILE, PROJECT_FILE, read_rules
from offbook.schema_errors import read_toml
from offbook.text import did_you_mean
from offbook.workflow.file.problems import show_value

EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
LIMITS = {"greater_than": "more than", "greater_than_equal": "at least", "less_than_equal": "at most"}


def validation_input_error(error: ValidationError, kind: type[Section], *, source: str, place: str) -> InputError:
    """Return the first problem of the section at `place`, which should be of this kind."""
    details = error.errors(include_url=False)[0]
    path = ".".join([place, *map(str, details["loc"])])
    reason, hint = _reason_and_hint(details, kind)
    return InputError(reason, source=source, place=path, hint=hint)


def _reason_and_hint(details: ErrorDetails, kind: type[Section]) -> tuple[str, str]:
    reason, name, given = details["type"], str(details["loc"][-1]), _show_value(details["input"])
    if reason == "extra_forbidden":
        return f"unknown key {name!r}", did_you_mean(name, kind.model_fields, kind="keys")
    if reason == "missing":
        return "required, but missing", ""
    if reason == "literal_error":
        return f"unknown value {given}", _literal_hint(details)
    return _mismatch_reason(details, given), ""


def _literal_hint(details: ErrorDetails) -> str:
    known = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    return did_you_mean(str(details["input"]), known, kind="one of")


def _mismatch_reason(details: ErrorDetails, given: str) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {given}"
    if kind in LIMITS:
        return f"expected {LIMITS[kind]} {next(iter(context.values())):g}, got {given}"
    if kind == "string_pattern_mismatch" and context["pattern"] == REFERENCE_PATTERN:
        return f"expected 'module:name', got {given}"
    if kind == "string_too_short":
        return "expected a value, got an empty one"
    return f"{details['msg']}, got {given}"


def _show_value(given: object) -> str:
    return "a table" if isinstance(given, Mapping) else show_value(given)


SECTIONS = ("agent", "agents", "user", "judge", "run", "redaction")
AGENT_NAME = re.compile(r"[\w.-]{1,100}")
DEFAULT_AGENT = "agent"

D = TypeVar("D", bound=Section)


def find_config(start: str | os.PathLike[str] = ".") -> Config:
    """Load the nearest config, in the folder `start` or above it.

    Raises:
        InputError: there is none, or it cannot be read or is invalid.
    """
    folder = Path(start).resolve()
    for place in (folder, *folder.parents):
        if (place / CONFIG_FILE).is_file():
            return load_config(place / CONFIG_FILE)
        project = place / PROJECT_FILE
        if project.is_file() and (section := _section(read_toml(project))) is not None:
            return _config(section, project)
    hint = f'create {CONFIG_FILE}:\n    [agent]\n    handler = "my_agent:handle"'
    raise InputError(f"there is no {CONFIG_FILE} here or above", source=str(folder), hint=hint)


def load_config(path: str | os.PathLike[str]) -> Config:
    """Load the config in a file; of a file named `pyproject.toml`, the table `[tool.offbook]`.

    Raises:
        InputError: it cannot be read or is invalid; the error names the file and the key.
    """
    file = Path(path)
    document = read_toml(file)
    if file.name != PROJECT_FILE:
        return _config(document, file)
    section = _section(document)
    if section is None:
        raise InputError("there is no [tool.offbook]", source=str(file))
    return _config(section, file)


def _section(document: Mapping[str, Any]) -> dict[str, Any] | None:
    tool = document.get("tool")
    section = tool.get("offbook") if isinstance(tool, dict) else None
    return section if isinstance(section, dict) else None


def _config(document: Mapping[str, Any], file: Path) -> Config:
    source = str(file)
    for name, section in document.items():
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS, kind="sections")
            raise InputError(f"unknown section {name!r}", source=source, hint=hint)
        if not isinstance(section, dict):
            raise InputError("expected a table", source=source, place=name, hint=f"write [{name}]")
    read_rules(document.get("redaction", {}), source=source)
    return Config(
        source=source,
        folder=file.resolve().parent,
        agents=_agents(document, source),
        user=_read(UserConfig, document["user"], source, "user") if "user" in document else None,
        judge=_read(JudgeConfig, document["judge"], source, "judge") if "judge" in document else None,
        run=_read(RunConfig, document.get("run", {}), source, "run"),
    )


def _agents(document: Mapping[str, Any], source: str) -> dict[str, AgentConfig]:
    agents: dict[str, AgentConfig] = {}
    if "agent" in document:
        fields = dict(document["agent"])
        name = fields.pop("name", DEFAULT_AGENT)
        agents[_checked_name(name, source, "agent.name")] = _agent(fields, source, "agent")
    for name, fields in document.get("agents", {}).items():
        place = f"agents.{name}"
        if name in agents:
            raise InputError(f"there are two agents named {name!r}", source=source, place=place)
        agents[_checked_name(name, source, place)] = _agent(fields, source, place)
    return agents


def _checked_name(name: object, source: str, place: str) -> str:
    if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
        hint = "a name is up to 100 letters, digits, '_', '-' and '.'"
        raise InputError(f"{name!r} is not a valid agent name", source=source, place=place, hint=hint)
    return name


def _agent(fields: object, source: str, place: str) -> AgentConfig:
    if not isinstance(fields, dict):
        raise InputError("expected a table", source=source, place=place, hint=f"write [{place}]")
    kinds = [kind for kind in AGENT_KINDS if kind in fields]
    if len(kinds) > 1:
        raise InputError(f"an agent has one of {' and '.join(kinds)}, not both", source=source, place=place)
    if not kinds:
        unknown = next((name for name in fields if did_you_mean(name, AGENT_KINDS)), "")
        hint = did_you_mean(unknown, AGENT_KINDS, kind="an agent has one of")
        raise InputError("the kind of agent is missing", source=source, place=place, hint=hint)
    return _read(AGENT_KINDS[kinds[0]], fields, source, place)


def _read(kind: type[D], fields: Mapping[str, Any], source: str, place: str) -> D:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise validation_input_error(error, kind, source=source, place=place) from None
