"""Providers of users raise the errors of other libraries; the gateway treats them like its own."""

import httpx
import pytest

from offbook import (
    AllProvidersFailedError,
    BreakerPolicy,
    MemorySink,
    MockProvider,
    ProviderTimeoutError,
    RecordingProvider,
    Response,
    RetryPolicy,
)
from offbook.errors import BreakerOpenError, StreamInterruptedError
from offbook.events import AttemptEnded
from offbook.messages import StreamRestart
from tests.fakes import events_of, read_until_broken
from tests.gateway.parts import OK, ask, gateway_of, kinds_of, outcome, refusal, request, run, scripted, words

NETWORK_ERRORS = [
    TimeoutError("slow"),
    ConnectionResetError("reset"),
    OSError(101, "network is unreachable"),
    httpx.ReadTimeout("slow"),
    httpx.ConnectError("refused"),
    httpx.RemoteProtocolError("closed"),
]
NO_RETRY = RetryPolicy(max_retries=0)


def described(error):
    return type(error).__name__


@pytest.mark.parametrize("error", NETWORK_ERRORS, ids=described)
def test_a_network_error_is_retried(error):
    provider = scripted(error, OK)
    assert run(ask(gateway_of(provider))) == OK
    assert [each.attempt for each in provider.requests] == [1, 2]


@pytest.mark.parametrize("error", NETWORK_ERRORS, ids=described)
def test_a_network_error_falls_back(error):
    second = scripted(OK, name="second")
    assert run(ask(gateway_of(scripted(error, name="first"), second, retry=NO_RETRY))) == OK
    assert len(second.requests) == 1


@pytest.mark.parametrize("error", NETWORK_ERRORS, ids=described)
def test_network_errors_open_the_circuit(error):
    gateway = gateway_of(scripted(error, error, OK), retry=NO_RETRY, breaker=BreakerPolicy(failures=2))

    async def scene():
        return [await refusal(ask(gateway)) for _ in range(3)]

    *_, last = run(scene())
    assert isinstance(last.attempts[0].error, BreakerOpenError)


def test_a_network_error_before_the_first_event_of_a_stream_is_retried():
    async def scene():
        gateway = gateway_of(scripted([httpx.ReadTimeout("slow")], words("fine")))
        return await (await gateway.send(request(stream=True))).collect()

    assert run(scene()) == OK


def test_a_network_error_inside_a_stream_interrupts_or_restarts_it():
    async def scene(*, restart_streams):
        broken, whole = words("He", end=httpx.ReadError("reset")), words("Hello")
        gateway = gateway_of(scripted(broken, whole), restart_streams=restart_streams)
        reply = await gateway.send(request(stream=True))
        return await (events_of(reply) if restart_streams else read_until_broken(reply))

    _, error = run(scene(restart_streams=False))
    assert isinstance(error, StreamInterruptedError)
    assert error.partial.content == "He"
    assert any(isinstance(event, StreamRestart) for event in run(scene(restart_streams=True)))


def test_the_error_names_the_provider_and_keeps_its_cause():
    error = run(refusal(ask(gateway_of(scripted(TimeoutError("slow"), name="mine"), retry=NO_RETRY))))
    assert isinstance(error, AllProvidersFailedError)
    assert "mine, attempt 1: TimeoutError: slow" in str(error)
    assert isinstance(error.attempts[0].error, ProviderTimeoutError)
    assert isinstance(error.attempts[0].error.__cause__, TimeoutError)


def test_a_mistake_of_the_provider_is_not_retried_and_says_nothing_about_the_network():
    gateway = gateway_of(scripted(ValueError("no prompt"), OK), breaker=BreakerPolicy(failures=1))

    async def scene():
        return await outcome(ask(gateway)), await outcome(ask(gateway))

    mistake, answer = run(scene())
    assert isinstance(mistake, ValueError)
    assert answer == OK


@pytest.mark.parametrize("error", [*NETWORK_ERRORS, httpx.DecodingError("not gzip")], ids=described)
@pytest.mark.parametrize("stream", [False, True])
def test_a_replay_takes_the_same_attempts_as_the_recorded_run(error, stream, tmp_path):
    path = tmp_path / "run.json"

    async def attempts(provider):
        sink = MemorySink()
        gateway = gateway_of(provider, retry=RetryPolicy(max_retries=1), sink=sink)
        answer = await (await gateway.send(request(stream=stream))).collect()
        await gateway.close()
        return answer.content, kinds_of(sink), [event.error for event in sink.events if isinstance(event, AttemptEnded)]

    answers = words("fine", end=Response("fine", "m", "real")) if stream else Response("fine", "m", "real")
    lived = run(attempts(RecordingProvider(scripted(error, answers), path)))
    assert lived[0] == "fine"
    assert run(attempts(MockProvider(path, strict=True))) == lived
