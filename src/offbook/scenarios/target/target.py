"""The seam for agents under test."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from offbook.messages import Usage
from offbook.providers.provider import Provider
from offbook.scenarios.mocks import MockedTools


class AgentAnswer(Struct, frozen=True):
    """What an agent said in a turn, and what its model calls took, where that is known."""

    text: str
    usage: Usage = Usage()
    cost_usd: float = 0.0


class Stage(Struct, frozen=True):
    """What a conversation gives to the agent in it.

    `tools` answers its tool calls. `provider` is for its model calls: recorded or replayed with the rest.
    """

    tools: MockedTools
    provider: Provider | None = None


AGENT_STEP = "agent"
"""The step that an agent's model calls are recorded under, in its conversation."""


class Dialogue(Protocol):
    """An agent in one conversation."""

    async def say(self, text: str) -> AgentAnswer:
        """Say something to the agent, and wait for its answer.

        Raises:
            TargetError: the agent failed, or answered what is no answer.
        """
        ...


class Target(Protocol):
    """An agent under test. Conversations with it share nothing."""

    @property
    def name(self) -> str: ...

    def begin(self, stage: Stage) -> Dialogue:
        """A new conversation."""
        ...
