"""The Provider interface that everything is built on, its synchronous calls, and wrappers for any provider."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from offbook.clock import refuse_in_loop
from offbook.errors import ProviderConnectionError
from offbook.messages import (
    NO_EXTRA,
    JsonObject,
    Message,
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    WholeReply,
    plain_messages,
)

T = TypeVar("T")
_local = threading.local()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on this thread's own event loop, which is kept so that connections are too.

    The loop ends with the thread, or with the program.

    Raises:
        EventLoopError: an event loop is running in this thread already.
    """
    refuse_in_loop(work)
    return _runner().run(work, context=contextvars.copy_context())


def _runner() -> asyncio.Runner:
    runner: asyncio.Runner | None = getattr(_local, "runner", None)
    if runner is None:
        runner = _local.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        weakref.finalize(runner, _close_loop, runner.get_loop())
    return runner


def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop that nobody will use again, unless it runs in a daemon thread that the exit is about to cut off."""
    if not loop.is_running():
        loop.close()


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


class PrefixedProvider(Provider):
    """Passes requests on with `prefix` before their step's id, so that each is recorded under a key of its own.

    The provider behind it is shared, and stays open when this is closed.
    """

    def __init__(self, provider: Provider, prefix: str) -> None:
        self.name = provider.name
        self._provider, self._prefix = provider, prefix

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(replace(request, step_id=f"{self._prefix}{request.step_id or ''}"))


OnEnd: TypeAlias = Callable[[Response | BaseException], None]


def notify_on_end(reply: Reply, ended: OnEnd) -> Reply:
    """The same reply, which calls `ended` once: with its response, or with what broke it.

    A reader that stops early, or never begins, breaks it with a GeneratorExit or CancelledError. A
    stream that just ends, without its last event, breaks with a ProviderConnectionError. What has
    ended or broken is closed.
    """
    if isinstance(reply, WholeReply):
        ended(reply.response)
        return reply
    return _NotifyingReply(reply, ended)


class _NotifyingReply(StreamedReply):
    """A stream that is watched from before its first event until it ends or is closed."""

    def __init__(self, reply: Reply, ended: OnEnd) -> None:
        self._ended = _Once(ended)
        super().__init__(_read_and_notify(reply, self._ended), source=reply)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            self._ended(GeneratorExit())


class _Once:
    """Passes on the first call of all."""

    def __init__(self, ended: OnEnd) -> None:
        self._waiting: OnEnd | None = ended

    def __call__(self, outcome: Response | BaseException) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting(outcome)


async def _read_and_notify(reply: Reply, ended: OnEnd) -> AsyncIterator[StreamEvent]:
    try:
        async for event in reply:
            if isinstance(event, StreamEnd):
                ended(event.response)
                break
            yield event
        else:
            raise ProviderConnectionError("the stream ended before its last event")  # noqa: TRY301 - told like any other
    except BaseException as error:
        ended(error)
        raise
    finally:
        await reply.aclose()
    yield event
