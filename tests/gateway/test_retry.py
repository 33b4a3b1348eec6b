"""When a call is tried again, and after what wait."""

import asyncio

import pytest

from offbook import (
    AllProvidersFailedError,
    At,
    BreakerPolicy,
    FaultInjector,
    FaultPlan,
    InputError,
    MemorySink,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RecordingMismatchError,
    RetryPolicy,
)
from offbook.errors import BreakerOpenError, MalformedResponseError
from offbook.events import AttemptEnded, RetryScheduled
from offbook.faults import HttpError, StreamTruncate
from tests.fakes import user
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    mock,
    now_s,
    outcome,
    refusal,
    request,
    run,
    scripted,
    waits_of,
    words,
)

EXACT = RetryPolicy(max_retries=3, jitter=0.0)


def waits(*errors, retry=EXACT):
    """The waits after the errors, if a call that meets them is answered in the end, and exactly after these waits."""

    async def scene():
        sink = MemorySink()
        gateway = gateway_of(scripted(*errors, OK), retry=retry, breaker=None, sink=sink)
        started_s = now_s()
        assert await ask(gateway) == OK
        scheduled = waits_of(sink)
        assert now_s() - started_s == pytest.approx(sum(scheduled))
        return scheduled

    return run(scene())


def tries(error, *, retry=EXACT):
    """How often a provider is asked that always fails with `error`."""
    provider = scripted(*[error] * 10)
    failed = run(refusal(ask(gateway_of(provider, retry=retry, breaker=None))))
    assert isinstance(failed, AllProvidersFailedError)
    return len(provider.requests)


@pytest.mark.parametrize("max_retries", [0, 1, 2, 5])
def test_a_call_is_tried_once_and_then_as_often_as_told(max_retries):
    assert tries(failure(500), retry=RetryPolicy(max_retries=max_retries)) == 1 + max_retries


def test_the_attempts_carry_their_number():
    provider = scripted(failure(), failure(), OK)
    run(ask(gateway_of(provider)))
    assert [each.attempt for each in provider.requests] == [1, 2, 3]
    assert {each.call for each in provider.requests} == {1}


def test_the_waits_grow_up_to_their_limit():
    policy = RetryPolicy(max_retries=6, backoff_s=0.5, multiplier=2.0, max_backoff_s=5.0, jitter=0.0)
    assert waits(*[failure()] * 6, retry=policy) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_the_default_waits_are_half_a_second_and_a_second_about():
    first_s, second_s = waits(failure(), failure(), retry=RetryPolicy())
    assert first_s == pytest.approx(0.5, rel=0.1)
    assert second_s == pytest.approx(1.0, rel=0.1)


def test_no_number_of_retries_is_too_large_to_compute_its_wait():
    policy = RetryPolicy(max_retries=400, multiplier=10.0, max_backoff_s=1.0, jitter=0.0)
    assert waits(*[failure()] * 400, retry=policy)[-1] == 1.0


class TestJitter:
    """Jitter is drawn from the seed and the identity of the try, and from nothing else."""

    def waits(self, steps, *, seed=7, together=False):
        """The waits of each step's call, when the calls are made in this order, one by one or all at once."""

        async def scene():
            sink = MemorySink()
            plan = FaultPlan([At(attempt=1).fail(HttpError(500)), At(attempt=2).fail(HttpError(500))])
            policy = RetryPolicy(max_retries=2, backoff_s=10.0, multiplier=1.0, jitter=0.5, seed=seed)
            gateway = gateway_of(FaultInjector(Steady(), plan), retry=policy, breaker=None, sink=sink)
            calls = [ask(gateway, request(step_id)) for step_id in steps]
            if together:
                await asyncio.gather(*calls)
            else:
                for call in calls:
                    await call
            events = [event for event in sink.events if isinstance(event, RetryScheduled)]
            return {(event.step_id, event.call, event.attempt): event.wait_s for event in events}

        return run(scene())

    def test_it_stays_within_its_share(self):
        waits = self.waits([f"step {number}" for number in range(200)]).values()
        assert min(waits) >= 5.0
        assert max(waits) <= 15.0
        assert min(waits) < 5.5
        assert max(waits) > 14.5

    def test_every_step_call_and_attempt_has_its_own(self):
        waits = self.waits(["a", "b", "a"])
        assert waits.keys() == {("a", 1, 1), ("a", 1, 2), ("b", 1, 1), ("b", 1, 2), ("a", 2, 1), ("a", 2, 2)}
        assert len(set(waits.values())) == 6

    def test_it_is_the_same_every_time(self):
        assert self.waits("abc") == self.waits("abc")

    def test_another_seed_draws_others(self):
        assert set(self.waits("abc").values()) & set(self.waits("abc", seed=8).values()) == set()

    def test_it_does_not_depend_on_what_else_is_under_way(self):
        alone = self.waits("abcdefgh")
        assert self.waits("hgfedcba", together=True) == alone

    def test_a_name_that_is_no_valid_text_is_drawn_for_too(self):
        assert len(self.waits(["\ud800"])) == 2


@pytest.mark.parametrize("status_code", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_may_pass_are_tried_again(status_code):
    assert tries(failure(status_code)) == 4


@pytest.mark.parametrize("status_code", [400, 401, 403, 404, 413, 422, 501])
def test_statuses_that_will_stay_are_not(status_code):
    assert tries(failure(status_code)) == 1


def test_which_statuses_may_pass_can_be_set():
    policy = RetryPolicy(statuses=frozenset({404}))
    assert tries(failure(404), retry=policy) == 3
    assert tries(failure(500), retry=policy) == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"type": "timeout", "after_ms": 5000}, ProviderTimeoutError),
        ({"type": "connection_reset"}, ProviderConnectionError),
        ({"type": "malformed_response", "raw": "not valid json"}, MalformedResponseError),
        ({"type": "stream_truncate", "after_chunks": 1}, ProviderConnectionError),
        ({"type": "stream_truncate", "after_chunks": 1, "raise": "error_event"}, ProviderError),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else value.__name__,
)
@pytest.mark.parametrize("stream", [False, True])
def test_failures_without_a_status_are_tried_again(fault, error, stream):
    """A stream that breaks after its first event is another matter; see the tests of streams."""
    if stream and fault["type"] == "stream_truncate":
        fault = fault | {"after_chunks": 0}
    sink = MemorySink()
    provider = mock({"ask": [{"content": "Here I am", "fault": fault}, {"content": "Here I am"}]})
    response = run(ask(gateway_of(provider, sink=sink), request(stream=stream)))
    assert response.content == "Here I am"
    failed, answered = [event for event in sink.events if isinstance(event, AttemptEnded)]
    assert failed.error == error.__name__
    assert answered.error is None


@pytest.mark.parametrize("broken", [words("half", end=ProviderConnectionError("cut")), words("just ends")[:-1], []])
def test_a_whole_answer_that_breaks_while_it_is_collected_is_tried_again(broken):
    provider = scripted(broken, words("all"))
    assert run(ask(gateway_of(provider))) == OK
    assert len(provider.requests) == 2
    assert provider.closed_replies >= 2


def test_a_whole_answer_that_a_plan_cuts_is_tried_again():
    plan = FaultPlan([At(step_id="ask", attempt=1).fail(StreamTruncate(2))])
    provider = mock({"ask": {"content": "one two three"}})
    assert run(ask(gateway_of(FaultInjector(provider, plan)))).content == "one two three"
    assert len(provider.calls) == 2


def test_what_is_no_failure_of_a_provider_is_not_tried_again():
    provider, second = scripted(ValueError("a bug")), Steady()
    assert isinstance(run(refusal(ask(gateway_of(provider, second)))), ValueError)
    assert second.requests == []


class TestRetryAfter:
    """A provider that says when to come back is obeyed, within reason."""

    @pytest.mark.parametrize("status_code", [429, 503, 529])
    @pytest.mark.parametrize(
        ("headers", "wait_s"),
        [
            ({"retry-after": "30"}, 30.0),
            ({"Retry-After": "1.5"}, 1.5),
            ({"retry-after": "0"}, 0.0),
            ({"retry-after": "-3"}, 0.0),
            ({"retry-after-ms": "250"}, 0.25),
            ({"Retry-After-Ms": "250", "Retry-After": "30"}, 0.25),
            ({"retry-after": "Sat, 01 Jan 2000 00:00:20 GMT"}, 20.0),
            ({"retry-after": "Sat, 01 Jan 2000 10:00:07 GMT", "date": "Sat, 01 Jan 2000 10:00:00 GMT"}, 7.0),
            ({"retry-after": "60"}, 60.0),
        ],
        ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
    )
    def test_it_may_be_given_in_seconds_in_ms_or_as_a_date(self, status_code, headers, wait_s):
        provider = mock(
            {
                "ask": [
                    {"fault": {"type": "http_error", "status_code": status_code, "headers": headers}},
                    {"content": "fine"},
                ]
            }
        )
        sink = MemorySink()
        assert run(ask(gateway_of(provider, retry=EXACT, sink=sink))).content == "fine"
        assert waits_of(sink) == [pytest.approx(wait_s)]

    def test_a_rate_limit_may_tell_it_without_a_header(self):
        assert waits(RateLimitError("slow down", retry_after_s=12.0)) == [12.0]

    @pytest.mark.parametrize("header", ["soon", "", "nan", "inf"])
    def test_what_cannot_be_read_is_as_if_it_were_not_reported(self, header):
        assert waits(failure(503, headers={"retry-after": header})) == [0.5]

    def test_each_failure_counts_for_itself(self):
        error = failure(503, headers={"retry-after": "9"})
        assert waits(failure(), error, failure()) == [0.5, 9.0, 2.0]

    def test_one_that_is_too_long_is_not_waited_for(self):
        assert tries(failure(503, headers={"retry-after": "61"})) == 1
        assert tries(RateLimitError("slow down", retry_after_s=61.0)) == 1

    def test_how_long_is_too_long_can_be_set(self):
        assert waits(failure(503, headers={"retry-after": "61"}), retry=RetryPolicy(max_retry_after_s=61.0)) == [61.0]

    def test_one_that_is_too_long_means_that_the_next_provider_is_asked_at_once(self):
        async def scene():
            answered = await ask(gateway_of(scripted(RateLimitError("", retry_after_s=3600.0)), Steady()))
            return answered, now_s()

        assert run(scene()) == (OK, 0.0)


class TestShouldRetry:
    """A provider that says whether to come back is obeyed."""

    @pytest.mark.parametrize("name", ["x-should-retry", "X-Should-Retry"])
    def test_yes_makes_every_status_worth_a_retry(self, name):
        assert tries(failure(400, headers={name: "true"})) == 4

    @pytest.mark.parametrize("name", ["x-should-retry", "X-Should-Retry"])
    def test_no_makes_none(self, name):
        assert tries(failure(500, headers={name: "false"})) == 1
        assert tries(RateLimitError("", headers={name: "false"}, retry_after_s=1.0)) == 1

    def test_other_words_say_nothing(self):
        assert tries(failure(500, headers={"x-should-retry": "maybe"})) == 4
        assert tries(failure(400)) == 1


def test_a_recording_that_does_not_fit_passes_straight_through():
    """No retry, no fallback, and the provider is not to blame."""
    sink = MemorySink()
    replay = mock({"_version": 2, "other": {"content": "Yes"}}, strict=True, sink=sink)
    second = Steady()
    gateway = gateway_of(replay, second, breaker=BreakerPolicy(failures=1), sink=sink)
    error = run(refusal(ask(gateway)))
    assert isinstance(error, RecordingMismatchError)
    assert error.kind == "missing"
    assert second.requests == []
    assert waits_of(sink) == []
    assert gateway.breakers["mock"].state == "closed"
    (ended,) = [event for event in sink.events if isinstance(event, AttemptEnded)]
    assert ended.error == "RecordingMismatchError"


def test_an_open_breaker_is_not_waited_for():
    async def scene():
        gateway = gateway_of(scripted(failure(400), failure(500)), breaker=BreakerPolicy(failures=1))
        gateway = gateway.using(retry=RetryPolicy(max_retries=0))
        await refusal(ask(gateway))
        await refusal(ask(gateway))
        started_s = now_s()
        error = await refusal(ask(gateway.using(retry=EXACT)))
        return error.attempts, now_s() - started_s

    (attempt,), waited_s = run(scene())
    assert isinstance(attempt.error, BreakerOpenError)
    assert attempt.wait_s == 0.0
    assert waited_s == 0.0


def test_a_request_may_have_a_policy_of_its_own():
    provider = scripted(*[failure()] * 3, OK, failure(), OK)
    gateway = gateway_of(provider, retry=RetryPolicy(max_retries=0))

    async def scene():
        patient = gateway.using(retry=EXACT)
        return [await outcome(patient.complete(user("Hi"), "m")), await outcome(ask(gateway)), await ask(gateway)]

    first, second, third = run(scene())
    assert first == OK
    assert third == OK
    assert isinstance(second, AllProvidersFailedError)


@pytest.mark.parametrize(
    "field",
    [
        {"max_retries": -1},
        {"backoff_s": -0.1},
        {"multiplier": -2.0},
        {"max_backoff_s": -1.0},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"max_retry_after_s": float("nan")},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused_by_the_name_of_its_field(field):
    (name,) = field
    with pytest.raises(InputError, match=f"^{name}: expected"):
        RetryPolicy(**field)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("max_retries", "three", "expected an int, got 'three'"),
        ("max_retries", 1.5, "expected an int, got 1.5"),
        ("backoff_s", None, "expected a number, got None"),
        ("jitter", True, "expected a number, got True"),
        ("statuses", 503, "expected a Collection, got int"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name(field, value, reason):
    with pytest.raises(InputError) as caught:
        RetryPolicy(**{field: value})
    assert caught.value.source == field
    assert caught.value.reason == reason
