"""What a mock is: a declared stand-in for a tool, that begins afresh in each conversation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext

Answer: TypeAlias = Callable[[JsonObject, MockContext], Any]
"""Answers a call with a value, with something to wait for, or by raising."""


class Mock(ABC):
    """A stand-in for a tool, as declared. It keeps nothing of what conversations do with it."""

    @abstractmethod
    def start(self) -> Answer:
        """What answers the calls of one conversation."""


async def ask(answer: Answer, args: JsonObject, context: MockContext) -> Any:
    """The value that a call is answered with, waited for if need be. Raises what the mock raises."""
    value = answer(args, context)
    return await value if hasattr(type(value), "__await__") else value
