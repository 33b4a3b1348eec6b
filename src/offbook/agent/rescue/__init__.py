"""Finds tool calls that a model wrote as text."""

from offbook.agent.rescue.find import Rescue, rescue

__all__ = ["Rescue", "rescue"]
