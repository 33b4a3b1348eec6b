"""Agents under test, whatever they are made of."""

from offbook.scenarios.target.engine import EngineTarget
from offbook.scenarios.target.handler import HandlerContext, HandlerTarget
from offbook.scenarios.target.http import HttpTarget
from offbook.scenarios.target.runner import RunnerTarget
from offbook.scenarios.target.target import AgentAnswer, Dialogue, Stage, Target

__all__ = [
    "AgentAnswer",
    "Dialogue",
    "EngineTarget",
    "HandlerContext",
    "HandlerTarget",
    "HttpTarget",
    "RunnerTarget",
    "Stage",
    "Target",
]
