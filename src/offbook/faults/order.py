"""Order faults: a delayed answer, a cancelled call, a result delivered twice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, cast

from offbook.errors import InputError
from offbook.faults.fault import CallTarget, Count, DeclaredFault, FaultFamily, FaultVariant, Hold, join_words
from offbook.messages import Reply, StreamEvent

if TYPE_CHECKING:
    import asyncio

    from offbook.faults.fault import FaultedCall
    from offbook.faults.site import Site, ToolSite
    from offbook.faults.tools import EndedCall, FaultedToolCall

IDLE_S = 0.001
"""The quiet time after which a run counts as idle in virtual time, which does not pass before."""

QUIET_S = 0.5
"""The quiet time for a program, whose clock may be real: no other call has started or ended meanwhile."""

MAX_HOLD_S = 5.0
"""The longest hold of an answer after the last event, if its target is under way."""


CallPlace: TypeAlias = "Site | ToolSite"
Wait: TypeAlias = "Callable[[asyncio.Future[None], float], Awaitable[None]]"
"""Waits until a future is done, or until this time has passed, in seconds."""


async def wait_on_loop(future: asyncio.Future[None], wait_s: float) -> None:
    import asyncio  # noqa: PLC0415 - where this runs, it is loaded

    await asyncio.wait([future], timeout=wait_s)


class OrderFault(DeclaredFault, frozen=True):
    """Changes the order of events, not their content. It can fire at model and tool calls.

    Only a plan can have it: a recorded exchange knows no other call.
    """

    family: ClassVar[FaultFamily] = "order"
    fits_any_call: ClassVar[bool] = True
    runs_tool: ClassVar[bool] = True
    wait_s: ClassVar[float] = 0.0

    @property
    def unmet(self) -> str:
        """The reason why it changed nothing, or ""."""
        return ""

    async def apply(self, call: FaultedCall) -> Reply:
        """Let a model call happen in this order."""
        return cast("Reply", await self.reorder(call.clean, call.hold))

    async def apply_to_tool(self, call: FaultedToolCall) -> object:
        """Let a tool call happen in this order."""
        return await self.reorder(call.run, call.hold)

    def outcome(self, call: EndedCall) -> object:
        """Return the result unchanged: nothing else can happen during a synchronous tool's call."""
        return call.result

    @abstractmethod
    async def reorder(self, answer: Callable[[], Awaitable[object]], hold: Hold) -> object:
        """Await the answer, and return it."""


class HeldUntil(OrderFault, frozen=True, tag="held_until"):
    """Holds the answer until another call has ended: `call`, of a `step` or of a `tool`; else until the run is idle."""

    tool: str = ""
    step: str = ""
    call: Count = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("held_until", cls(), is_optional=True, needs_overlap=True),)

    @property
    def target(self) -> CallTarget:
        return CallTarget(self.tool, self.step, self.call)

    @property
    def unmet(self) -> str:
        of = f" of {self.tool or self.step}" if self.tool or self.step else ""
        return f"call {self.call}{of} did not end while the answer was held" if self.call else ""

    @classmethod
    def example(cls, field: str = "") -> dict[str, Any]:
        return super().example(field) | super().example("call")

    @classmethod
    def _line(cls, words: Iterable[tuple[str, str]]) -> str:
        """Return it on one line, with the names of all fields: `held_until tool=search call=2`."""
        return join_words([("", "held_until"), *words])

    def check(self) -> None:
        if self.tool and self.step:
            raise InputError("a call belongs to a tool or to a step", place="step")
        if not self.call and (self.tool or self.step):
            reason = f"which call of {self.tool or self.step!r} is not said"
            raise InputError(reason, place="call")

    async def reorder(self, answer: Callable[[], Awaitable[object]], hold: Hold) -> object:
        try:
            return await answer()
        finally:
            await hold(self.target)


class DeliveredTwice(OrderFault, frozen=True, tag="delivered_twice"):
    """Delivers an MCP server's answer twice, under the same id. In this process, a call returns once."""

    fits_any_call: ClassVar[bool] = False
    is_for_tools: ClassVar[bool] = True

    @property
    def unmet(self) -> str:
        return "only an MCP server can deliver an answer twice; a function returns once"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("delivered_twice", cls(), is_optional=True, http_only=True),)

    async def reorder(self, answer: Callable[[], Awaitable[object]], hold: Hold) -> object:
        return await answer()


class Cancelled(OrderFault, frozen=True, tag="cancelled"):
    """Cancels the run while it waits for a call, as a client that disconnects does: before the call, or `after` it."""

    when: Literal["before", "after"] = "before"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("cancelled", cls(), is_optional=True, in_process_only=True),
            FaultVariant(
                "cancelled after", cls("after"), is_optional=True, in_process_only=True, is_only_for_tools=True
            ),
        )

    async def reorder(self, answer: Callable[[], Awaitable[object]], hold: Hold) -> object:
        if self.when == "before":
            await _cancel_run()
            return await answer()
        result = await answer()
        await _cancel_run()
        return result


run_task: ContextVar[asyncio.Task[Any] | None] = ContextVar("run_task", default=None)
"""The task of the whole run, which `cancelled` cancels; by default, the task that waits for the call."""


async def _cancel_run() -> None:
    """Cancel the run, and let the cancellation arrive here. A shielded call continues."""
    import asyncio  # noqa: PLC0415 - where this runs, it is loaded

    task = run_task.get()
    if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
        task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(IDLE_S)


class OpenCall:
    """A call under way. `outer` are the calls inside which it was made."""

    def __init__(self, place: CallPlace, number: int, outer: tuple[OpenCall, ...]) -> None:
        self.place, self.number, self.outer = place, number, outer
        self.ended = 0


_outer_calls: ContextVar[tuple[OpenCall, ...]] = ContextVar("_outer_calls", default=())


class CallOrder:
    """Tracks the calls of a run under way, and holds answers until another call has ended.

    `overlaps` are the sets of concurrent calls, each in the order in which they ended. Calls of several threads, each
    with its own event loop, may share it. `wait` waits on the run's clock.
    """

    def __init__(self, wait: Wait = wait_on_loop) -> None:
        self.wait = wait
        self._events = 0
        self._open: list[OpenCall] = []
        self._ended: list[CallPlace] = []
        self._held: dict[OpenCall, CallTarget] = {}
        self._sets: list[tuple[OpenCall, ...]] = []
        self._grows = False
        self._wakers: list[Callable[[], object]] = []

    @contextmanager
    def under_way(self, place: CallPlace) -> Iterator[OpenCall]:
        """Note a call that starts now and ends with the block, and the calls inside it."""
        call = self.start(place)
        token = _outer_calls.set((*call.outer, call))
        try:
            yield call
        finally:
            _outer_calls.reset(token)
            self.end(call)

    def start(self, place: CallPlace) -> OpenCall:
        """Note that a call starts. `end` notes its end."""
        self._note_event()
        call = OpenCall(place, self._events, _outer_calls.get())
        self._open.append(call)
        self._grows = True
        return call

    def end(self, call: OpenCall) -> None:
        """Note that a call has got its answer, or has failed."""
        if call not in self._open:
            return
        if self._grows:
            self._sets.append(tuple(self._innermost))
            self._grows = False
        self._open.remove(call)
        self._ended.append(call.place)
        self._note_event()
        call.ended = self._events

    async def until_end(self, reply: Reply, call: OpenCall) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed answer, and note its end."""
        try:
            async for event in reply:
                yield event
        finally:
            self.end(call)

    def holder(self, call: OpenCall, on_unmet: Callable[[], object]) -> Hold:
        """Return the hold on a call's answer. `on_unmet` is called if the other call never ended."""

        async def hold(target: CallTarget) -> None:
            if not await self.hold(call, target):
                on_unmet()

        return hold

    @property
    def overlaps(self) -> list[tuple[CallPlace, ...]]:
        return [
            tuple(call.place for call in sorted(calls, key=lambda call: call.ended))
            for calls in self._sets
            if len(calls) > 1
        ]

    @property
    def _innermost(self) -> list[OpenCall]:
        """The calls under way that do not wait for a call of their own."""
        outer = {each for call in self._open for each in call.outer}
        return [call for call in self._open if call not in outer]

    async def hold(self, call: OpenCall, target: CallTarget) -> bool:
        """Wait until the target has ended, and return whether it has.

        It has not if the rest of the run halts first: all calls under way are held, and this one longest; or if nothing
        has happened for `MAX_HOLD_S`.
        """
        self._held[call] = target
        try:
            while True:
                await self._wait_for_idle()
                if self._has_ended(target):
                    return True
                if self._is_halted and next(iter(self._held)) is call:
                    return not target.call
                if not await self._wait_for_event():
                    return False
        finally:
            del self._held[call]
            self._note_event()

    def _has_ended(self, target: CallTarget) -> bool:
        return bool(target.call) and any(_is_target(place, target) for place in self._ended)

    @property
    def _is_halted(self) -> bool:
        """Whether all calls under way are held, and none of their targets has ended."""
        return all(call in self._held and not self._has_ended(self._held[call]) for call in self._innermost)

    def _note_event(self) -> None:
        self._events += 1
        for wake in list(self._wakers):
            wake()

    async def _wait_for_idle(self) -> None:
        """Wait until no further call starts or ends."""
        import asyncio  # noqa: PLC0415

        is_virtual = getattr(asyncio.get_running_loop(), "is_virtual", False)
        before = -1
        while before != self._events:
            before = self._events
            await self.wait(asyncio.get_running_loop().create_future(), IDLE_S if is_virtual else QUIET_S)

    async def _wait_for_event(self) -> bool:
        """Wait until a call starts or ends, and return whether one has."""
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        event: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not event.done():
                event.set_result(None)

        def wake() -> None:
            loop.call_soon_threadsafe(note)

        self._wakers.append(wake)
        try:
            await self.wait(event, MAX_HOLD_S)
        finally:
            self._wakers.remove(wake)
        return event.done()


def _is_target(place: CallPlace, target: CallTarget) -> bool:
    """Return whether a target is the call at this site."""
    from offbook.faults.site import ToolSite  # noqa: PLC0415 - it needs the catalog, which has these faults

    if isinstance(place, ToolSite):
        return (place.tool, place.call) == (target.tool, target.call)
    if target.tool:
        return False
    return (place.step_id, place.call) == (target.step, target.call) if target.step else place.overall == target.call
