"""What tests of the gateway are made of: named providers, requests, gateways, and how their calls end."""

import asyncio
import gc
import sys
from contextlib import contextmanager

import offbook
from offbook import MockProvider, ProviderGateway, Request, Response, TextDelta, Usage
from offbook.errors import ProviderError
from offbook.events import RetryScheduled
from offbook.messages import WholeReply
from offbook.providers.provider import Provider
from tests.fakes import Scripted, user

OK = Response("fine", "m", "real", Usage.of(3, 4))


def run(work):
    """What `work` gives, in virtual time."""
    return offbook.run(work, virtual_time=True)


def now_s():
    return asyncio.get_running_loop().time()


def request(step_id="ask", text="Hi", *, model="m", stream=False, **fields):
    return Request(tuple(user(text)), model, step_id=step_id, stream=stream, **fields)


def failure(status_code=500, **fields):
    return ProviderError(f"HTTP {status_code}", status_code=status_code, **fields)


def scripted(*outcomes, name="scripted", delay_s=0.0):
    provider = Scripted(*outcomes, delay_s=delay_s)
    provider.name = name
    return provider


def mock(responses, name="mock", **options):
    """A MockProvider of that name."""
    return type("NamedMock", (MockProvider,), {"name": name})(responses=responses, **options)


def gateway_of(*providers, **options):
    """A gateway that asks the providers in this order."""
    gateway = ProviderGateway(**options)
    for provider in providers:
        gateway.register(provider)
    return gateway


class Steady(Provider):
    """Answers everything with `answer` after `delay_s`, and notes when it was asked."""

    def __init__(self, name="steady", *, answer=OK, delay_s=0.0):
        self.name, self.answer, self.delay_s = name, answer, delay_s
        self.asked_s, self.requests = [], []

    async def send(self, request):
        self.asked_s.append(now_s())
        self.requests.append(request)
        await asyncio.sleep(self.delay_s)
        return WholeReply(self.answer)


async def ask(gateway, call=None):
    """The whole response to a request."""
    return await (await gateway.send(call or request())).collect()


async def outcome(work):
    """What `work` gives, or the error that it raises."""
    try:
        return await work
    except Exception as error:
        return error


async def refusal(work):
    """The error that `work` must raise."""
    ended = await outcome(work)
    assert isinstance(ended, Exception), f"no error, but {ended!r}"
    return ended


def waits_of(sink):
    """The waits of all retries, in order."""
    return [event.wait_s for event in sink.events if isinstance(event, RetryScheduled)]


def kinds_of(sink):
    """The names of all events, in order."""
    return [type(event).__name__ for event in sink.events]


def words(*texts, end=OK):
    """A stream of texts with its end."""
    return [*map(TextDelta, texts), end]


def texts_of(events):
    return [event.text for event in events if isinstance(event, TextDelta)]


@contextmanager
def no_generator_left():
    """Fails if a generator that was begun inside is still open at the end, or was left to the garbage collector."""
    opened, dropped = [], []
    hooks = sys.get_asyncgen_hooks()

    def begin(generator):
        opened.append(generator)
        hooks.firstiter(generator)

    def drop(generator):
        dropped.append(generator)
        hooks.finalizer(generator)

    sys.set_asyncgen_hooks(begin, drop)
    gc.freeze()  # so that collecting below looks at what is new alone
    try:
        yield
        assert [generator for generator in opened if generator.ag_frame is not None] == []
        opened.clear()
        gc.collect()
        assert dropped == []
    finally:
        sys.set_asyncgen_hooks(*hooks)
