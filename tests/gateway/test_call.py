"""What a call that fails tells: every try, in order."""

import asyncio
import pickle

import pytest

from offbook import (
    AllProvidersFailedError,
    At,
    BreakerPolicy,
    FaultInjector,
    FaultPlan,
    MemorySink,
    MockProvider,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    Response,
    RetryPolicy,
    StreamEnd,
    TextDelta,
    ToolCall,
)
from offbook.errors import BreakerOpenError, MalformedResponseError, StreamInterruptedError
from offbook.events import AttemptEnded, CallEnded
from offbook.faults import StreamStall, StreamTruncate
from offbook.messages import ReasoningDelta, StreamRestart, ToolCallDelta
from tests.fakes import events_of, read_until_broken
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    kinds_of,
    mock,
    no_generator_left,
    now_s,
    refusal,
    request,
    run,
    scripted,
    texts_of,
    waits_of,
    words,
)

EXACT = RetryPolicy(max_retries=2, jitter=0.0)


def failed(*providers, **options):
    error = run(refusal(ask(gateway_of(*providers, **options))))
    assert isinstance(error, AllProvidersFailedError)
    return error


def test_the_attempts_tell_provider_number_error_and_wait_of_every_try():
    errors = [failure(500), RateLimitError("slow", retry_after_s=7.0), failure(503), failure(400), failure(401)]
    first = scripted(*errors[:3], name="a")
    error = failed(first, scripted(errors[3], name="b"), scripted(errors[4], name="c"), retry=EXACT)
    assert error.attempts == (
        ("a", 1, errors[0], 0.5, ""),
        ("a", 2, errors[1], 7.0, ""),
        ("a", 3, errors[2], 0.0, ""),
        ("b", 1, errors[3], 0.0, ""),
        ("c", 1, errors[4], 0.0, ""),
    )
    assert error.attempts[1].wait_s == 7.0
    assert error.__cause__ is errors[4]


def test_a_wait_that_is_too_long_to_be_granted_is_reported():
    error = failed(scripted(RateLimitError("slow", retry_after_s=300.0), name="a"), retry=EXACT)
    assert "a, attempt 1: slow; it asks to wait 300 s, and max_retry_after_s is 60" in str(error)


def test_it_is_a_failure_with_the_status_headers_and_body_of_the_last_try():
    last = failure(503, headers={"x-request-id": "req_1"}, body="overloaded")
    error = failed(scripted(failure(500)), scripted(last), retry=RetryPolicy(max_retries=0))
    assert isinstance(error, ProviderError)
    assert error.status_code == 503
    assert error.headers == {"x-request-id": "req_1"}
    assert error.body == "overloaded"


def test_without_a_status_at_last_there_is_none():
    error = failed(scripted(failure(500), name="a"), scripted(ProviderConnectionError("cut")), retry=RetryPolicy(0))
    assert error.status_code is None


def test_the_message_reports_every_try_on_a_line_of_its_own():
    error = failed(
        mock({"ask": {"fault": {"type": "http_error", "status_code": 500, "body": "boom"}}}, name="openai"),
        mock({"ask": {"fault": {"type": "connection_reset"}}}, name="anthropic"),
        retry=RetryPolicy(max_retries=1, jitter=0.0),
    )
    assert str(error).splitlines() == [
        "no provider answered, in 4 attempts:",
        "  openai, attempt 1: HTTP 500: boom",
        "  openai, attempt 2: HTTP 500: boom",
        "  anthropic, attempt 1: connection reset",
        "  anthropic, attempt 2: connection reset",
    ]


def test_a_breaker_that_refuses_is_a_try_too():
    gateway = gateway_of(scripted(failure()), retry=RetryPolicy(0), breaker=BreakerPolicy(failures=1))

    async def scene():
        await refusal(ask(gateway))
        return await refusal(ask(gateway))

    (attempt,) = run(scene()).attempts
    assert attempt.provider == "scripted"
    assert attempt.attempt == 1
    assert type(attempt.error) is BreakerOpenError


def test_it_can_cross_to_another_process():
    error = failed(scripted(failure(500)), retry=RetryPolicy(0))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.attempts[0].provider == "scripted"


@pytest.mark.parametrize("options", [1, 4])
def test_attempts_are_counted_by_the_gateway_and_by_provider(options):
    first, second = scripted(failure(), failure(), failure(), name="a"), Steady("b")
    assert run(ask(gateway_of(first, second, retry=EXACT), request(attempt=options))) == OK
    assert [each.attempt for each in first.requests] == [1, 2, 3]
    assert [each.attempt for each in second.requests] == [1]


def test_calls_are_counted_by_workflow_and_step():
    provider = Steady()
    gateway = gateway_of(provider)

    async def scene():
        for step_id, workflow in (("a", ""), ("b", ""), ("a", ""), ("a", "w"), (None, ""), (None, "")):
            await ask(gateway, request(step_id, workflow=workflow))
        await ask(gateway.using(deadline_s=5.0), request("a"))
        await ask(gateway, request("a", call=17))

    run(scene())
    assert [each.call for each in provider.requests] == [1, 1, 2, 1, 1, 2, 3, 17]


STREAM = request(stream=True)
CUT = ProviderConnectionError("cut")


def read(*providers, **options):
    """All that a reader of a stream through a gateway around these providers sees."""

    async def scene():
        return await events_of(await gateway_of(*providers, **options).send(STREAM))

    return run(scene())


def broken(*providers, **options):
    """What a reader sees of a stream that breaks, and the error."""

    async def scene():
        return await read_until_broken(await gateway_of(*providers, **options).send(STREAM))

    return run(scene())


def test_a_stream_comes_as_the_provider_gives_it_with_its_end_last():
    script = [ReasoningDelta("hm"), TextDelta("one"), ToolCallDelta(0, "{}", "call_1", "get"), OK]
    assert read(scripted(script)) == [*script[:-1], StreamEnd(OK)]


def test_a_whole_answer_is_streamed_too():
    assert read(Steady()) == [TextDelta("fine"), StreamEnd(OK)]


def test_an_empty_answer_is_nothing_but_its_end():
    empty = Response(finish_reason="content_filter")
    assert read(scripted([empty])) == [StreamEnd(empty)]
    assert read(Steady(answer=empty)) == [StreamEnd(empty)]


def test_what_comes_after_the_end_is_not_read():
    assert read(scripted([TextDelta("one"), OK, TextDelta("more"), CUT])) == [TextDelta("one"), StreamEnd(OK)]


def test_a_stream_can_be_collected():
    async def scene():
        return await (await gateway_of(scripted(words("one", "two"))).send(STREAM)).collect()

    assert run(scene()) == OK


class TestBeforeTheFirstEvent:
    """As long as nothing has come, a stream fails like any other call."""

    @pytest.mark.parametrize("early", [failure(), [CUT], [1.0, CUT], []], ids=str)
    def test_a_failure_is_retried(self, early):
        sink, provider = MemorySink(), scripted(early, words("one"))
        assert read(provider, retry=EXACT, sink=sink) == [TextDelta("one"), StreamEnd(OK)]
        assert waits_of(sink) == [0.5]
        assert [each.attempt for each in provider.requests] == [1, 2]

    @pytest.mark.parametrize("early", [failure(400), failure(500), [CUT]], ids=str)
    def test_a_failure_falls_back(self, early):
        first, second = scripted(early, early, early, name="a"), scripted(words("one"), name="b")
        assert read(first, second, retry=EXACT) == [TextDelta("one"), StreamEnd(OK)]

    def test_when_all_fail_so_does_sending(self):
        gateway = gateway_of(scripted([CUT], [CUT]), retry=RetryPolicy(max_retries=1))
        error = run(refusal(gateway.send(STREAM)))
        assert isinstance(error, AllProvidersFailedError)
        assert [attempt.error for attempt in error.attempts] == [CUT, CUT]


class TestInterrupted:
    """A stream that breaks after its first event ends, unless it may start over."""

    @pytest.mark.parametrize(
        "cause",
        [CUT, ProviderTimeoutError("silence"), MalformedResponseError("what?"), failure(529), ProviderError("event")],
        ids=repr,
    )
    def test_the_error_reports_what_broke_it(self, cause):
        came, error = broken(scripted([TextDelta("one"), cause]))
        assert came == [TextDelta("one")]
        assert isinstance(error, StreamInterruptedError)
        assert error.__cause__ is cause
        assert error.status_code == cause.status_code
        assert str(cause) in str(error)

    def test_the_error_holds_what_had_come(self):
        script = [
            ReasoningDelta("Let me "),
            ReasoningDelta("see."),
            TextDelta("On"),
            TextDelta("ce"),
            ToolCallDelta(0, '{"city": ', "call_1", "get_weather"),
            ToolCallDelta(1, '{"half', "call_2", "get_time"),
            ToolCallDelta(0, '"Oslo"}'),
            CUT,
        ]
        came, error = broken(scripted(script, name="a"))
        assert came == script[:-1]
        assert error.partial == Response(
            content="Once",
            model="m",
            provider="a",
            finish_reason=None,
            tool_calls=(
                ToolCall("get_weather", {"city": "Oslo"}, "call_1"),
                ToolCall("get_time", id="call_2", raw_arguments='{"half'),
            ),
            reasoning="Let me see.",
        )

    def test_a_stream_that_just_ends_is_interrupted(self):
        came, error = broken(scripted([TextDelta("one")]))
        assert came == [TextDelta("one")]
        assert isinstance(error.__cause__, ProviderConnectionError)
        assert error.partial.content == "one"

    def test_nobody_else_is_asked(self):
        provider, second = scripted([TextDelta("one"), CUT], words("two")), Steady()
        broken(provider, second, retry=EXACT)
        assert len(provider.requests) == 1
        assert second.requests == []

    def test_a_plan_can_break_it_at_any_place(self):
        async def scene(chunk):
            plan = FaultPlan([At(step_id="ask", chunk=chunk).fail(StreamTruncate())])
            provider = mock({"ask": {"content": "one two three four"}})
            reply = await gateway_of(FaultInjector(provider, plan)).send(STREAM)
            came, error = await read_until_broken(reply)
            return len(came), error.partial.content

        found = [run(scene(chunk)) for chunk in (1, 2, 3)]
        assert found == [(1, "one"), (2, "one two"), (3, "one two three")]

    def test_a_stall_is_waited_for(self):
        plan = FaultPlan([At(chunk=1).fail(StreamStall(for_ms=30_000))])

        async def scene():
            reply = await gateway_of(FaultInjector(mock({"ask": {"content": "one two"}}), plan)).send(STREAM)
            return texts_of(await events_of(reply)), now_s()

        assert run(scene()) == (["one", " two"], 30.0)

    def test_collecting_raises_it_too(self):
        async def scene():
            reply = await gateway_of(scripted([TextDelta("one"), CUT])).send(STREAM)
            return await refusal(reply.collect())

        assert run(scene()).partial.content == "one"

    def test_what_is_no_failure_of_a_provider_passes_as_it_is(self):
        _, error = broken(scripted([TextDelta("one"), ValueError("a bug")]), restart_streams=True)
        assert type(error) is ValueError

    def test_the_attempt_ends_with_the_cause_and_the_call_with_the_interruption(self):
        sink = MemorySink()
        broken(scripted([TextDelta("one"), CUT]), sink=sink)
        ended = [event.error for event in sink.events if isinstance(event, AttemptEnded | CallEnded)]
        assert ended == ["ProviderConnectionError", "StreamInterruptedError"]


class TestRestarts:
    """A stream that may start over does so from its beginning, and says so."""

    def test_the_reader_is_notified_and_gets_the_whole_new_stream(self):
        sink, provider = MemorySink(), scripted([TextDelta("on"), CUT], words("one", "two"))
        events = read(provider, retry=EXACT, restart_streams=True, sink=sink)
        assert events == [TextDelta("on"), StreamRestart("cut"), *map(TextDelta, ("one", "two")), StreamEnd(OK)]
        assert waits_of(sink) == [0.5]
        assert provider.closed_replies >= 2

    def test_the_next_provider_is_asked_when_the_policy_says_so(self):
        first = scripted(*[[TextDelta("x"), CUT]] * 3, name="a")
        events = read(first, scripted(words("one"), name="b"), retry=EXACT, restart_streams=True)
        assert texts_of(events) == ["x", "x", "x", "one"]
        assert [type(event) for event in events].count(StreamRestart) == 3

    def test_a_cause_that_is_not_worth_a_retry_falls_back_at_once(self):
        async def scene():
            first = scripted([TextDelta("x"), failure(400)], name="a")
            gateway = gateway_of(first, scripted(words("one"), name="b"), restart_streams=True)
            return texts_of(await events_of(await gateway.send(STREAM))), now_s()

        assert run(scene()) == (["x", "one"], 0.0)

    def test_when_all_break_the_error_reports_every_try(self):
        came, error = broken(scripted(*[[TextDelta("x"), CUT]] * 3), retry=EXACT, restart_streams=True)
        assert texts_of(came) == ["x", "x", "x"]
        assert isinstance(error, AllProvidersFailedError)
        assert [(attempt.attempt, attempt.wait_s) for attempt in error.attempts] == [(1, 0.5), (2, 1.0), (3, 0.0)]

    def test_failures_before_and_after_the_first_event_count_together(self):
        provider = scripted(failure(), [TextDelta("x"), CUT], failure())
        came, error = broken(provider, retry=EXACT, restart_streams=True)
        assert texts_of(came) == ["x"]
        assert len(error.attempts) == 3

    def test_an_interruption_behind_it_is_something_to_start_over_from(self):
        """A gateway behind a gateway that does not restart by itself."""
        inner = gateway_of(scripted([TextDelta("x"), CUT], words("one")))
        events = read(inner, retry=EXACT, restart_streams=True)
        assert texts_of(events) == ["x", "one"]

    def test_what_a_gateway_behind_it_started_over_is_not_in_what_had_come(self):
        script = scripted([TextDelta("void"), CUT], [TextDelta("one"), CUT], [TextDelta("two"), CUT])
        inner = gateway_of(script, restart_streams=True, retry=RetryPolicy(max_retries=1))
        came, error = broken(inner)
        assert texts_of(came) == ["void", "one"]
        assert error.partial.content == "one"

    def test_a_collected_stream_is_that_of_the_last_try(self):
        async def scene():
            gateway = gateway_of(scripted([TextDelta("x"), CUT], words("one")), restart_streams=True)
            return await (await gateway.send(STREAM)).collect()

        assert run(scene()) == OK


class TestAbandoned:
    """Whoever stops reading leaves nothing behind."""

    async def start_stream(self, read):
        """A stream of which so many events have been read, its provider, and a sink."""
        sink, provider = MemorySink(), scripted([TextDelta("one"), 1.0, TextDelta("two"), 60.0, OK])
        reply = await gateway_of(provider, sink=sink).send(STREAM)
        for _ in range(read):
            await anext(aiter(reply))
        return reply, provider, sink

    def check(self, sink):
        assert kinds_of(sink) == ["CallStarted", "AttemptStarted", "AttemptEnded", "CallEnded"]
        assert [event.error for event in sink.events[2:]] == ["GeneratorExit", "GeneratorExit"]

    @pytest.mark.parametrize("read", [0, 1, 2])
    def test_closing_it_closes_the_provider_s_and_ends_the_call(self, read):
        async def scene():
            with no_generator_left():
                reply, provider, sink = await self.start_stream(read)
                await reply.aclose()
                await reply.aclose()
                assert provider.closed_replies
                assert asyncio.all_tasks() == {asyncio.current_task()}
            return sink

        self.check(run(scene()))

    @pytest.mark.parametrize("read", [0, 1, 2])
    def test_dropping_it_does_so_too(self, read):
        async def scene():
            reply, provider, sink = await self.start_stream(read)
            del reply
            await asyncio.sleep(0.001)
            assert provider.closed_replies
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return sink

        self.check(run(scene()))

    @pytest.mark.parametrize("read", [0, 1, 2])
    def test_a_whole_answer_that_is_streamed_is_closed_too(self, read):
        async def scene():
            with no_generator_left():
                reply = await gateway_of(Steady()).send(STREAM)
                for _ in range(read):
                    await anext(aiter(reply))
                await reply.aclose()

        run(scene())

    def test_a_reader_that_stops_at_the_end_has_not_abandoned_it(self):
        async def scene():
            sink, provider = MemorySink(), scripted(words("one"))
            reply = await gateway_of(provider, sink=sink).send(STREAM)
            async for event in reply:
                if isinstance(event, StreamEnd):
                    break
            assert provider.closed_replies
            await reply.aclose()
            return sink.events[-1]

        ended = run(scene())
        assert ended.error is None
        assert ended.completion_tokens == 4

    def test_a_closed_stream_has_nothing_more_to_read(self):
        async def scene():
            reply = await gateway_of(scripted(words("one", "two"))).send(STREAM)
            await reply.aclose()
            return await events_of(reply)

        assert run(scene()) == []


def test_a_mock_streams_through_a_gateway_as_it_does_alone():
    responses = {"ask": {"content": "Roses are red", "usage": {"prompt_tokens": 5, "completion_tokens": 3}}}

    async def scene():
        alone = await events_of(await MockProvider(responses=responses).send(STREAM))
        through = await events_of(await gateway_of(MockProvider(responses=responses)).send(STREAM))
        return alone, through

    alone, through = run(scene())
    assert alone == through
