"""Tool calls that a model wrote as text, found again."""

from offbook.agent.rescue.scan import Rescue, rescue

__all__ = ["Rescue", "rescue"]
