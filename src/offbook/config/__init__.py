"""The config of a project: agents, simulated user, judge, and how to find and run scenarios."""

from offbook.config.discovery import RunPlan, collect_scenarios, import_from, plan_run, scenario_files
from offbook.config.file import Config, find_config, load_config
from offbook.config.participants import (
    ErrorGrouping,
    OpenParticipants,
    error_grouping,
    mcp_configs,
    open_participants,
    run_rules,
)

__all__ = [
    "Config",
    "ErrorGrouping",
    "OpenParticipants",
    "RunPlan",
    "collect_scenarios",
    "error_grouping",
    "find_config",
    "import_from",
    "load_config",
    "mcp_configs",
    "open_participants",
    "plan_run",
    "run_rules",
    "scenario_files",
]
