"""The Target protocol for agents under test, and the tool loop for agents that hand their tool calls back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import TargetError
from offbook.messages import JsonObject, Message, Response, ToolCall, Usage
from offbook.providers.provider import Provider
from offbook.scenarios.mocks import MockedTools


class AgentAnswer(Struct, frozen=True):
    """What an agent said in a turn, and what its model calls took, where that is known."""

    text: str
    usage: Usage = Usage()
    cost_usd: float = 0.0


class AgentEnvironment(Struct, frozen=True):
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

    def begin(self, stage: AgentEnvironment) -> Dialogue:
        """A new conversation."""
        ...


SendMessages: TypeAlias = Callable[[list[JsonObject]], Awaitable[Response]]
MAX_ROUNDS = 25


class ToolLoop:
    """One conversation with an agent that hands its tool calls back: mocks resolve them, until it says something."""

    def __init__(self, ask: SendMessages, tools: MockedTools, *, max_rounds: int = MAX_ROUNDS) -> None:
        self._ask, self._tools, self._max_rounds = ask, tools, max_rounds
        self._messages: list[JsonObject] = []

    async def say(self, text: str) -> AgentAnswer:
        self._messages.append({"role": "user", "content": text})
        spent = _TurnUsage()
        for _ in range(self._max_rounds):
            response = await self._ask(list(self._messages))
            spent.add(response)
            calls = _with_ids(response.tool_calls, len(self._messages))
            self._messages.append(Message("assistant", response.content or None, tool_calls=calls).to_dict())
            if not calls:
                return AgentAnswer(response.content, spent.usage, spent.cost_usd)
            for call in calls:
                self._messages.append(await self._result(call))
        raise TargetError(f"the agent called tools {self._max_rounds} times in a row without an answer")

    async def _result(self, call: ToolCall) -> JsonObject:
        if call.raw_arguments is not None:
            result: object = {"error": f"the arguments are no JSON object: {call.raw_arguments[:200]}"}
        else:
            result = await self._tools.resolve(call.tool, call.args)
        content = result if isinstance(result, str) else orjson.dumps(result).decode()
        return {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": content}


class _TurnUsage:
    """What the model calls of a turn took together."""

    def __init__(self) -> None:
        self.usage, self.cost_usd = Usage(), 0.0

    def add(self, response: Response) -> None:
        one, other = self.usage, response.usage
        self.usage = Usage.of(one.prompt_tokens + other.prompt_tokens, one.completion_tokens + other.completion_tokens)
        self.cost_usd += response.cost_usd


def _with_ids(calls: tuple[ToolCall, ...], place: int) -> tuple[ToolCall, ...]:
    return tuple(call if call.id else replace(call, id=f"call_{place}_{number}") for number, call in enumerate(calls))
