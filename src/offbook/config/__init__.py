"""The config of a project: its agents, users and judges, where its scenarios are, and how they are run."""

from offbook.config.cast import OpenCast, open_cast, rules_of
from offbook.config.collect import collect_scenarios, scenario_files
from offbook.config.error_groups import ErrorGrouping, error_grouping
from offbook.config.load import find_config, load_config
from offbook.config.modules import modules_of
from offbook.config.plan import Plan, plan_of
from offbook.config.schema import Config

__all__ = [
    "Config",
    "ErrorGrouping",
    "OpenCast",
    "Plan",
    "collect_scenarios",
    "error_grouping",
    "find_config",
    "load_config",
    "modules_of",
    "open_cast",
    "plan_of",
    "rules_of",
    "scenario_files",
]
