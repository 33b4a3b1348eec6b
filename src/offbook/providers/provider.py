"""The Provider interface that everything is built on, its synchronous calls, and wrappers for any provider."""

from __future__ import annotations

import contextvars
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from offbook.clock import refuse_in_loop
from offbook.messages import (
    JsonObject,
    Message,
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    WholeReply,
    incomplete_stream_error,
    plain_messages,
)

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_local = threading.local()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on this thread's own event loop. The loop stays open, and so do its connections.

    The loop is closed with the thread, or with the program.

    Raises:
        EventLoopError: an event loop is already running in this thread.
    """
    refuse_in_loop(work)
    return _runner().run(work, context=contextvars.copy_context())


def _runner() -> asyncio.Runner:
    import asyncio  # noqa: PLC0415 - loading it takes as long as half of offbook

    runner: asyncio.Runner | None = getattr(_local, "runner", None)
    if runner is None:
        runner = _local.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        weakref.finalize(runner, _close_loop, runner.get_loop())
    return runner


def _close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Close an unused loop, unless it is running in a daemon thread that the exit of the program stops."""
    if not loop.is_running():
        loop.close()


class CallOptions(TypedDict, total=False):
    """The options of a call.

    Attributes:
        temperature, max_tokens: None means the provider's default.
        tools: function tools in the OpenAI chat format.
        tool_choice: `auto`, `none`, `required`, or an object that names one function, as in the OpenAI format.
        extra: further parameters of the provider's own protocol, sent unchanged.
        step_id: names this call in a recording.
        attempt: the number of the attempt of this call, from 1.
    """

    temperature: float | None
    max_tokens: int | None
    tools: Sequence[JsonObject] | None
    tool_choice: str | JsonObject | None
    extra: Mapping[str, Any]
    step_id: str | None
    attempt: int


def _request(messages: Sequence[JsonObject | Message], model: str, options: CallOptions, *, stream: bool) -> Request:
    fields: dict[str, Any] = {**options, "tools": tuple(options.get("tools") or ())}
    return Request(plain_messages(messages), model, stream=stream, **fields)


class Provider(ABC):
    """Anything that answers requests: HTTP, replay, recorder, fault injector, gateway.

    A subclass implements `send` and, if it holds resources, `close`. `complete`, `stream` and their synchronous
    versions are built on those two and are never overridden.
    """

    name: str = "provider"
    credentials: tuple[str, ...] = ()
    """The secrets that it sends with requests. A recorder removes them wherever they appear."""

    @abstractmethod
    async def send(self, request: Request) -> Reply:
        """Answer `request`.

        Raises:
            ProviderError: the call failed before its first event.
        """

    def check_price(self, request: Request) -> None:
        """Check that the cost of `request` will be known, as a budget in US dollars requires.

        The default does nothing: replays have recorded costs, and other providers report their own.

        Raises:
            InputError: no price is known for the model.
        """

    async def close(self) -> None:
        """Close connections and files. Safe to call twice."""

    async def complete(
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[CallOptions]
    ) -> Response:
        """Return the complete response to `messages`.

        Args:
            messages: plain dicts in the OpenAI chat format, or Message values.
            model: the model's name at its provider.
            options: those of CallOptions, such as `temperature`, `tools` and `step_id`.
        """
        reply = await self.send(_request(messages, model, options, stream=False))
        return reply.response if isinstance(reply, WholeReply) else await reply.collect()

    async def stream(
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[CallOptions]
    ) -> Reply:
        """Return the reply to `messages`, to be iterated over event by event. Arguments as for `complete`."""
        return await self.send(_request(messages, model, options, stream=True))

    def complete_sync(
        self, messages: Sequence[JsonObject | Message], model: str, **options: Unpack[CallOptions]
    ) -> Response:
        """Return the response like `complete`, with the same options, in code without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `complete` there.
        """
        return run_sync(self.complete(messages, model, **options))

    def close_sync(self) -> None:
        """Close the provider like `close`, in code without an event loop."""
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


class WrappedProvider(Provider):
    """Passes requests on to `provider`, under its name. A subclass changes them on the way.

    Closing it leaves the wrapped provider open, unless a subclass closes it.
    """

    def __init__(self, provider: Provider) -> None:
        self.name, self.credentials, self._provider = provider.name, provider.credentials, provider

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(request)

    def check_price(self, request: Request) -> None:
        self._provider.check_price(request)


class PrefixedProvider(WrappedProvider):
    """Passes requests on with `prefix` in front of their step id: each is recorded under its own key."""

    def __init__(self, provider: Provider, prefix: str) -> None:
        super().__init__(provider)
        self._prefix = prefix

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(self._prefixed(request))

    def check_price(self, request: Request) -> None:
        self._provider.check_price(self._prefixed(request))

    def _prefixed(self, request: Request) -> Request:
        return replace(request, step_id=f"{self._prefix}{request.step_id or ''}")


OnEnd: TypeAlias = Callable[[Response | BaseException], None]


def notify_on_end(reply: Reply, ended: OnEnd) -> Reply:
    """Return the reply wrapped: it calls `ended` once, with its response or with the error that broke it.

    A reader that stops early, or never starts, breaks it with a GeneratorExit or CancelledError. A stream that ends
    without its last event breaks with a ProviderConnectionError. The wrapped reply is closed in every case.
    """
    if isinstance(reply, WholeReply):
        ended(reply.response)
        return reply
    return _NotifyingReply(reply, ended)


class _NotifyingReply(StreamedReply):
    """A stream that reports its end, or that it was closed."""

    def __init__(self, reply: Reply, ended: OnEnd) -> None:
        self._ended = _Once(ended)
        super().__init__(_read_and_notify(reply, self._ended), source=reply)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            self._ended(GeneratorExit())


class _Once:
    """Passes on only the first call."""

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
            raise incomplete_stream_error()  # noqa: TRY301 - reported like any other
    except BaseException as error:
        ended(error)
        raise
    finally:
        await reply.aclose()
    yield event
