"""The conveniences that every provider has on top of `send` and `close`."""

import pytest

from offbook.errors import ProviderError, RequestError
from offbook.messages import Message, Response, StreamEnd, TextDelta, WholeReply
from offbook.providers.provider import Provider

HI = [{"role": "user", "content": "Hi"}]
HELLO = Response(content="Hello.")
TOOLS = [{"type": "function", "function": {"name": "get"}}]


class Fake(Provider):
    """Answers everything with `HELLO`, or raises; keeps the requests and counts its closings."""

    def __init__(self, error=None):
        self.error = error
        self.requests = []
        self.closings = 0

    async def send(self, request):
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return WholeReply(HELLO)

    async def close(self):
        self.closings += 1


class Bare(Provider):
    """Implements no more than it must."""

    async def send(self, request):
        return WholeReply(HELLO)


async def test_complete_gives_the_response():
    fake = Fake()
    assert await fake.complete(HI, "m") is HELLO
    (request,) = fake.requests
    assert (request.messages, request.model, request.stream) == (tuple(HI), "m", False)


async def test_stream_gives_the_reply():
    fake = Fake()
    events = [event async for event in await fake.stream(HI, "m")]
    assert events == [TextDelta("Hello."), StreamEnd(HELLO)]
    assert fake.requests[0].stream is True


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_every_option_reaches_the_request(ask):
    fake = Fake()
    await getattr(fake, ask)(
        HI,
        "m",
        temperature=0.5,
        max_tokens=9,
        tools=TOOLS,
        tool_choice="auto",
        extra={"seed": 7},
        step_id="s",
        attempt=2,
    )
    (request,) = fake.requests
    assert (request.temperature, request.max_tokens, request.tools) == (0.5, 9, tuple(TOOLS))
    assert (request.tool_choice, request.extra, request.step_id, request.attempt) == ("auto", {"seed": 7}, "s", 2)


async def test_an_option_that_is_none_is_as_good_as_absent():
    absent, none = Fake(), Fake()
    await absent.complete(HI, "m")
    await none.complete(HI, "m", temperature=None, max_tokens=None, tools=None, tool_choice=None, step_id=None)
    assert absent.requests == none.requests


async def test_messages_may_be_message_values_in_a_tuple():
    fake = Fake()
    await fake.complete((Message("system", "Be brief."), Message("user", "Hi")), "m")
    assert fake.requests[0].messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})


async def test_the_request_is_not_changed_by_what_happens_to_the_list_later():
    fake = Fake()
    messages, tools = list(HI), list(TOOLS)
    await fake.complete(messages, "m", tools=tools)
    messages.append({"role": "user", "content": "more"})
    tools.clear()
    assert (fake.requests[0].messages, fake.requests[0].tools) == (tuple(HI), tuple(TOOLS))


@pytest.mark.parametrize("option", ["temprature", "stream", "n"])
@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_an_unknown_option_is_a_type_error_that_names_it(ask, option):
    fake = Fake()
    with pytest.raises(TypeError, match=option):
        await getattr(fake, ask)(HI, "m", **{option: 1})
    assert fake.requests == []


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_messages_given_as_text_are_refused(ask):
    fake = Fake()
    with pytest.raises(RequestError, match="messages must be a list"):
        await getattr(fake, ask)("Hi", "m")
    assert fake.requests == []


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_what_send_raises_is_raised(ask):
    error = ProviderError("overloaded")
    with pytest.raises(ProviderError) as caught:
        await getattr(Fake(error), ask)(HI, "m")
    assert caught.value is error


async def test_leaving_the_context_closes_the_provider_whatever_happened():
    fake = Fake()
    async with fake as entered:
        assert entered is fake
        assert fake.closings == 0
    assert fake.closings == 1
    with pytest.raises(ZeroDivisionError):
        async with fake:
            raise ZeroDivisionError
    assert fake.closings == 2


async def test_a_provider_that_holds_nothing_can_be_closed():
    async with Bare() as bare:
        assert bare.name == "provider"
        assert await bare.complete(HI, "m") is HELLO
    await bare.close()


def test_complete_sync_and_close_sync_do_the_same_without_a_loop():
    fake = Fake()
    assert fake.complete_sync(HI, "m", temperature=0.5) is HELLO
    assert fake.requests[0].temperature == 0.5
    fake.close_sync()
    assert fake.closings == 1


def test_complete_sync_raises_what_send_raises():
    with pytest.raises(ProviderError, match="overloaded"):
        Fake(ProviderError("overloaded")).complete_sync(HI, "m")
    with pytest.raises(RequestError):
        Fake().complete_sync("Hi", "m")
