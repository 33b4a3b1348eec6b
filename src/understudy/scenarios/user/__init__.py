"""Users that talk to an agent under test: simulated by a model, or from a script."""

from understudy.scenarios.user.move import UserMove
from understudy.scenarios.user.scripted import ScriptedUser
from understudy.scenarios.user.simulated import SimulatedUser
from understudy.scenarios.user.template import DEFAULT_TEMPLATE, user_prompt

__all__ = ["DEFAULT_TEMPLATE", "ScriptedUser", "SimulatedUser", "UserMove", "user_prompt"]
