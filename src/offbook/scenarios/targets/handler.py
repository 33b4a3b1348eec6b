"""Agents that are Python functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from inspect import isawaitable
from typing import Any, TypeAlias

from msgspec import Struct

from offbook.codecs.base import convert_request
from offbook.codecs.chat_message import ChatMessage
from offbook.errors import InputError, OffbookError, TargetError
from offbook.messages import JsonObject, Response
from offbook.providers.provider import Provider
from offbook.scenarios.targets.target import AgentEnvironment, ToolLoop
from offbook.tools.dispatch import DAEMON_THREADS, is_async

HandlerAnswer: TypeAlias = str | Response | Mapping[str, Any]
Handler: TypeAlias = Callable[[list[JsonObject], "HandlerContext"], HandlerAnswer | Awaitable[HandlerAnswer]]


class HandlerContext(Struct, frozen=True):
    """What a handler is given beside the messages.

    `provider` is for its model calls, if it makes them by offbook: they are recorded and replayed with the
    conversation. `conversation_id` tells conversations apart.
    """

    stage: AgentEnvironment
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def conversation_id(self) -> str:
        return self.stage.tools.conversation_id

    @property
    def turn_index(self) -> int:
        return self.stage.tools.turn_index

    @property
    def provider(self) -> Provider | None:
        return self.stage.provider

    def resolve_tool(self, name: str, args: Mapping[str, Any]) -> Any:
        """What a tool answers, by its mock. An async handler awaits it; a sync one gets the result itself."""
        asked = self.stage.tools.resolve(name, args)
        if self.loop is None:
            return asked
        return asyncio.run_coroutine_threadsafe(asked, self.loop).result()


class HandlerTarget:
    """An agent that is a function of `(messages, ctx)`, sync or async.

    It is given the conversation in the OpenAI chat shape, and answers with a text, a message in that shape,
    which may hold tool calls, or a Response. A sync function runs in a thread of its own.
    """

    def __init__(self, name: str, handler: Handler) -> None:
        if not callable(handler):
            raise InputError(f"expected a function, got {handler!r}", source=name, place="handler")
        self.name, self._handler = name, handler

    def begin(self, stage: AgentEnvironment) -> ToolLoop:
        async def ask(messages: list[JsonObject]) -> Response:
            try:
                return _response(await self._answer(messages, stage))
            except OffbookError:
                raise
            except Exception as error:  # whatever the agent does wrong is a finding about it
                raise TargetError(f"the agent raised {type(error).__name__}: {error}") from error

        return ToolLoop(ask, stage.tools)

    async def _answer(self, messages: list[JsonObject], stage: AgentEnvironment) -> HandlerAnswer:
        handler: Callable[..., Any] = self._handler
        if is_async(handler):
            answer = handler(messages, HandlerContext(stage))
        else:
            loop = asyncio.get_running_loop()
            context = HandlerContext(stage, loop)
            answer = await loop.run_in_executor(DAEMON_THREADS, copy_context().run, handler, messages, context)
        said: HandlerAnswer = await answer if isawaitable(answer) else answer
        return said


def _response(answer: HandlerAnswer) -> Response:
    if isinstance(answer, str):
        return Response(answer)
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, Mapping):
        message = convert_request({"role": "assistant", **answer}, ChatMessage)
        calls = tuple(call.to_tool_call() for call in message.tool_calls or ())
        return Response(_content_text(message.content), tool_calls=calls)
    raise TargetError(f"the agent answered {type(answer).__name__}; expected a text, a message or a Response")


def _content_text(content: str | Sequence[JsonObject] | None) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())
