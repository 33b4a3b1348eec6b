"""The config of a project: agents, simulated user, judge, and how to find and run scenarios."""

from offbook.config.find_scenarios import RunPlan, collect_scenarios, plan_run, scenario_files
from offbook.config.load import find_config, load_config
from offbook.config.modules import import_from
from offbook.config.participants import (
    ErrorGrouping,
    OpenParticipants,
    error_grouping,
    open_participants,
    run_rules,
)
from offbook.config.schema import Config

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
    "open_participants",
    "plan_run",
    "run_rules",
    "scenario_files",
]
