"""The config of a project: its agents, users and judges, where its scenarios are, and how they are run."""

from understudy.config.cast import OpenCast, open_cast, rules_of
from understudy.config.collect import collect_scenarios, scenario_files
from understudy.config.error_groups import ErrorGrouping, error_grouping
from understudy.config.load import find_config, load_config
from understudy.config.modules import modules_of
from understudy.config.plan import Plan, plan_of
from understudy.config.schema import Config

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
