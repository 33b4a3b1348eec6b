"""The seam that everything stands on: a provider takes a request and gives a reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from offbook.messages import NO_EXTRA, JsonObject, Message, Reply, Request, Response, WholeReply, plain_messages
from offbook.providers.sync_edge import run_sync


class Provider(ABC):
    """Anything that answers requests: HTTP, replay, recorder, fault injector, gateway.

    A subclass implements `send` and, if it holds something, `close`. `complete`, `stream` and their
    synchronous edges are conveniences on top of those two and are never overridden.
    """

    name: str = "provider"

    @abstractmethod
    async def send(self, request: Request) -> Reply:
        """Answer `request`.

        Raises:
            ProviderError: the call failed before its first event.
        """

    async def close(self) -> None:
        """Let go of connections and files. Safe to call twice."""

    async def complete(
        self,
        messages: Sequence[JsonObject | Message],
        model: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        tools: Sequence[JsonObject] | None = None,
        tool_choice: str | JsonObject | None = None,
        extra: Mapping[str, Any] = NO_EXTRA,
        step_id: str | None = None,
        attempt: int = 1,
    ) -> Response:
        """The complete response to `messages`.

        Args:
            messages: plain dicts in the OpenAI chat shape, or Message values.
            model: the model's name, as its provider spells it.
            temperature, max_tokens: left to the provider where None.
            tools: function tools in the OpenAI chat shape.
            tool_choice: `auto`, `none`, `required`, or the OpenAI shape that names one function.
            extra: further parameters of the provider's own protocol, sent as they are.
            step_id: names this call in a recording.
            attempt: which try of the same call this is, from 1.
        """
        asked = plain_messages(messages)
        request = Request(
            asked, model, temperature, max_tokens, tuple(tools or ()), tool_choice, extra, False, step_id, attempt
        )
        reply = await self.send(request)
        return reply.response if isinstance(reply, WholeReply) else await reply.collect()

    async def stream(
        self,
        messages: Sequence[JsonObject | Message],
        model: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        tools: Sequence[JsonObject] | None = None,
        tool_choice: str | JsonObject | None = None,
        extra: Mapping[str, Any] = NO_EXTRA,
        step_id: str | None = None,
        attempt: int = 1,
    ) -> Reply:
        """The reply to `messages`, to be iterated over event by event. Arguments as for `complete`."""
        asked = plain_messages(messages)
        request = Request(
            asked, model, temperature, max_tokens, tuple(tools or ()), tool_choice, extra, True, step_id, attempt
        )
        return await self.send(request)

    def complete_sync(self, messages: Sequence[JsonObject | Message], model: str, **options: Any) -> Response:
        """`complete` for scripts without an event loop; takes the same options.

        Raises:
            EventLoopError: called inside a running event loop; await `complete` there.
        """
        return run_sync(self.complete(messages, model, **options))

    def close_sync(self) -> None:
        """`close` for scripts without an event loop."""
        run_sync(self.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sync()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
