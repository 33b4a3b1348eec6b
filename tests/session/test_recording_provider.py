"""The recorder: every call is kept as it was, before its caller sees the end of it."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook import MemorySink, MockProvider, RecordingProvider, Redactor, run
from offbook.clock import VIRTUAL_EPOCH
from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RecordingFormatError,
    RecordingMismatchError,
    RequestError,
)
from offbook.events import CallRecorded
from offbook.messages import (
    ReasoningDelta,
    Response,
    StreamEnd,
    StreamRestart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from offbook.recording.stores.locate import open_store
from tests.fakes import Echo, Scripted, events_of, read_until_broken, user

HI = user("Hi")
ANSWER = Response(
    content="Let me look.",
    model="gpt-4o",
    provider="scripted",
    usage=Usage.of(7, 2, cached=3, reasoning=1),
    cost_usd=0.25,
    finish_reason="tool_calls",
    tool_calls=(ToolCall("get", {"city": "Oslo"}, "c1"), ToolCall("bad", id="c2", raw_arguments="{oops")),
    reasoning="A tool is best.",
)
DELTAS = [
    ReasoningDelta("A tool is best."),
    TextDelta("Let me "),
    TextDelta("look."),
    ToolCallDelta(0, "", "c1", "get"),
    ToolCallDelta(0, '{"city":"Oslo"}'),
    ToolCallDelta(1, "{oops", "c2", "bad"),
]
LIVE_KEY = "sk-" + "proj-" + "Zx81" * 8
LOCATIONS = ["run.json", "sqlite:///run.db"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def virtually(work):
    return run(work, virtual_time=True)


async def recorded(*outcomes, ask, location="run.json", **options):
    """The recorder's sink and script after `ask` has asked it."""
    sink, script = MemorySink(), Scripted(*outcomes)
    async with RecordingProvider(script, location, sink=sink, **options) as recorder:
        await ask(recorder)
    return sink, script


def entries(location="run.json"):
    """The exchanges of each key."""
    document = open_store(location).load()
    return {key: document.exchanges(key) for key in document.entries}


def entry(key="a", location="run.json"):
    (exchange,) = entries(location)[key]
    return exchange


def complete(**options):
    return lambda provider: provider.complete(HI, "m", **({"step_id": "a"} | options))


def stream(**options):
    async def ask(provider):
        return await events_of(await provider.stream(HI, "m", **({"step_id": "a"} | options)))

    return ask


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_whole_answer_replays_as_it_was(location):
    await recorded(ANSWER, ask=complete(), location=location)
    async with MockProvider(location, strict=True) as mock:
        replayed = await mock.complete(HI, "m", step_id="a")
    latency_ms = entry(location=location).latency_ms
    assert replayed == replace(ANSWER, latency_ms=latency_ms)
    assert latency_ms >= 0


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_stream_replays_piece_by_piece(location):
    await recorded([*DELTAS, ANSWER], ask=stream(), location=location)
    async with MockProvider(location, strict=True) as mock:
        *deltas, end = await stream()(mock)
    assert deltas == DELTAS
    assert (end.response.content, end.response.tool_calls, end.response.reasoning) == (
        *("Let me look.", ANSWER.tool_calls, "A tool is best."),
    )
    assert end.response.usage == ANSWER.usage
    assert end.response.cost_usd == ANSWER.cost_usd


async def test_the_recorder_changes_nothing_on_the_way():
    script = Scripted(ANSWER, [*DELTAS, ANSWER])
    async with RecordingProvider(script, "run.json") as recorder:
        assert await recorder.complete(HI, "m", temperature=0.5, step_id="a", attempt=2) == ANSWER
        assert await events_of(await recorder.stream(HI, "m")) == [*DELTAS, StreamEnd(ANSWER)]
        assert recorder.name == "scripted"
    assert [(r.temperature, r.step_id, r.attempt, r.stream) for r in script.requests] == [
        (0.5, "a", 2, False),
        (None, None, 1, True),
    ]
    assert script.closings == 1


@pytest.mark.parametrize("location", LOCATIONS)
async def test_each_call_can_be_read_before_the_recorder_is_closed(location):
    recorder = RecordingProvider(Scripted(ANSWER, [*DELTAS, ANSWER], ConnectionError()), location)
    await recorder.complete(HI, "m", step_id="a")
    async with MockProvider(location, strict=True) as mock:
        assert (await mock.complete(HI, "m", step_id="a")).content == "Let me look."
    reply = await recorder.stream(HI, "m", step_id="b")
    async for event in reply:
        if isinstance(event, StreamEnd):
            assert entry("b", location).content == "Let me look."
    with pytest.raises(ConnectionError):
        await recorder.complete(HI, "m", step_id="c")
    assert entry("c", location).fault.type == "connection_reset"
    await recorder.close()
    assert entries(location).keys() == {"a", "b", "c"}


def test_pieces_keep_their_times():
    async def work():
        steps = [0.1, TextDelta("one "), 2.5, TextDelta("two"), 1.0, Response("one two", "m")]
        await recorded(steps, ask=stream())

    virtually(work())
    assert entry().chunks == [(100.0, "one "), (2600.0, "two")]
    assert entry().latency_ms == 3600.0
    assert datetime.fromisoformat(entry().recorded_at) == VIRTUAL_EPOCH + timedelta(seconds=3.6)


def test_a_whole_answer_keeps_its_time():
    async def work():
        sink, _ = await recorded([1.5, ANSWER], ask=complete())
        return sink.events

    assert virtually(work()) == [CallRecorded("a", "scripted", "gpt-4o", 1.5)]
    assert entry().latency_ms == 1500.0


async def test_what_stood_in_a_file_before_stays_as_it_was(tmp_path):
    by_hand = {
        "_version": 2,
        "_meta": {"created_by": "me"},
        "_tools": {"get": [{"arguments": {}, "result": 1}]},
        "hand": {
            "content": "x",
            "latency_ms": 500.0,
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        },
        "fault": [
            {"latency_ms": 250.0, "fault": {"type": "http_error", "status_code": 500, "headers": {}, "body": ""}}
        ],
    }
    (tmp_path / "run.json").write_text(json.dumps(by_hand))
    await recorded(ANSWER, ask=complete())
    after = json.loads((tmp_path / "run.json").read_text())
    assert after.pop("a")["content"] == "Let me look."
    assert after == by_hand


async def test_repeated_calls_of_a_step_are_all_kept_in_order():
    async with RecordingProvider(Echo(), "run.json") as recorder:
        for number in range(12):
            await recorder.complete(user(f"round {number % 3}"), "m", step_id="loop")
    assert [exchange.content for exchange in entries()["loop"]] == [f"round {n % 3} #{n + 1}" for n in range(12)]


async def test_a_call_without_a_step_is_kept_under_its_fingerprint():
    async with RecordingProvider(Echo(), "run.json") as recorder:
        await recorder.complete(HI, "m")
        await events_of(await recorder.stream(HI, "m"))
    ((key, exchanges),) = entries().items()
    assert [exchange.request_hash for exchange in exchanges] == [key, key]


async def test_what_was_asked_is_kept_and_who_asked_is_not():
    tools = [{"type": "function", "function": {"name": "get"}}]
    ask = complete(temperature=0, max_tokens=5, tools=tools, tool_choice="auto", extra={"seed": 1}, attempt=3)
    await recorded(ANSWER, ask=ask)
    assert entry().request_fields() == {
        "messages": HI,
        "model": "m",
        "temperature": 0.0,
        "max_tokens": 5,
        "tools": tools,
        "tool_choice": "auto",
        "extra": {"seed": 1},
    }


async def test_an_answer_without_a_model_keeps_its_usage():
    await recorded(Response("x", usage=Usage.of(3, 4)), ask=complete())
    response = await MockProvider("run.json", strict=True).complete(HI, "m", step_id="a")
    assert response.model == "m"
    assert response.usage == Usage.of(3, 4)


@pytest.mark.parametrize("step_id", ["", "_meta", "../up", "a\nb", "x" * 513])
async def test_a_step_that_cannot_be_a_key_is_refused_before_the_call_is_made(step_id):
    script = Scripted(ANSWER)
    async with RecordingProvider(script, "run.json") as recorder:
        with pytest.raises(RequestError) as caught:
            await recorder.complete(HI, "m", step_id=step_id)
    assert caught.value.source == "step_id"
    assert caught.value.hint
    assert script.requests == []
    assert entries() == {}


async def test_a_request_that_json_cannot_hold_is_refused_before_the_call_is_made():
    script = Scripted(ANSWER)
    async with RecordingProvider(script, "run.json") as recorder:
        with pytest.raises(RequestError):
            await recorder.complete(HI, "m", extra={"x": object()})
    assert script.requests == []


async def error_of(call):
    """The error that a call ends in."""
    try:
        await call
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def raised_by(ask, location="run.json"):
    """What a strict replay of the recording raises."""

    async def work():
        async with MockProvider(location, strict=True) as mock:
            return await error_of(ask(mock))

    return virtually(work())


def record_failure(outcome, ask, location="run.json"):
    error = outcome[-1] if isinstance(outcome, list) else outcome

    async def work():
        async with RecordingProvider(Scripted(outcome), location) as recorder:
            assert await error_of(ask(recorder)) is error

    virtually(work())


ERRORS = {
    "rate limit": RateLimitError("slow down", headers={"Retry-After": "30"}, body="slow down", retry_after_s=30.0),
    "rate limit without a time": RateLimitError("slow down"),
    "server error": ProviderError("HTTP 500", status_code=500, headers={"x-request-id": "1"}, body='{"error": "oh"}'),
    "error without status": ProviderError("odd"),
    "timeout": ProviderTimeoutError("late"),
    "connection": ProviderConnectionError("reset"),
    "malformed": MalformedResponseError("no JSON", raw="<html>"),
    "malformed but readable": MalformedResponseError("odd", raw='{"choices": [{"message": {"content": "x"}}]}'),
    "malformed and empty": MalformedResponseError("empty"),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("ask", [complete(), stream()], ids=["complete", "stream"])
@pytest.mark.parametrize("location", LOCATIONS)
def test_a_failed_call_replays_as_the_same_error(error, ask, location):
    record_failure(error, ask, location)
    replayed = raised_by(ask, location)
    assert type(replayed).__name__ == type(error).__name__
    assert isinstance(replayed, type(error))
    assert replayed.status_code == error.status_code
    assert replayed.headers == error.headers
    assert replayed.body == error.body
    assert replayed.provider == "scripted"
    for name in ("retry_after_s", "raw"):
        assert getattr(replayed, name, None) == getattr(error, name, None)


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_a_stream_that_fails_before_its_first_event_replays_as_the_same_error(error):
    record_failure([error], stream())
    assert entry().chunks is None
    replayed = raised_by(stream())
    assert type(replayed).__name__ == type(error).__name__
    assert isinstance(replayed, type(error))
    assert replayed.status_code == error.status_code
    assert replayed.headers == error.headers
    assert replayed.body == error.body


@given(
    status=st.integers(400, 599),
    headers=st.dictionaries(
        st.sampled_from(["x-request-id", "retry-after", "Date"]), st.sampled_from(["7", "2.5", "x"])
    ),
    body=st.text(max_size=30),
)
def test_any_status_replays_with_its_headers_and_body(tmp_path_factory, status, headers, body):
    location = tmp_path_factory.mktemp("status") / "run.json"
    error = ProviderError("failed", status_code=status, headers=headers, body=body)
    record_failure(error, complete(), location)
    replayed = raised_by(complete(), location)
    assert type(replayed) is (RateLimitError if status == 429 else ProviderError)
    assert replayed.status_code == status
    assert replayed.headers == headers
    assert replayed.body == body


@pytest.mark.parametrize("error", [TimeoutError("late"), ConnectionResetError("reset"), BrokenPipeError()])
def test_a_foreign_failure_replays_as_ours_of_the_same_kind(error):
    record_failure(error, complete())
    kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionError
    assert isinstance(raised_by(complete()), kind)


def test_a_timeout_replays_after_the_same_time():
    async def record():
        async with RecordingProvider(Scripted([5.25, ProviderTimeoutError("late")]), "run.json") as recorder:
            with pytest.raises(TimeoutError):
                await recorder.complete(HI, "m", step_id="a")

    async def replay():
        with pytest.raises(TimeoutError):
            await MockProvider("run.json", strict=True, latency_model="replay").complete(HI, "m", step_id="a")
        return asyncio.get_running_loop().time()

    virtually(record())
    assert virtually(replay()) == 5.25


async def test_a_failure_then_a_success_replay_in_order():
    async with RecordingProvider(Scripted(ERRORS["server error"], ANSWER), "run.json") as recorder:
        for attempt in (1, 2):
            try:
                await recorder.complete(HI, "m", step_id="a", attempt=attempt)
            except ProviderError:
                continue
    mock = MockProvider("run.json", strict=True)
    with pytest.raises(ProviderError):
        await mock.complete(HI, "m", step_id="a", attempt=1)
    assert (await mock.complete(HI, "m", step_id="a", attempt=2)).content == "Let me look."


@pytest.mark.parametrize("error", [ValueError("bug"), KeyError("bug"), AttributeError("bug")])
@pytest.mark.parametrize("outcome", ["before", "first", "middle"])
async def test_a_programming_error_is_not_recorded(error, outcome):
    steps = {"before": error, "first": [error], "middle": [TextDelta("one "), error]}[outcome]
    sink = MemorySink()
    async with RecordingProvider(Scripted(steps), "run.json", sink=sink) as recorder:
        with pytest.raises(type(error)):
            await stream()(recorder)
    assert entries() == {}
    assert sink.events == []


async def test_a_cancelled_call_is_not_recorded():
    async with RecordingProvider(Scripted([60.0, ANSWER]), "run.json") as recorder:
        task = asyncio.create_task(recorder.complete(HI, "m", step_id="a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert entries() == {}


BREAKS = {
    "connection": (ProviderConnectionError("reset"), ProviderConnectionError),
    "foreign connection": (ConnectionResetError(), ProviderConnectionError),
    "timeout": (ProviderTimeoutError("late"), ProviderTimeoutError),
    "error event": (ProviderError("overloaded"), ProviderError),
    "malformed": (MalformedResponseError("garbage", raw="x"), MalformedResponseError),
}


@pytest.mark.parametrize(("error", "replayed"), BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_stream_that_breaks_replays_as_far_as_it_came(error, replayed, location):
    async with RecordingProvider(Scripted([*DELTAS[:3], error]), location) as recorder:
        got, broke_by = await read_until_broken(await recorder.stream(HI, "m", step_id="a"))
    assert got == DELTAS[:3]
    assert broke_by == error
    exchange = entry(location=location)
    assert exchange.content == "Let me look."
    assert exchange.reasoning == "A tool is best."
    assert exchange.finish_reason is None
    async with MockProvider(location, strict=True) as mock:
        again, broke_by = await read_until_broken(await mock.stream(HI, "m", step_id="a"))
    assert again == DELTAS[:3]
    assert type(broke_by) is replayed


async def test_a_stream_that_just_ends_is_a_broken_one():
    async with RecordingProvider(Scripted([TextDelta("one ")]), "run.json") as recorder:
        got, error = await read_until_broken(await recorder.stream(HI, "m", step_id="a"))
    assert got == [TextDelta("one ")]
    assert type(error) is ProviderConnectionError
    again, error = await read_until_broken(await MockProvider("run.json", strict=True).stream(HI, "m", step_id="a"))
    assert again == [TextDelta("one ")]
    assert type(error) is ProviderConnectionError


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_stream_that_its_reader_leaves_is_kept_as_far_as_it_came(location):
    script = Scripted([*DELTAS, ANSWER])
    async with RecordingProvider(script, location) as recorder:
        reply = await recorder.stream(HI, "m", step_id="a")
        async for event in reply:
            if event == DELTAS[1]:
                break
        await reply.aclose()
    assert script.closed_replies >= 1
    assert len(entry(location=location).chunks) == 2
    async with MockProvider(location, strict=True) as mock:
        again, error = await read_until_broken(await mock.stream(HI, "m", step_id="a"))
    assert again == DELTAS[:2]
    assert isinstance(error, ProviderConnectionError)


async def test_a_stream_that_is_left_without_closing_is_kept_too():
    async with RecordingProvider(Scripted([*DELTAS, ANSWER]), "run.json") as recorder:
        async for _ in await recorder.stream(HI, "m", step_id="a"):
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(entry().chunks) == 1


def test_a_stream_that_is_cancelled_is_kept_as_far_as_it_came():
    async def work():
        async with RecordingProvider(Scripted([1.0, *DELTAS[:2], 60.0, ANSWER]), "run.json") as recorder:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await stream()(recorder)

    virtually(work())
    assert [piece for _, piece in entry().chunks][1:] == ["Let me "]
    assert entry().fault.type == "stream_truncate"
    assert entry().latency_ms == 10_000.0


async def test_a_stream_that_nobody_reads_is_closed_and_not_kept():
    script = Scripted([*DELTAS, ANSWER])
    async with RecordingProvider(script, "run.json") as recorder:
        reply = await recorder.stream(HI, "m", step_id="a")
        await reply.aclose()
    assert script.closed_replies == 1
    assert entries() == {}


async def test_a_stream_that_starts_over_is_kept_without_what_is_void():
    steps = [TextDelta("wrong "), StreamRestart("broke"), *DELTAS, ANSWER]
    async with RecordingProvider(Scripted(steps), "run.json") as recorder:
        assert (await stream()(recorder))[:2] == [TextDelta("wrong "), StreamRestart("broke")]
    *deltas, end = await stream()(MockProvider("run.json", strict=True))
    assert deltas == DELTAS
    assert end.response.content == "Let me look."


@pytest.mark.parametrize("location", LOCATIONS)
async def test_secrets_are_taken_out_before_anything_is_written(tmp_path, location):
    answer = Response(f"use {LIVE_KEY}", "m", tool_calls=(ToolCall("login", {"key": LIVE_KEY, "password": "hunter2"}),))
    error = ProviderError("no", status_code=401, headers={"Set-Cookie": "id=hunter2"}, body=f"bad key {LIVE_KEY}")
    steps = [TextDelta(f"use {LIVE_KEY[:9]}"), TextDelta(LIVE_KEY[9:]), Response(f"use {LIVE_KEY}", "m")]
    recorder = RecordingProvider(Scripted(answer, error, steps), location)
    for step, ask in (("a", complete), ("b", complete), ("c", stream)):
        try:
            await ask(step_id=step, extra={"api_key": "hunter2", "note": f"it is {LIVE_KEY}"})(recorder)
        except ProviderError:
            continue
        finally:
            for file in tmp_path.iterdir():
                assert LIVE_KEY.encode() not in file.read_bytes()
                assert b"hunter2" not in file.read_bytes()
    await recorder.close()
    assert entries(location).keys() == {"a", "b", "c"}
    assert "<redacted:openai-key:" in entry("a", location).content


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_request_that_holds_a_secret_still_replays_strictly(location):
    def secret(provider):
        messages = [{"role": "user", "content": f"Is {LIVE_KEY} valid?"}]
        return provider.complete(messages, "m", extra={"password": "hunter2"})

    await recorded(ANSWER, ask=secret, location=location)
    async with MockProvider(location, strict=True) as mock:
        assert (await secret(mock)).content == "Let me look."
        with pytest.raises(RecordingMismatchError):
            await mock.complete([{"role": "user", "content": "Is another valid?"}], "m")


async def test_a_redactor_of_the_user_is_obeyed():
    redactor = Redactor(patterns=(r"CUST-\d+",), fields=("email",))
    answer = Response("CUST-123 is Ada.", "m", tool_calls=(ToolCall("mail", {"Email": "ada@example.org"}),))
    await recorded(answer, ask=complete(), redactor=redactor)
    assert entry().content == "<redacted> is Ada."
    assert entry().tool_calls[0].arguments == {"Email": "<redacted>"}


async def test_every_call_is_reported_to_the_sink():
    async def ask(recorder):
        for call in (complete(), complete(step_id=None), stream(step_id="s")):
            try:
                await call(recorder)
            except ProviderError:
                continue

    sink, _ = await recorded(ANSWER, ERRORS["server error"], [*DELTAS, Response("x", "m")], ask=ask)
    rows = [(event.step_id, event.provider, event.model, event.fault_type) for event in sink.events]
    assert rows == [
        ("a", "scripted", "gpt-4o", None),
        (None, "scripted", "m", "http_error"),
        ("s", "scripted", "m", None),
    ]
    assert all(event.latency_s >= 0 for event in sink.events)


async def test_parallel_calls_are_all_kept():
    async with RecordingProvider(Echo(), "run.json") as recorder:
        await asyncio.gather(*(recorder.complete(user(str(n)), "m", step_id="fan_out") for n in range(20)))
    assert {exchange.request_fields()["messages"][0]["content"] for exchange in entries()["fan_out"]} == {
        str(n) for n in range(20)
    }


async def test_two_recorders_of_one_file_keep_all_calls():
    one, other = RecordingProvider(Echo(), "run.json"), RecordingProvider(Echo(), "run.json")
    for n in range(5):
        await one.complete(user(f"one {n}"), "m", step_id="s")
        await other.complete(user(f"other {n}"), "m", step_id="s")
    await one.close()
    await other.close()
    assert len(entries()["s"]) == 10


async def test_closing_twice_is_harmless():
    recorder = RecordingProvider(Echo(), "run.json")
    await recorder.complete(HI, "m", step_id="a")
    await recorder.close()
    await recorder.close()
    assert len(entries()["a"]) == 1


def test_the_file_says_what_made_it_and_which_version_it_has():
    run(recorded(ANSWER, ask=complete()))
    top = json.loads(Path("run.json").read_text())
    assert top["_version"] == 2
    assert top["_meta"]["created_by"].startswith("offbook ")
    assert list(top["a"])[:3] == ["content", "model", "provider"]


@pytest.mark.parametrize("cost_usd", [float("nan"), float("inf")])
@pytest.mark.parametrize("location", LOCATIONS)
def test_a_cost_that_is_no_number_does_not_spoil_the_recording(location, cost_usd):
    virtually(recorded(replace(ANSWER, cost_usd=cost_usd), ask=complete(step_id="a"), location=location))
    assert entry(location=location).cost_usd == 0.0


def test_the_provider_is_closed_even_if_the_recording_cannot_be():
    script = Scripted(ANSWER)
    recorder = RecordingProvider(script, "run.json")
    virtually(complete(step_id="a")(recorder))
    Path("run.json").write_text("spoilt meanwhile")
    with pytest.raises(RecordingFormatError):
        virtually(recorder.close())
    assert script.closings == 1


def test_a_script_without_a_loop_records_in_a_with_block():
    with RecordingProvider(Scripted(ANSWER), "run.json") as recorder:
        assert recorder.complete_sync(HI, "gpt-4o", step_id="a").content == ANSWER.content
    assert entry().content == ANSWER.content
    assert not Path("run.json.journal").exists()


def test_a_path_in_the_place_of_the_provider_is_refused(tmp_path):
    with pytest.raises(InputError, match="provider: expected a Provider, got a str") as caught:
        RecordingProvider("z.json", MockProvider())
    assert caught.value.hint == "RecordingProvider(provider, output_path), in this order"
