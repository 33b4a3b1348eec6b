"""Providers that do as they are told, and what tests of recording and replay say again and again."""

import asyncio

from offbook.messages import Response, StreamedReply, StreamEnd, WholeReply
from offbook.providers.provider import Provider


def user(text):
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


async def events_of(reply):
    """All events of a reply."""
    return [event async for event in reply]


async def read_until_broken(reply, note=lambda event: event):
    """What a reply gives until it breaks, each event as `note` has it, and the error that breaks it."""
    noted = []
    try:
        async for event in reply:
            noted.append(note(event))  # noqa: PERF401 - a comprehension would lose them
    except Exception as error:
        return noted, error
    raise AssertionError(f"the stream did not break: {noted}")


class Scripted(Provider):
    """Answers with the outcomes it is given, in order.

    An outcome is a Response, an error to raise, or a list that a stream plays: deltas to yield,
    seconds to wait, an error to raise, and a Response to end with.
    """

    name = "scripted"

    def __init__(self, *outcomes, delay_s=0.0):
        self.outcomes, self.delay_s = list(outcomes), delay_s
        self.requests, self.closed_replies, self.closings = [], 0, 0

    async def send(self, request):
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        await asyncio.sleep(self.delay_s)
        if isinstance(outcome, BaseException):
            raise outcome
        return ScriptedReply(self, outcome) if isinstance(outcome, list) else WholeReply(outcome)

    async def close(self):
        self.closings += 1


class ScriptedReply(StreamedReply):
    """Plays one list of a script."""

    def __init__(self, provider, steps):
        super().__init__(_play(steps))
        self._provider = provider

    async def aclose(self):
        self._provider.closed_replies += 1
        await super().aclose()


async def _play(steps):
    for step in steps:
        match step:
            case float():
                await asyncio.sleep(step)
            case BaseException():
                raise step
            case Response():
                yield StreamEnd(step)
            case _:
                yield step


class Echo(Provider):
    """Answers each request with its last message and the number of the call, so that every answer is unlike others."""

    name = "echo"

    def __init__(self):
        self.requests = []

    async def send(self, request):
        self.requests.append(request)
        text = f"{request.messages[-1]['content']} #{len(self.requests)}"
        return WholeReply(Response(content=text, model=request.model, provider=self.name))
