"""A run in which everything happens that sinks are told of."""

import asyncio

from offbook.agent.context import ContextManager, SlidingWindowCompact
from offbook.errors import AllProvidersFailedError, RecordingMismatchError
from offbook.faults.http import HttpError
from offbook.faults.plan import At, FaultPlan
from offbook.gateway.breaker import BreakerPolicy
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import Request, Response, TextDelta, ToolCall, Usage, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.call_cache import CallCache
from offbook.recording.format.document import Document
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.stores.memory import MemoryReader
from offbook.session.injector import FaultInjector
from offbook.session.provider import MockProvider
from offbook.session.recording_provider import RecordingProvider
from offbook.tools import observe_tools, run_tools
from offbook.workflow import WorkflowBuilder
from tests.agent.transcripts import call
from tests.fakes import user

SLOW_S = 0.75


def request(step_id, text="Hi", *, model="gpt-5", stream=False):
    return Request(tuple(user(text)), model, step_id=step_id, workflow="tour", stream=stream)


UNNAMED = request(None, "Who am I?")
PLAN = FaultPlan(
    [
        At(step_id="flaky", attempt=1).fail(HttpError(status_code=503)),
        At(step_id="lost").fail(HttpError(status_code=401)),
        At(step_id="doomed").fail(HttpError(status_code=500)),
    ]
)
RESPONSES = {
    "steady": {"content": "Here.", "usage": {"prompt_tokens": 100, "completion_tokens": 20}, "cost_usd": 0.25},
    "flaky": {"content": "At last.", "usage": {"prompt_tokens": 10, "completion_tokens": 5}, "cost_usd": 0.5},
    "slow": [{"fault": {"type": "timeout", "after_ms": 2000}}, {"content": "Sorry."}],
    fingerprint(UNNAMED): {"content": "A request without a step."},
}


class Replayed(MockProvider):
    name = "openai"


class Shaky(MockProvider):
    name = "shaky"


class Slow(Provider):
    """A model that answers everything, in pieces if asked, and takes its time."""

    name = "anthropic"

    async def send(self, request):
        await asyncio.sleep(SLOW_S)
        return WholeReply(Response("Instead.", request.model, self.name, Usage.of(7, 3), cost_usd=0.125))


class Shared:
    """A recording that others write to, of which one exchange has expired. A call can be made at the second request."""

    goes_on_live = False

    def __init__(self):
        self.reader = MemoryReader(Document(), source="shared")
        self.reader.gone, self.reader.tools.gone = 1, 0
        self._is_free = iter([False, True])

    def acquire(self, call):
        return next(self._is_free)


async def look_up(sink):
    """A wait, a miss and a hit."""
    cache = CallCache(Shared(), sink=sink)
    await cache.turn("call", lambda: False)
    cache.note_hit()


async def wait(fails: bool = False) -> str:
    await asyncio.sleep(SLOW_S)
    if fails:
        raise ValueError("late")
    return "done"


async def drive(sink, folder):
    """Answers, a retry, a recorded fault, a recorded fallback, two misses, an open breaker, a context that is full."""
    gateway = ProviderGateway(
        retry=RetryPolicy(max_retries=1), breaker=BreakerPolicy(failures=3, reset_s=3600.0), sink=sink
    )
    replayed = Replayed(responses=RESPONSES, sink=sink)
    gateway.register(FaultInjector(replayed, PLAN, sink=sink), models=["gpt-*"])
    gateway.register(RecordingProvider(Slow(), folder / "slow.json", sink=sink), models=["gpt-*"], is_fallback=True)
    gateway.register(FaultInjector(Shaky(sink=sink), PLAN, sink=sink), models=["shaky"])
    async with gateway:
        for each in (*map(request, ("steady", "flaky", "slow", "lost", "unheard")), UNNAMED):
            await (await gateway.send(each)).collect()
        for _ in range(2):
            await refused(gateway, request("doomed", model="shaky"), AllProvidersFailedError)
    strict = MockProvider(responses={"_version": 2}, strict=True, sink=sink)
    await refused(strict, request("unheard"), RecordingMismatchError)
    await look_up(sink)
    await run_tools(observe_tools([wait], sink), [ToolCall("wait", {}), ToolCall("wait", {"fails": True})])
    flow = WorkflowBuilder("tour", model="m").llm_call("ask", "Hi").llm_call("then", "Ho", depends_on=["ask"])
    await flow.engine(
        MockProvider(responses={"ask": {"fault": {"type": "http_error", "status_code": 400}}}), sink=sink
    ).run()
    ContextManager(SlidingWindowCompact(1), 20, sink=sink).maybe_compact([*call("It rains."), *call("It pours.")])


async def refused(provider, each, error):
    """Send a request that must fail."""
    try:
        await provider.send(each)
    except error:
        return
    raise AssertionError(f"{each.step_id} was answered")


async def abandon(gateway, each):
    """Read the first piece of a stream and leave."""
    reply = await gateway.send(each)
    assert isinstance(await anext(aiter(reply)), TextDelta)
    await reply.aclose()
