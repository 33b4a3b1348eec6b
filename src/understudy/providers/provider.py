"""The seam that everything stands on: a provider takes a request and gives a reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from understudy.messages import JsonObject, Message, Reply, Request, RequestOptions, Response, make_request
from understudy.providers.sync_edge import run_sync


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
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[RequestOptions]
    ) -> Response:
        """The complete response to `messages`: plain dicts in the OpenAI chat shape, or Message values.

        Options, all by keyword: temperature, max_tokens, tools, tool_choice, extra, step_id, attempt;
        RequestOptions says what each means.
        """
        reply = await self.send(make_request(messages, model, options, stream=False))
        return await reply.collect()

    async def stream(
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[RequestOptions]
    ) -> Reply:
        """The reply to `messages`, to be iterated over event by event. Options as for `complete`."""
        return await self.send(make_request(messages, model, options, stream=True))

    def complete_sync(
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[RequestOptions]
    ) -> Response:
        """`complete` for scripts without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `complete` there.
        """
        return run_sync(self.complete(messages, model, **options))

    def close_sync(self) -> None:
        """`close` for scripts without an event loop."""
        run_sync(self.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
