"""Users that talk to an agent under test: simulated by a model, or from a script."""

from offbook.scenarios.user.move import UserMove
from offbook.scenarios.user.scripted import ScriptedUser
from offbook.scenarios.user.simulated import SimulatedUser
from offbook.scenarios.user.template import DEFAULT_TEMPLATE, user_prompt

__all__ = ["DEFAULT_TEMPLATE", "ScriptedUser", "SimulatedUser", "UserMove", "user_prompt"]
