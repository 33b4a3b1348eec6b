"""Which provider is asked, and in which order."""

import pytest

from offbook import AllProvidersFailedError, InputError, MemorySink, ProviderGateway, RetryPolicy
from offbook.errors import NoProviderError
from offbook.events import AttemptStarted, CallEnded, FallbackTaken
from tests.gateway.parts import OK, Steady, ask, failure, gateway_of, refusal, request, run, scripted

ONCE = RetryPolicy(max_retries=0)


def order_of(gateway, model="m"):
    """The providers that a call of `model` asks, when each of them refuses."""

    async def scene():
        error = await refusal(ask(gateway, request(model=model)))
        assert isinstance(error, AllProvidersFailedError)
        return [attempt.provider for attempt in error.attempts]

    return run(scene())


def refusing(name):
    return scripted(failure(400), name=name)


@pytest.mark.parametrize(
    ("pattern", "accepted", "left"),
    [
        ("*", "anything", None),
        ("gpt-4o", "gpt-4o", "gpt-4o-mini"),
        ("gpt-*", "gpt-4o-mini", "chatgpt-4o"),
        ("*-mini", "gpt-4o-mini", "gpt-4o"),
        ("o?", "o3", "o3-pro"),
        ("[go]*", "o3", "claude"),
        ("gpt-*", "gpt-", "GPT-4o"),
    ],
)
def test_a_provider_takes_the_models_that_its_pattern_fits(pattern, accepted, left):
    gateway = ProviderGateway()
    gateway.register(Steady(), models=[pattern])
    assert run(ask(gateway, request(model=accepted))) == OK
    if left is not None:
        with pytest.raises(NoProviderError, match=left):
            run(ask(gateway, request(model=left)))


def test_a_provider_may_take_several_patterns():
    gateway = ProviderGateway()
    gateway.register(Steady(), models=["gpt-*", "o3"])
    assert [run(ask(gateway, request(model=model))) for model in ("gpt-5", "o3")] == [OK, OK]


def test_lower_priority_comes_first():
    gateway = ProviderGateway(retry=ONCE)
    for name, priority in (("last", 7), ("second", 0), ("first", -1)):
        gateway.register(refusing(name), priority=priority)
    assert order_of(gateway) == ["first", "second", "last"]


def test_of_equal_priority_the_one_registered_first_comes_first():
    assert order_of(gateway_of(*map(refusing, "cab"), retry=ONCE)) == ["c", "a", "b"]


def test_a_fallback_comes_after_all_that_are_none_whatever_its_priority():
    gateway = ProviderGateway(retry=ONCE)
    gateway.register(refusing("fallback 2"), is_fallback=True, priority=1)
    gateway.register(refusing("fallback 1"), is_fallback=True, priority=-9)
    gateway.register(refusing("b"), priority=100)
    gateway.register(refusing("a"))
    assert order_of(gateway) == ["a", "b", "fallback 1", "fallback 2"]


def test_only_providers_that_take_the_model_are_fallen_back_to():
    gateway = ProviderGateway(retry=ONCE)
    gateway.register(refusing("gpt"), models=["gpt-*"])
    gateway.register(refusing("claude"), models=["claude-*"])
    gateway.register(refusing("any"), is_fallback=True)
    assert order_of(gateway, "claude-5") == ["claude", "any"]


def test_a_provider_is_asked_for_the_model_by_the_name_it_knows():
    sink, first, second = MemorySink(), refusing("first"), Steady("second")
    gateway = ProviderGateway(retry=ONCE, sink=sink)
    gateway.register(first)
    gateway.register(second, as_model="llama3:70b", is_fallback=True)
    run(ask(gateway, request(model="gpt-5")))
    assert [each.model for each in (*first.requests, *second.requests)] == ["gpt-5", "llama3:70b"]
    assert [event.model for event in sink.events if isinstance(event, AttemptStarted)] == ["gpt-5", "llama3:70b"]


def test_a_model_that_nobody_takes_is_an_input_error_that_names_what_is_registered():
    sink = MemorySink()
    gateway = ProviderGateway(sink=sink)
    gateway.register(Steady("openai"), models=["gpt-*", "o3"])
    gateway.register(Steady("anthropic"), models=["claude-*"])
    error = run(refusal(ask(gateway, request(model="gemini-3"))))
    assert isinstance(error, NoProviderError)
    assert isinstance(error, InputError)
    assert "'gemini-3'" in error.reason
    assert error.hint == "registered: openai: gpt-*, o3; anthropic: claude-*"
    assert sink.events == []


def test_an_empty_gateway_says_so():
    assert run(refusal(ask(ProviderGateway()))).hint == "gateway.register(provider) first"


def test_a_provider_registered_later_is_asked_too():
    gateway = ProviderGateway(retry=ONCE)
    gateway.register(scripted(OK, failure(400), name="early"))
    assert run(ask(gateway)) == OK
    gateway.register(refusing("late"))
    assert order_of(gateway) == ["early", "late"]


def test_providers_of_one_name_are_numbered():
    sink = MemorySink()
    gateway = gateway_of(*(refusing("openai") for _ in range(3)), retry=ONCE, sink=sink)
    assert order_of(gateway) == ["openai", "openai-2", "openai-3"]
    assert list(gateway.breakers) == ["openai", "openai-2", "openai-3"]
    fallbacks = [(event.provider, event.to) for event in sink.events if isinstance(event, FallbackTaken)]
    assert fallbacks == [("openai", "openai-2"), ("openai-2", "openai-3")]


def test_a_number_that_is_taken_is_not_given_again():
    names = ["a-2", "a", "a", "a", "a-2"]
    gateway = gateway_of(*map(refusing, names), retry=ONCE)
    assert order_of(gateway) == ["a-2", "a", "a-3", "a-4", "a-2-2"]
    assert len(gateway.breakers) == len(names)


def test_the_call_ends_with_the_provider_that_answered():
    sink = MemorySink()
    run(ask(gateway_of(refusing("a"), Steady("b"), retry=ONCE, sink=sink)))
    (ended,) = [event for event in sink.events if isinstance(event, CallEnded)]
    assert ended.provider == "b"
    assert ended.model == "m"
    assert ended.error is None
