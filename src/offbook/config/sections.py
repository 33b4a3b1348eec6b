"""The sections of a config with their commands and allowed keys."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.settings import ExploreArguments
from offbook.settings import ProjectFile, configured, configured_tools, unknown_key
from offbook.wire.settings import ExecArguments, ServeArguments

COMMAND_OPTIONS: tuple[type[Struct], ...] = (ExploreArguments, ExecArguments, ServeArguments)
"""The options of the commands that a config can set."""

_MODEL = ("provider", "model", "base_url", "temperature", "max_tokens")
_AGENT = (
    *("handler", "mcp", "provider", "base_url"),
    *("endpoint", "headers", "body", "model", "stream"),
    *("workflow", "input", "output"),
    *("runner", "prompt_vars", "max_iterations"),
)
_SCENARIOS = ("scenarios", "conversations", "max_turns", "concurrency", "repeat")
KEYS = {
    "agent": ("name", *_AGENT),
    "agents": _AGENT,
    "user": (*_MODEL, "template"),
    "judge": (*_MODEL, "metrics", "thresholds", "group_errors"),
    "run": (*_SCENARIOS, "answer_timeout_s", "unmocked", "budget_usd", "fail_on"),
    "redaction": ("patterns", "fields", "personal"),
}
"""The keys of sections that only some commands read. Importing their models is slow."""


def check_project(project: ProjectFile) -> None:
    """Check the names of all keys of a config, and the values of the options of commands.

    Raises:
        InputError: a key is unknown, or a value is wrong; names the file, the line and the closest name.
    """
    for section, known in KEYS.items():
        fields = project.document.get(section, {})
        tables = {(name,): table for name, table in fields.items()} if section == "agents" else {(): fields}
        for path, table in tables.items():
            for key in table if isinstance(table, dict) else ():
                if key not in known:
                    raise unknown_key(project, section, *path, key, known=known)
    for kind in COMMAND_OPTIONS:
        configured(kind, project)
    configured_tools(project)
