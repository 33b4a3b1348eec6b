"""Replay: how a request finds its answer, what is refused, and what is told about it."""

import asyncio
import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MemorySink, MockProvider, RecordingProvider, run
from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RecordingMismatchError,
    RequestError,
)
from offbook.events import ReplayMissed, ReplayServed
from offbook.messages import (
    Accumulator,
    ReasoningDelta,
    Request,
    Response,
    StreamEnd,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.match.fingerprint import fingerprint
from tests.fakes import Echo, events_of, read_until_broken, user

HI = user("Hi")
HASH = fingerprint(Request(tuple(HI), "m"))


def recorded(content, request_hash=HASH):
    return {"content": content, "request_hash": request_hash}


async def contents(mock, count, **options):
    return [(await mock.complete(HI, "m", **options)).content for _ in range(count)]


def agentloom_hash(messages, model, temperature=None, max_tokens=None, extra=None):
    """The key of a request in a recording of AgentLoom 0.5."""
    fields = {"messages": messages, "model": model, "temperature": temperature, "max_tokens": max_tokens}
    return sha256(json.dumps(fields | {"extra": extra or {}}, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    ("temperature", "options"),
    [(None, {}), (0, {"temperature": 0.0}), (0.0, {"temperature": 0}), (0.7, {"temperature": 0.7, "max_tokens": 5})],
)
async def test_a_recording_of_agentloom_is_replayed_strictly_by_its_own_hash(temperature, options):
    asked = [{"role": "system", "content": "Brief, bitte."}, {"role": "user", "content": "Grüß Gott"}]
    key = agentloom_hash(asked, "m", temperature, options.get("max_tokens"))
    entry = {"content": "ok", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    for responses in ({key: entry}, {"greet": entry | {"request_hash": key}}):
        mock = MockProvider(responses=responses, strict=True)
        assert (await mock.complete(asked, "m", step_id="greet", **options)).content == "ok"
        with pytest.raises(RecordingMismatchError):
            await mock.complete(HI, "m", step_id="greet", **options)


async def test_a_request_with_tools_has_no_hash_of_agentloom():
    mock = MockProvider(responses={agentloom_hash(HI, "m"): {"content": "ok"}}, strict=True)
    with pytest.raises(RecordingMismatchError):
        await mock.complete(HI, "m", tools=[{"type": "function", "function": {"name": "get", "parameters": {}}}])


def test_after_a_rewind_everything_is_answered_as_the_first_time():
    responses = {"ask": [{"content": "first"}, {"content": "second"}]}
    mock = MockProvider(responses=responses, strict=True, latency_model="normal", latency_ms=100)

    async def one_round():
        started_s = asyncio.get_running_loop().time()
        answers = await contents(mock, 2, step_id="ask")
        with pytest.raises(RecordingMismatchError):
            await mock.complete(HI, "m", step_id="ask")
        return answers, [call.mismatch for call in mock.calls], asyncio.get_running_loop().time() - started_s

    first = run(one_round(), virtual_time=True)
    mock.rewind()
    assert (mock.calls, mock.misses, len(mock.unused())) == ([], [], 2)
    assert run(one_round(), virtual_time=True) == first
    assert first[:2] == (["first", "second"], [None, None, "exhausted"])


async def test_a_call_is_answered_by_step_then_by_fingerprint_then_by_default():
    responses = {"greet": {"content": "by step"}, HASH: {"content": "by hash"}}
    mock = MockProvider(responses=responses)
    assert await contents(mock, 1, step_id="greet") == ["by step"]
    assert await contents(mock, 1, step_id="unknown") == ["by hash"]
    assert await contents(mock, 1) == ["by hash"]
    assert (await mock.complete(user("Who?"), "m")).content == "Mock response"
    assert [(call.matched_by, call.key) for call in mock.calls] == [
        ("step_id", "greet"),
        ("prompt_hash", HASH),
        ("prompt_hash", HASH),
        ("default", None),
    ]


async def test_a_step_that_was_renamed_is_found_by_what_it_asks():
    mock = MockProvider(responses={"old_name": recorded("Hello.")}, strict=True)
    assert await contents(mock, 2, step_id="new_name") == ["Hello.", "Hello."]
    assert [(call.matched_by, call.key) for call in mock.calls] == [("prompt_hash", "old_name")] * 2


async def test_a_complete_entry_becomes_a_complete_response():
    entry = {
        "content": "Sunny.",
        "model": "gpt-4o",
        "provider": "openai",
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9, "cached_tokens": 3},
        "cost_usd": 0.25,
        "latency_ms": 12.5,
        "finish_reason": "tool_calls",
        "tool_calls": [{"name": "get", "arguments": {"city": "Oslo"}, "id": "c1", "reasoning": "must look"}],
        "reasoning": "hm",
    }
    response = await MockProvider(responses={"a": entry}).complete(HI, "m", step_id="a")
    assert response.content == "Sunny."
    assert response.model == "gpt-4o"
    assert response.provider == "openai"
    assert response.usage == Usage(7, 2, 9, 3)
    assert response.cost_usd == 0.25
    assert response.latency_ms == 12.5
    assert response.finish_reason == "tool_calls"
    assert response.tool_calls == (ToolCall("get", {"city": "Oslo"}, "c1", "must look"),)
    assert response.reasoning == "hm"


async def test_a_hand_written_entry_names_the_model_that_was_asked_and_costs_nothing():
    mock = MockProvider(responses={"a": {"content": "Hello."}}, strict=True)
    for model in ("one", "two", "one"):
        response = await mock.complete(HI, model, step_id="a")
        assert response.content == "Hello."
        assert response.model == model
        assert response.provider == "mock"
        assert response.usage == Usage()
        assert response.cost_usd == 0.0
        assert response.finish_reason == "stop"


async def test_a_hand_written_entry_may_leave_out_the_total_of_its_tokens():
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    answer = await MockProvider(responses={"ask": {"content": "Hello", "usage": usage}}).complete(
        HI, "m", step_id="ask"
    )
    assert answer.usage == Usage(9, 5, 14)


@pytest.mark.parametrize("text", ["Mock response", "Nothing here."])
async def test_the_default_response_can_be_chosen_and_costs_nothing(text):
    mock = MockProvider() if text == "Mock response" else MockProvider(default_response=text)
    response = await mock.complete(HI, "m")
    assert response.content == text
    assert response.model == "m"
    assert response.usage == Usage()
    assert response.cost_usd == 0.0
    assert [event.text for event in (await events_of(await mock.stream(HI, "m")))[:-1]] == [text]


async def test_a_lenient_miss_warns_in_one_line(caplog):
    mock = MockProvider(responses={"a": {"content": "x"}})
    await mock.complete(HI, "m", step_id="b\n")
    await mock.complete(HI, "m")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert [len(record.getMessage().splitlines()) for record in caplog.records] == [1, 1]
    assert (
        caplog.records[0].getMessage()
        == "responses: step 'b\\n' is not in the recording; answered with the default response"
    )
    assert "a call of 'm' is not in the recording" in caplog.records[1].getMessage()


async def test_a_hit_warns_of_nothing(caplog):
    await contents(MockProvider(responses={"a": recorded("x")}), 2, step_id="a")
    assert caplog.records == []


async def test_a_strict_miss_raises_and_is_reported():
    sink = MemorySink()
    mock = MockProvider(responses={"a": recorded("x")}, strict=True, sink=sink)
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.complete(user("Bye"), "m", step_id="b")
    assert caught.value.kind == "missing"
    assert sink.events == [ReplayMissed("b", "m", "missing")]
    assert [call.matched_by for call in mock.calls] == [None]
    assert mock.unused() == [UnusedEntry("a", 0)]


async def test_drift_is_refused_when_strict():
    mock = MockProvider(responses={"a": recorded("x"), "b": [recorded("y")]}, strict=True)
    for step in ("a", "b"):
        with pytest.raises(RecordingMismatchError) as caught:
            await mock.complete(user("Bye"), "m", step_id=step)
        assert caught.value.kind == "drifted"
        assert caught.value.key == step
    assert await contents(mock, 1, step_id="b") == ["y"]


@pytest.mark.parametrize(
    "change", [{"temperature": 0.5}, {"max_tokens": 5}, {"tools": [{"type": "function"}]}, {"extra": {"seed": 1}}]
)
async def test_a_changed_parameter_is_drift(change):
    mock = MockProvider(responses={"a": recorded("x")}, strict=True)
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.complete(HI, "m", step_id="a", **change)
    assert caught.value.kind == "drifted"


async def test_drift_is_served_with_a_warning_of_one_line_when_lenient(caplog):
    mock = MockProvider(responses={"a": recorded("x")})
    assert (await mock.complete(user("Bye"), "m", step_id="a")).content == "x"
    (record,) = caplog.records
    assert record.getMessage() == "responses: step 'a' differs from the recorded request; answered as recorded"


async def test_a_used_up_list_raises_when_strict_and_says_so():
    mock = MockProvider(responses={"a": [recorded("1"), recorded("2")]}, strict=True)
    assert await contents(mock, 2, step_id="a") == ["1", "2"]
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.complete(HI, "m", step_id="a")
    assert caught.value.kind == "exhausted"
    assert caught.value.key == "a"


async def test_a_used_up_list_repeats_its_last_entry_when_lenient(caplog):
    mock = MockProvider(responses={"a": [{"content": "1"}, {"content": "2"}]})
    assert await contents(mock, 4, step_id="a") == ["1", "2", "2", "2"]
    message = "responses: step 'a' is made more often than it was recorded; answered with the last answer"
    assert [record.getMessage() for record in caplog.records] == [message]


async def test_a_warning_that_was_due_again_is_counted_when_all_is_over(caplog):
    async with MockProvider(responses={"a": [{"content": "1"}]}) as mock:
        await contents(mock, 4, step_id="a")
        await mock.complete(HI, "m", step_id="b")
    *_, last = [record.getMessage() for record in caplog.records]
    assert len(caplog.records) == 3
    assert (
        last
        == "responses: step 'a' is made more often than it was recorded; answered with the last answer (3 times in all)"
    )


async def test_faults_in_a_list_come_before_the_success_behind_them():
    responses = {
        "a": [
            {"fault": {"type": "http_error", "status_code": 429, "headers": {"Retry-After": "30"}}},
            {"fault": {"type": "timeout"}},
            {"content": "at last"},
        ]
    }
    sink = MemorySink()
    mock = MockProvider(responses=responses, strict=True, sink=sink)
    with pytest.raises(RateLimitError) as limited:
        await mock.complete(HI, "m", step_id="a", attempt=1)
    with pytest.raises(ProviderTimeoutError):
        await mock.complete(HI, "m", step_id="a", attempt=2)
    assert (await mock.complete(HI, "m", step_id="a", attempt=3)).content == "at last"
    assert limited.value.retry_after_s == 30
    assert [event.fault_type for event in sink.events] == ["http_error", "timeout", None]


async def test_an_object_with_a_fault_fails_every_call():
    mock = MockProvider(responses={"a": {"fault": {"type": "http_error", "status_code": 500}}})
    for _ in range(3):
        with pytest.raises(ProviderError):
            await mock.complete(HI, "m", step_id="a")


async def test_calls_tell_how_each_call_was_answered():
    sink = MemorySink()
    mock = MockProvider(responses={"a": {"content": "x"}}, sink=sink)
    await mock.complete(HI, "m", step_id="a")
    await events_of(await mock.stream(HI, "m", step_id="b"))
    assert [(call.step_id, call.model, call.matched_by, call.key, call.mismatch) for call in mock.calls] == [
        ("a", "m", "step_id", "a", None),
        ("b", "m", "default", None, "missing"),
    ]
    assert [call.request_hash for call in mock.calls] == [HASH, HASH]
    assert sink.events == [
        ReplayServed("a", "m", "step_id", "a", HASH, None),
        ReplayServed("b", "m", "default", None, HASH, None),
    ]


async def test_calls_have_the_messages_that_were_tried_also_of_those_that_were_refused():
    mock = MockProvider(responses={"greet": {"content": "x"}}, strict=True)
    await mock.complete(HI, "m", step_id="greet")
    with pytest.raises(RecordingMismatchError):
        await mock.complete(user("Bye"), "m", step_id="part")
    assert [list(call.messages) for call in mock.calls] == [HI, user("Bye")]
    refused = mock.calls[-1]
    assert refused.matched_by is None
    assert refused.mismatch == "missing"
    assert refused.step_id == "part"


async def test_a_call_can_be_read_by_item():
    mock = MockProvider(responses={"greet": {"content": "x"}})
    await mock.complete(HI, "m", step_id="greet", temperature=0.5)
    [call] = mock.calls
    read = [call[name] for name in ("messages", "model", "step_id", "temperature", "matched_by", "key")]
    assert read == [tuple(HI), "m", "greet", 0.5, "step_id", "greet"]
    with pytest.raises(KeyError, match="colour"):
        call["colour"]


async def test_unused_reports_what_was_never_served_in_order():
    mock = MockProvider(responses={"b": [{"content": "1"}, {"content": "2"}], "a": {"content": "x"}})
    assert mock.unused() == [UnusedEntry("b", 0), UnusedEntry("b", 1), UnusedEntry("a", 0)]
    await mock.complete(HI, "m", step_id="b")
    assert mock.unused() == [UnusedEntry("b", 1), UnusedEntry("a", 0)]
    for step in "ab":
        await mock.complete(HI, "m", step_id=step)
    assert mock.unused() == []


def test_a_file_and_a_dict_at_once_are_refused(tmp_path):
    with pytest.raises(InputError, match="not both"):
        MockProvider(tmp_path / "run.json", responses={})


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such recording") as caught:
        MockProvider(tmp_path / "run.json")
    assert caught.value.source == str(tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


async def test_a_request_that_json_cannot_hold_is_an_error_of_the_request():
    with pytest.raises(RequestError):
        await MockProvider().complete([{"role": "user", "content": b"x"}], "m")


async def test_answers_reports_without_serving():
    mock = MockProvider(responses={"a": [recorded("x")], "b": {"fault": {"type": "timeout"}}})
    known, drifted = Request(tuple(HI), "m", step_id="a"), Request(tuple(user("Bye")), "m", step_id="a")
    assert [mock.answers(known) for _ in range(2)] == [True, True]
    assert not mock.answers(drifted)
    assert mock.answers(Request(tuple(HI), "m", step_id="b"))
    assert not mock.answers(Request(tuple(user("Bye")), "m", step_id="c"))
    await mock.complete(HI, "m", step_id="a")
    assert not mock.answers(known)
    assert len(mock.calls) == 1


async def test_what_a_caller_does_to_arguments_does_not_reach_the_next_replay():
    call = {"name": "get", "arguments": {"cities": ["Oslo"], "unit": {"name": "C"}}}
    mock = MockProvider(responses={"a": {"tool_calls": [call]}})
    for _ in range(3):
        for reply in (
            await mock.complete(HI, "m", step_id="a"),
            await (await mock.stream(HI, "m", step_id="a")).collect(),
        ):
            args = reply.tool_calls[0].args
            assert args == {"cities": ["Oslo"], "unit": {"name": "C"}}
            args["cities"].append("Rome")
            args["unit"]["name"] = "F"
            args.clear()


async def test_what_a_caller_does_to_the_dict_of_responses_does_not_reach_the_mock():
    responses = {"a": {"content": "x"}}
    mock = MockProvider(responses=responses)
    responses["a"]["content"] = "y"
    assert await contents(mock, 1, step_id="a") == ["x"]


async def test_content_parts_reach_the_recording_and_the_match_untouched(tmp_path):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
    before = json.dumps(messages)
    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        await recorder.complete(messages, "m")
    (entry,) = (value for key, value in json.loads((tmp_path / "run.json").read_text()).items() if key[0] != "_")
    assert entry["request"]["messages"] == messages
    assert json.dumps(messages) == before
    mock = MockProvider(tmp_path / "run.json", strict=True)
    assert await mock.complete(messages, "m")
    with pytest.raises(RecordingMismatchError):
        await mock.complete([{"role": "user", "content": [{"type": "text", "text": "What is it?"}]}], "m")


async def test_numbers_of_any_size_in_arguments_survive():
    call = {"name": "get", "arguments": {"small": 0.1, "large": 2**63}}
    response = await MockProvider(responses={"a": {"tool_calls": [call]}}).complete(HI, "m", step_id="a")
    assert response.tool_calls[0].args == {"small": 0.1, "large": 2**63}


@given(order=st.permutations(range(6)), delays=st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_parallel_calls_of_one_step_each_get_their_own_answer_in_any_order(tmp_path_factory, order, delays):
    path = tmp_path_factory.mktemp("parallel") / "run.json"

    async def ask(provider, number, delay_s):
        await asyncio.sleep(delay_s)
        return (await provider.complete(user(f"question {number}"), "m", step_id="fan_out")).content

    async def record():
        async with RecordingProvider(Echo(), path) as recorder:
            return await asyncio.gather(*(ask(recorder, number, 0) for number in range(6)))

    async def replay():
        mock = MockProvider(path, strict=True)
        calls = [ask(mock, number, delay_s) for number, delay_s in zip(order, delays, strict=True)]
        answers = await asyncio.gather(*calls)
        assert mock.unused() == []
        return dict(zip(order, answers, strict=True))

    answers = run(record(), virtual_time=True)
    assert run(replay(), virtual_time=True) == dict(enumerate(answers))


@pytest.mark.parametrize("step_id", ["ask", None])
async def test_equal_requests_are_answered_first_in_first_out(tmp_path, step_id):
    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        said = await contents(recorder, 3, step_id=step_id)
    mock = MockProvider(tmp_path / "run.json", strict=True)
    assert await contents(mock, 3, step_id=step_id) == said == ["Hi #1", "Hi #2", "Hi #3"]
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.complete(HI, "m", step_id=step_id)
    assert caught.value.kind == "exhausted"


async def test_two_readers_of_one_recording_do_not_disturb_each_other(tmp_path):
    async with RecordingProvider(Echo(), tmp_path / "run.json") as recorder:
        await contents(recorder, 2, step_id="a")
    one, other = MockProvider(tmp_path / "run.json", strict=True), MockProvider(tmp_path / "run.json", strict=True)
    assert await contents(one, 2, step_id="a") == await contents(other, 2, step_id="a") == ["Hi #1", "Hi #2"]


def test_a_script_without_a_loop_can_replay():
    mock = MockProvider(responses={"a": {"content": "x"}})
    assert mock.complete_sync(HI, "m", step_id="a").content == "x"
    mock.close_sync()


@pytest.mark.parametrize("arguments", ['{"city": "Oslo"}', {"city": "Oslo"}])
def test_tool_arguments_may_be_written_as_an_object_or_as_json_text(arguments):
    mock = MockProvider(responses={"a": {"tool_calls": [{"name": "get", "arguments": arguments}]}})
    (call,) = run(mock.complete(user("Hi"), model="m", step_id="a")).tool_calls
    assert call.args == {"city": "Oslo"}
    assert call.raw_arguments is None


def test_a_tool_call_without_finish_reason_ends_by_tool_calls():
    calls = [{"name": "get"}]
    mock = MockProvider(responses={"a": {"tool_calls": calls}, "b": {"tool_calls": calls, "finish_reason": "stop"}})
    assert run(mock.complete(user("Hi"), model="m", step_id="a")).finish_reason == "tool_calls"
    assert run(mock.complete(user("Hi"), model="m", step_id="b")).finish_reason == "stop"


def test_a_dict_where_the_file_belongs_is_refused_with_the_name_to_use():
    with pytest.raises(InputError, match="responses="):
        MockProvider({"a": {"content": "x"}})


def test_an_old_file_written_by_hand_is_refused_with_what_it_lacks(tmp_path):
    path = tmp_path / "hand.json"
    path.write_text('{"a": {"content": "x"}}')
    with pytest.raises(InputError, match='put "_version": 2 at its top'):
        MockProvider(path, strict=True)


STREAMED = {
    "content": "Let me look.",
    "reasoning": "A tool is best.",
    "model": "gpt-4o",
    "finish_reason": "tool_calls",
    "tool_calls": [{"id": "c1", "name": "get", "arguments": {"city": "Oslo"}}, {"id": "c2", "name": "now"}],
    "chunks": [
        [1.0, {"reasoning": "A tool "}],
        [2.0, {"reasoning": "is best."}],
        [3.0, "Let me "],
        [4.0, "look."],
        [5.0, {"tool_call": {"index": 0, "id": "c1", "name": "get"}}],
        [6.0, {"tool_call": {"index": 0, "arguments": '{"city":'}}],
        [7.0, {"tool_call": {"index": 1, "id": "c2", "name": "now"}}],
        [8.0, {"tool_call": {"index": 0, "arguments": '"Oslo"}'}}],
    ],
}
DELTAS = [
    ReasoningDelta("A tool "),
    ReasoningDelta("is best."),
    TextDelta("Let me "),
    TextDelta("look."),
    ToolCallDelta(0, "", "c1", "get"),
    ToolCallDelta(0, '{"city":'),
    ToolCallDelta(1, "", "c2", "now"),
    ToolCallDelta(0, '"Oslo"}'),
]
CALLS = (ToolCall("get", {"city": "Oslo"}, "c1"), ToolCall("now", {}, "c2"))


async def streamed(entry):
    return await events_of(await MockProvider(responses={"a": entry}).stream(HI, "m", step_id="a"))


async def test_recorded_pieces_come_as_they_were_recorded_and_the_response_comes_last():
    *deltas, end = await streamed(STREAMED)
    assert deltas == DELTAS
    assert end == StreamEnd(
        Response(
            "Let me look.", "gpt-4o", "mock", finish_reason="tool_calls", tool_calls=CALLS, reasoning="A tool is best."
        )
    )


async def test_recorded_pieces_make_up_the_response():
    *deltas, end = await streamed(STREAMED)
    joined = Accumulator()
    for delta in deltas:
        joined.add(delta)
    assert joined.join(end.response) == end.response


async def test_a_streamed_entry_can_be_had_whole():
    mock = MockProvider(responses={"a": STREAMED})
    whole = await mock.complete(HI, "m", step_id="a")
    assert whole.content == "Let me look."
    assert whole.tool_calls == CALLS
    assert whole.reasoning == "A tool is best."
    assert await (await mock.stream(HI, "m", step_id="a")).collect() == whole


async def test_a_whole_entry_is_streamed_word_by_word():
    entry = {"content": "Roses are\nred. ", "reasoning": "A poem then.", "tool_calls": [{"id": "c", "name": "get"}]}
    *deltas, end = await streamed(entry)
    assert deltas == [
        ReasoningDelta("A poem then."),
        TextDelta("Roses"),
        TextDelta(" are"),
        TextDelta("\nred."),
        TextDelta(" "),
        ToolCallDelta(0, "{}", "c", "get"),
    ]
    assert end.response.content == "Roses are\nred. "


@given(st.text())
def test_words_make_up_the_text_again(text):
    async def work():
        *deltas, end = await streamed({"content": text})
        return "".join(delta.text for delta in deltas), end.response.content

    assert run(work()) == (text, text)


async def test_an_empty_entry_streams_only_its_end():
    assert await streamed({"content": ""}) == [StreamEnd(Response(model="m", provider="mock"))]


async def test_arguments_that_are_no_json_object_come_back_as_the_text_they_are():
    entry = {"tool_calls": [{"name": "get", "arguments": "{oops"}]}
    *deltas, end = await streamed(entry)
    assert deltas == [ToolCallDelta(0, "{oops", None, "get")]
    assert end.response.tool_calls == (ToolCall("get", raw_arguments="{oops"),)


async def test_a_reply_may_be_left_or_closed_at_any_time():
    mock = MockProvider(responses={"a": STREAMED})
    unread = await mock.stream(HI, "m", step_id="a")
    await unread.aclose()
    left = await mock.stream(HI, "m", step_id="a")
    async for _ in left:
        break
    await left.aclose()
    await left.aclose()
    assert await events_of(left) == []


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("ConnectionError", ProviderConnectionError),
        ("clean", ProviderConnectionError),
        ("TimeoutError", ProviderTimeoutError),
        ("error_event", ProviderError),
        ("malformed", MalformedResponseError),
    ],
)
@pytest.mark.parametrize("chunks", [None, [[1.0, "one "], [2.0, "two "], [3.0, "three"]]])
async def test_a_truncated_stream_gives_what_came_and_then_breaks(ending, error, chunks):
    fault = {"type": "stream_truncate", "after_chunks": 2, "raise": ending}
    entry = {"content": "one two three", "fault": fault} | ({"chunks": chunks} if chunks else {})
    mock = MockProvider(responses={"a": entry})
    got, broke_by = await read_until_broken(await mock.stream(HI, "m", step_id="a"), lambda event: event.text)
    assert type(broke_by) is error
    assert got == (["one ", "two "] if chunks else ["one", " two"])
    with pytest.raises(error):
        await mock.complete(HI, "m", step_id="a")


async def test_a_stream_that_is_shorter_than_its_break_still_breaks():
    entry = {"content": "one", "fault": {"type": "stream_truncate", "after_chunks": 9}}
    with pytest.raises(ProviderConnectionError):
        await streamed(entry)


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_faults_before_the_first_event_fire_at_both_ways_of_asking(ask):
    mock = MockProvider(responses={"a": {"fault": {"type": "http_error", "status_code": 503, "body": "busy"}}})
    with pytest.raises(ProviderError, match="busy") as caught:
        await getattr(mock, ask)(HI, "m", step_id="a")
    assert caught.value.status_code == 503
    assert caught.value.body == "busy"
    assert caught.value.provider == "mock"


async def test_a_fault_reports_the_provider_that_failed_when_it_was_recorded():
    mock = MockProvider(responses={"a": {"provider": "openai", "fault": {"type": "connection_reset"}}})
    with pytest.raises(ProviderConnectionError) as caught:
        await mock.complete(HI, "m", step_id="a")
    assert caught.value.provider == "openai"


def test_a_timeout_takes_its_time():
    async def work():
        mock = MockProvider(responses={"a": {"fault": {"type": "timeout", "after_ms": 5000}}})
        with pytest.raises(TimeoutError):
            await mock.complete(HI, "m", step_id="a")
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 5.0


def test_a_stream_breaks_when_it_broke():
    entry = {
        "content": "ab",
        "chunks": [[1000.0, "a"], [2000.0, "b"]],
        "latency_ms": 32_000.0,
        "fault": {"type": "stream_truncate", "after_chunks": 2, "raise": "TimeoutError"},
    }

    async def work():
        loop = asyncio.get_running_loop()
        mock = MockProvider(responses={"a": entry}, latency_model="replay")
        reply = await mock.stream(HI, "m", step_id="a")
        moments, error = await read_until_broken(reply, lambda _: loop.time())
        assert isinstance(error, TimeoutError)
        return [*moments, loop.time()]

    assert run(work(), virtual_time=True) == pytest.approx([1.0, 2.0, 32.0])


CONDITIONAL = {"s": [{"content": "one"}, {"content": "two"}, {"when": "any", "content": "only if needed"}]}


def test_answers_with_a_condition_are_left_out():
    strict = MockProvider(responses=CONDITIONAL, strict=True)
    assert [run(strict.complete(user("Hi"), "m", step_id="s")).content for _ in range(2)] == ["one", "two"]
    assert strict.unused() == []
    with pytest.raises(RecordingMismatchError):
        run(strict.complete(user("Hi"), "m", step_id="s"))


def test_without_strictness_the_last_answer_is_not_one_with_a_condition():
    lenient = MockProvider(responses=CONDITIONAL)
    answers = [run(lenient.complete(user("Hi"), "m", step_id="s")).content for _ in range(3)]
    assert answers == ["one", "two", "two"]
