"""`call=2 attempt=1` means the same to all that number calls: faults, gateways, the wire, explorations, recordings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offbook import FaultInjector, FaultPlan, ProviderGateway, Request, Response, RetryPolicy, run
from offbook.errors import ProviderConnectionError
from offbook.explore.harness import ObservedProvider
from offbook.explore.observer import RunObserver
from offbook.explore.options import EXPLORE_DIVERGENCE
from offbook.explore.replay import ExploredModels
from offbook.explore.run import Run, recorded_run, sites_of
from offbook.faults import parse_fault
from offbook.recording.format.document import Document
from offbook.recording.format.file import document_from_dict
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.stores.memory import MemoryReader
from offbook.session.numbers import MAX_REMEMBERED_CALLS, CallNumbers
from offbook.session.script import ModelScript, ScriptedModels
from offbook.session.session import NO_FAULTS
from offbook.session.tape import Tape
from offbook.wire.request import RequestParser
from offbook.wire.session import STEP_HEADER, WireSession
from tests.fakes import Scripted, user
from tests.wire.http_requests import call_of

EVERYWHERE = FaultPlan([parse_fault("everywhere: partial_response")])
"""A fault that fires at every attempt and leaves its answer whole."""

calls = st.lists(
    st.tuples(st.sampled_from([None, "ask", "say"]), st.sampled_from(["Hi", "Ho"]), st.integers(0, 2)),
    min_size=1,
    max_size=6,
)
"""Calls in turn: the step, what is asked, and how many attempts fail before one succeeds."""


def expected(script):
    """The lines of a plan that name the attempts."""
    numbers, named = {}, []
    for overall, (step, _, failures) in enumerate(script, start=1):
        numbers[step] = numbers.get(step, 0) + 1
        site = f"call={overall}" if step is None else f"step={step} call={numbers[step]}"
        named += [f"{site} attempt={attempt}" for attempt in range(1, failures + 2)]
    return named


def outcomes(script):
    """What a provider gives to each attempt."""
    return [
        ProviderConnectionError("gone", provider="p") if attempt < failures else Response("done", "m")
        for _, _, failures in script
        for attempt in range(failures + 1)
    ]


def attempts(script):
    """Each attempt: its step, what is asked, which attempt it is, and whether it fails."""
    for step, text, failures in script:
        for attempt in range(1, failures + 2):
            yield step, text, attempt, attempt <= failures


def named(fired):
    return [str(planned).removesuffix(": partial_response") for planned in fired]


async def ask_each_attempt(provider, script):
    """Send every attempt as a client does that numbers its attempts, and not its calls."""
    for step, text, attempt, fails in attempts(script):
        request = Request(tuple(user(text)), "m", step_id=step, attempt=attempt)
        try:
            await (await provider.send(request)).collect()
        except ProviderConnectionError:
            assert fails


async def ask_each_call(provider, script):
    """Make the calls, and let a gateway retry them."""
    gateway = ProviderGateway(retry=RetryPolicy(max_retries=2), breaker=None)
    gateway.register(provider)
    for step, text, _ in script:
        await gateway.complete(user(text), "m", step_id=step)


def number_by_faults(script, ask):
    injector = FaultInjector(Scripted(*outcomes(script)), EVERYWHERE)
    run(ask(injector, script), virtual_time=True)
    return named(injector.fired)


def number_by_observer(script, ask):
    tape = Tape(MemoryReader(Document({}, {}), source="run.json"), strict=True)
    models = ExploredModels(ScriptedModels(tape, ModelScript()), EXPLORE_DIVERGENCE)
    observer = RunObserver(ModelScript())
    provider = ObservedProvider(Scripted(*outcomes(script)), models, observer, numbers=CallNumbers())
    run(ask(provider, script), virtual_time=True)
    return [str(site.at) for site in sites_of(Run(calls=observer.calls))]


def new_session(plan=EVERYWHERE):
    return WireSession("", parser=RequestParser(), source=None, encoder=None, plan=plan)


def number_on_the_wire(script, *, has_header):
    session = new_session()
    for step, text, attempt, fails in attempts(script):
        headers = {"x-stainless-retry-count": str(attempt - 1)} if has_header else {}
        call = call_of(text=text, headers=headers if step is None else headers | {STEP_HEADER: step})
        started = session.start(call)
        assert started.attempt_number == attempt
        session.numbers.finish(started.site, started.parsed.request_hash, failed=fails)
    return named(session.fired)


def number_by_recording(script):
    entries = {}
    for place, (step, text, _, fails) in enumerate(attempts(script)):
        digest = fingerprint(Request(tuple(user(text)), "m"))
        outcome = {"fault": {"type": "connection_reset"}} if fails else {"content": "done"}
        entry = {"request_hash": digest, "recorded_at": f"2026-01-01T00:00:{place:02d}Z", **outcome}
        entries.setdefault(step or digest, []).append(entry)
    run = recorded_run(document_from_dict({"_version": 2, **entries}, source="test"))
    return [str(site.at) for site in sites_of(run)]


@pytest.mark.parametrize(
    "numbers",
    [
        lambda script: number_by_faults(script, ask_each_attempt),
        lambda script: number_by_faults(script, ask_each_call),
        lambda script: number_by_observer(script, ask_each_attempt),
        lambda script: number_by_observer(script, ask_each_call),
        lambda script: number_on_the_wire(script, has_header=True),
        lambda script: number_on_the_wire(script, has_header=False),
        number_by_recording,
    ],
    ids=[
        "faults",
        "faults behind a gateway",
        "explored",
        "explored behind a gateway",
        "wire, by its client",
        "wire",
        "recording",
    ],
)
@given(script=calls)
@settings(max_examples=15, deadline=None)
def test_all_number_the_same_attempts_the_same_way(numbers, script):
    assert numbers(script) == expected(script)


@given(script=calls)
@settings(max_examples=15, deadline=None)
def test_where_nothing_is_planned_the_wire_counts_calls_alike(script):
    sessions = [new_session(NO_FAULTS), new_session()]
    for _, text, _, fails in attempts(script):
        started = [session.start(call_of(text=text)) for session in sessions]
        for session, each in zip(sessions, started, strict=True):
            session.numbers.finish(each.site, each.parsed.request_hash, failed=fails)
        assert started[0].site == started[1].site


def test_of_many_calls_the_latest_are_remembered():
    call_numbers, step = CallNumbers(), ("", None)
    for number in range(MAX_REMEMBERED_CALLS + 1):
        call_numbers.start(step, number, attempt=1)
    assert call_numbers.start(step, MAX_REMEMBERED_CALLS, attempt=2).overall == MAX_REMEMBERED_CALLS + 1
    assert call_numbers.start(step, "new", attempt=1).overall == MAX_REMEMBERED_CALLS + 2


def test_a_request_that_failed_stays_the_same_call_when_an_agent_starts_over():
    session, numbers = new_session(), []
    for text, retry, fails in [("Hi", 0, False), ("Ho", 0, True), ("Ho", 1, True), ("Hi", 0, False), ("Ho", 0, False)]:
        call = call_of(text=text, headers={"x-stainless-retry-count": str(retry)})
        started = session.start(call)
        session.numbers.finish(started.site, started.parsed.request_hash, failed=fails)
        numbers.append((started.call, started.attempt_number))
    assert numbers == [(1, 1), (2, 1), (2, 2), (3, 1), (2, 3)]


def test_a_repeated_request_continues_the_first_call_that_failed_with_it():
    call_numbers, step = CallNumbers(), ("", "a")
    sites = [call_numbers.start(step, "Hi") for _ in range(3)]
    for site in sites[:2]:
        call_numbers.finish(site, "Hi", failed=True)
    again = [call_numbers.start(step, "Hi") for _ in range(3)]
    assert [(site.call, site.attempt) for site in again] == [(1, 2), (2, 2), (4, 1)]


def test_an_answer_that_arrives_after_all_has_not_failed():
    call_numbers, step = CallNumbers(), ("", "a")
    site = call_numbers.start(step, "Hi")
    call_numbers.finish(site, "Hi", failed=True)
    call_numbers.finish(site, "Hi", failed=False)
    assert call_numbers.start(step, "Hi").call == 2


def test_a_client_that_numbers_its_attempts_continues_the_call_that_failed():
    call_numbers, step = CallNumbers(), ("", "a")
    call_numbers.finish(call_numbers.start(step, "Hi", attempt=1), "Hi", failed=True)
    call_numbers.start(step, "Hi", attempt=2)
    assert call_numbers.start(step, "Hi").call == 2


def request(step_id=None, *, text="Hi", attempt=1, call=0, workflow=""):
    return (workflow, step_id), text, {"attempt": attempt, "call": call}


def numbers(*requests):
    """The call, the overall number and the attempt of each."""
    call_numbers = CallNumbers()
    sites = [call_numbers.start(step, text, **known) for step, text, known in requests]
    return [(site.call, site.overall, site.attempt) for site in sites]


def test_calls_are_counted_by_step_and_in_all():
    assert numbers(request("a"), request("b"), request("a"), request(), request("b")) == [
        (1, 1, 1),
        (1, 2, 1),
        (2, 3, 1),
        (1, 4, 1),
        (2, 5, 1),
    ]


def test_steps_of_other_workflows_are_other_steps():
    assert numbers(request("a", workflow="x"), request("a", workflow="y")) == [(1, 1, 1), (1, 2, 1)]


def test_a_retry_is_an_attempt_and_not_a_call():
    assert numbers(request("a"), request("a", attempt=2), request("a", attempt=3), request("a")) == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 1, 3),
        (2, 2, 1),
    ]


def test_a_retry_belongs_to_the_latest_call_that_can_be_meant():
    assert numbers(request("a"), request("a"), request("a", attempt=2)) == [(1, 1, 1), (2, 2, 1), (2, 2, 2)]


def test_retries_of_calls_under_way_at_once_are_distinguished_by_what_they_ask():
    first, second = {"text": "first"}, {"text": "second"}
    assert numbers(
        request("a", **first),
        request("a", **second),
        request("a", **first, attempt=2),
        request("a", **second, attempt=2),
        request("a", **first, attempt=3),
    ) == [(1, 1, 1), (2, 2, 1), (1, 1, 2), (2, 2, 2), (1, 1, 3)]


def test_a_retry_that_asks_something_else_belongs_to_the_latest_call():
    assert numbers(request("a"), request("a", text="Hi again", attempt=2)) == [(1, 1, 1), (1, 1, 2)]


def test_a_retry_of_an_unknown_call_is_the_first_call():
    assert numbers(request("a", attempt=2), request("a")) == [(1, 1, 2), (2, 2, 1)]


def test_a_number_that_a_request_carries_is_taken():
    assert numbers(request("a", call=4), request("a", call=2, attempt=2), request("a", call=4, attempt=2)) == [
        (4, 1, 1),
        (2, 2, 2),
        (4, 1, 2),
    ]
