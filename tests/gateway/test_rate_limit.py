"""The rate limiter: calls wait until there is room for them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import BreakerPolicy, InputError, ProviderGateway, RateLimit, Response, RetryPolicy, TextDelta, Usage
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    now_s,
    outcome,
    refusal,
    request,
    run,
    scripted,
    words,
)

ONCE = RetryPolicy(max_retries=0)


def limited(provider, **options):
    """A gateway around one provider that takes so much in a minute."""
    limit = {name: options.pop(name) for name in ("requests_per_minute", "tokens_per_minute") if name in options}
    gateway = ProviderGateway(retry=ONCE, **options)
    gateway.register(provider, rate_limit=RateLimit(**limit))
    return gateway


def used(tokens):
    """A response that cost so many tokens."""
    return Response("fine", usage=Usage.of(tokens, 0))


def sized(tokens, **fields):
    """A request that is estimated at so many tokens."""
    return request(text="", max_tokens=tokens, **fields)


def times_of(provider, *requests):
    """When a provider is asked, if all calls are made at once."""

    async def scene():
        await asyncio.gather(*(ask(provider[0], one) for one in requests))
        return provider[1].asked_s

    return run(scene())


def limited_steady(*, answer=OK, **limits):
    provider = Steady(answer=answer)
    return limited(provider, **limits), provider


class TestRequests:
    def test_a_minute_s_worth_goes_at_once_and_the_rest_evenly(self):
        times = times_of(limited_steady(requests_per_minute=6), *[request()] * 10)
        assert times == pytest.approx([0, 0, 0, 0, 0, 0, 10, 20, 30, 40])

    def test_a_pause_makes_room_but_no_more_than_for_a_minute(self):
        async def scene():
            gateway, provider = limited_steady(requests_per_minute=2)
            await asyncio.gather(*(ask(gateway) for _ in range(2)))
            await asyncio.sleep(3600.0)
            await asyncio.gather(*(ask(gateway) for _ in range(3)))
            return provider.asked_s

        assert run(scene()) == pytest.approx([0, 0, 3600, 3600, 3630])

    def test_less_than_one_a_minute_is_a_rate_too(self):
        assert times_of(limited_steady(requests_per_minute=0.5), *[request()] * 3) == pytest.approx([0, 120, 240])

    def test_failed_calls_count(self):
        async def scene():
            gateway = limited(scripted(failure(), OK), requests_per_minute=1)
            await refusal(ask(gateway))
            await ask(gateway)
            return now_s()

        assert run(scene()) == pytest.approx(60.0)

    def test_every_try_counts(self):
        async def scene():
            gateway = limited(scripted(failure(), OK), requests_per_minute=1)
            await ask(gateway.using(retry=RetryPolicy(max_retries=1)))
            return now_s()

        assert run(scene()) == pytest.approx(60.0)


def test_callers_go_in_the_order_in_which_they_came():
    async def scene():
        gateway, provider = limited_steady(requests_per_minute=1)

        async def later(number):
            await asyncio.sleep(number * 0.001)
            await ask(gateway, request(f"step {number}"))

        await asyncio.gather(*map(later, [3, 0, 4, 1, 2]))
        return [each.step_id for each in provider.requests]

    assert run(scene()) == [f"step {number}" for number in range(5)]


def test_a_small_call_does_not_overtake_a_large_one():
    async def scene():
        gateway, provider = limited_steady(tokens_per_minute=100)
        requests = [sized(100, step_id="first"), sized(90, step_id="large"), sized(1, step_id="small")]
        await asyncio.gather(*(ask(gateway, one) for one in requests))
        return [one.step_id for one in provider.requests]

    assert run(scene()) == ["first", "large", "small"]


@pytest.mark.parametrize("leaver", [1, 2])
def test_a_caller_that_leaves_while_it_waits_gives_its_place_back(leaver):
    async def scene():
        gateway, provider = limited_steady(requests_per_minute=1)
        calls = [asyncio.create_task(ask(gateway, request(f"step {number}"))) for number in range(4)]
        await asyncio.sleep(30.0)
        calls[leaver].cancel()
        await asyncio.wait(calls)
        left = [f"step {number}" for number in range(4) if number != leaver]
        assert [each.step_id for each in provider.requests] == left
        return provider.asked_s

    assert run(scene()) == pytest.approx([0, 60, 120])


class TestTokens:
    def test_calls_wait_for_the_tokens_they_may_cost(self):
        times = times_of(limited_steady(answer=used(50), tokens_per_minute=100), *[sized(50)] * 4)
        assert times == pytest.approx([0, 0, 30, 60])

    def test_text_counts_by_its_length(self):
        requests = [request(text="x" * 200)] * 4
        times = times_of(limited_steady(answer=used(50), tokens_per_minute=100), *requests)
        assert times == pytest.approx([0, 0, 30, 60])

    @pytest.mark.parametrize(("really", "times"), [(10, [0, 6, 12]), (100, [0, 60, 120]), (190, [0, 114, 228])])
    def test_what_was_really_used_is_settled(self, really, times):
        """With an estimate of 100 of 100 a minute, each call waits until what the last one used has come in again."""

        async def scene():
            gateway, provider = limited_steady(answer=used(really), tokens_per_minute=100)
            for _ in range(3):
                await ask(gateway, sized(100))
            return provider.asked_s

        assert run(scene()) == pytest.approx(times)

    def test_whoever_waits_profits_from_what_is_given_back(self):
        times = times_of(limited_steady(answer=used(10), tokens_per_minute=100), *[sized(100)] * 3)
        assert times == pytest.approx([0, 6, 12])

    def test_what_a_stream_used_is_settled_when_it_has_ended(self):
        async def scene():
            script = [TextDelta("one"), 3.0, used(10)]
            gateway = limited(scripted(script, OK), tokens_per_minute=100)
            reply = await gateway.send(sized(100, stream=True))
            await reply.collect()
            assert now_s() == 3.0
            await ask(gateway, sized(100))
            return now_s()

        assert run(scene()) == pytest.approx(6.0)

    @pytest.mark.parametrize("usage", [Usage(40, 60, 0), Usage(0, 0, 100), Usage(40, 60, 100)], ids=str)
    def test_a_total_that_is_not_reported_is_the_sum(self, usage):
        answer = Response("fine", usage=usage)
        assert times_of(limited_steady(answer=answer, tokens_per_minute=100), *[sized(90)] * 2) == pytest.approx(
            [0, 54]
        )

    def test_a_provider_that_does_not_tell_is_taken_to_have_used_what_was_estimated(self):
        answer = Response("fine")
        times = times_of(limited_steady(answer=answer, tokens_per_minute=100), *[sized(100)] * 3)
        assert times == pytest.approx([0, 60, 120])

    @pytest.mark.parametrize("error", [failure(), ConnectionResetError("reset"), ValueError("no prompt")])
    def test_a_call_that_fails_has_used_nothing(self, error):
        async def scene():
            gateway = limited(scripted(error, error, OK), tokens_per_minute=100)
            for _ in range(3):
                await outcome(ask(gateway, sized(100)))
            return now_s()

        assert run(scene()) == 0.0

    def test_use_beyond_the_estimate_after_a_pause_is_not_forgotten(self):
        async def scene():
            gateway = limited(scripted([120.0, used(100)], OK), tokens_per_minute=100)
            await ask(gateway, sized(0))
            await ask(gateway, sized(100))
            return now_s()

        assert run(scene()) == pytest.approx(180.0)

    def test_a_call_that_is_larger_than_a_minute_s_worth_gets_through(self):
        async def scene():
            gateway, provider = limited_steady(answer=used(300), tokens_per_minute=100)
            for tokens in (50, 300, 1):
                await ask(gateway, sized(tokens))
            return provider.asked_s

        assert run(scene()) == pytest.approx([0, 180, 300.6])

    def test_the_slower_of_both_limits_counts(self):
        requests = [sized(10), sized(10), sized(80), sized(10)]
        times = times_of(limited_steady(answer=used(10), requests_per_minute=2, tokens_per_minute=100), *requests)
        assert times == pytest.approx([0, 0, 30, 60])


def test_an_open_breaker_refuses_without_a_wait_for_a_slot():
    async def scene():
        gateway = limited(scripted(failure(), OK), requests_per_minute=1, breaker=BreakerPolicy(failures=1))
        await refusal(ask(gateway))
        await refusal(ask(gateway))
        return now_s()

    assert run(scene()) == 0.0


def test_a_stream_that_is_abandoned_keeps_its_estimate():
    async def scene():
        gateway = limited(scripted(words("one"), OK), tokens_per_minute=100)
        await (await gateway.send(sized(100, stream=True))).aclose()
        await ask(gateway, sized(100))
        return now_s()

    assert run(scene()) == pytest.approx(60.0)


def test_a_limit_holds_on_one_event_loop_after_another():
    """On a virtual loop time starts at zero again, and the queue must not be bound to the first."""
    gateway, provider = limited_steady(requests_per_minute=1)

    async def crowd():
        await asyncio.gather(*(ask(gateway) for _ in range(3)))

    run(crowd())
    run(crowd())
    assert provider.asked_s == pytest.approx([0, 60, 120, 60, 120, 180])


def test_a_late_hour_makes_no_wait_endless():
    """Far from zero the clock's steps are coarse: a wait that it cannot tell must not be waited for again and again."""

    async def scene():
        gateway, provider = limited_steady(requests_per_minute=7)
        await asyncio.sleep(1e7)
        await asyncio.gather(*(ask(gateway) for _ in range(30)))
        return len(provider.asked_s)

    assert run(scene()) == 30


@given(
    per_minute=st.floats(0.5, 1000.0),
    pauses_s=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=40),
)
def test_no_span_of_time_sees_more_than_the_bucket_and_what_flowed_in(per_minute, pauses_s):
    async def scene():
        gateway, provider = limited_steady(requests_per_minute=per_minute)
        calls = []
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            calls.append(asyncio.create_task(ask(gateway)))
        await asyncio.gather(*calls)
        return provider.asked_s

    times = run(scene())
    assert times == sorted(times)
    for first, from_s in enumerate(times):
        for last, to_s in enumerate(times[first:], first):
            room = max(per_minute, 1.0) + per_minute * (to_s - from_s) / 60.0
            assert last - first + 1 <= room + 0.001


@pytest.mark.parametrize("field", ["requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_that_makes_no_sense_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(InputError, match=f"^{field}: expected"):
        RateLimit(**{field: value})


def test_a_limit_of_nothing_limits_nothing():
    assert times_of(limited_steady(), *[request()] * 50) == [0.0] * 50


def test_a_limit_is_its_provider_s_alone():
    async def scene():
        gateway = gateway_of(retry=ONCE)
        gateway.register(scripted(failure(400), failure(400), name="slow"), rate_limit=RateLimit(requests_per_minute=1))
        gateway.register(Steady("quick"))
        await asyncio.gather(ask(gateway), ask(gateway, request("other")))
        return now_s()

    assert run(scene()) == pytest.approx(60.0)
