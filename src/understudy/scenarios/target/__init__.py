"""Agents under test, whatever they are made of."""

from understudy.scenarios.target.engine import EngineTarget
from understudy.scenarios.target.handler import HandlerContext, HandlerTarget
from understudy.scenarios.target.http import HttpTarget
from understudy.scenarios.target.runner import RunnerTarget
from understudy.scenarios.target.target import AgentAnswer, Dialogue, Stage, Target

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
