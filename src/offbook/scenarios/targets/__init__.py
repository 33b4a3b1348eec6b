"""Agents under test: functions, HTTP endpoints and workflows."""

from offbook.scenarios.targets.handler import HandlerContext, HandlerTarget
from offbook.scenarios.targets.http import HttpTarget
from offbook.scenarios.targets.target import AgentAnswer, AgentEnvironment, Dialogue, Target
from offbook.scenarios.targets.workflow import EngineTarget, RunnerTarget

__all__ = [
    "AgentAnswer",
    "AgentEnvironment",
    "Dialogue",
    "EngineTarget",
    "HandlerContext",
    "HandlerTarget",
    "HttpTarget",
    "RunnerTarget",
    "Target",
]
