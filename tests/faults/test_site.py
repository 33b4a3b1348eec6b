"""Sites: which requests a plan's line covers."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MockProvider, ProviderError, Response, ToolCall, run
from offbook.codecs.base import error_message
from offbook.errors import InputError, ToolFaultError
from offbook.faults import (
    At,
    FaultInjector,
    FaultLog,
    FaultPlan,
    HttpError,
    Site,
    StreamStall,
    StreamTruncate,
    ToolLost,
    ToolSite,
    inject_tools,
    mark_of,
    parse_fault,
)
from offbook.faults.fault import add_mark
from tests.fakes import Scripted, user
from tests.faults.samples import SAMPLES, TOOL_SAMPLES
from tests.faults.tool_kinds import Till

HERE = Site("triage", "answer", 2, 7, 3)

sites = st.builds(
    Site,
    st.sampled_from(["", "triage"]),
    st.sampled_from([None, "answer", "ask"]),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
)


@pytest.mark.parametrize(
    "at",
    [
        At(),
        At(workflow="triage"),
        At(step_id="answer"),
        At(step_id="answer", call=2),
        At(call=7),
        At(attempt=3),
        At(chunk=5),
        At(workflow="triage", step_id="answer", call=2, attempt=3),
    ],
)
def test_what_is_reported_must_fit_and_what_is_not_reported_fits_all(at):
    assert at.covers(HERE)


@pytest.mark.parametrize(
    "at",
    [
        At(workflow="other"),
        At(step_id="ask"),
        At(step_id="answer", call=7),
        At(call=2),
        At(attempt=1),
        At(step_id="answer", call=2, attempt=1),
    ],
)
def test_one_thing_that_does_not_fit_is_enough(at):
    assert not at.covers(HERE)


@given(sites, sites)
def test_a_site_is_named_by_what_covers_it_and_no_other_call(site, other):
    at = At.of(site)
    assert at.covers(site)
    same_call = (other.workflow, other.step_id, other.call) == (site.workflow, site.step_id, site.call)
    if at.covers(other) and site.workflow:
        assert same_call or other.overall == site.overall
        assert other.attempt == site.attempt


@pytest.mark.parametrize("fault", [StreamTruncate(), StreamStall(), StreamTruncate(3)])
def test_a_chunk_says_how_far_a_stream_comes(fault):
    assert At(chunk=3).fail(fault).fault.after_chunks == 3


def test_only_faults_of_streams_fire_at_a_chunk():
    with pytest.raises(InputError, match="http_error does not fire inside a stream"):
        At(chunk=3).fail(HttpError(500))


def test_a_chunk_and_a_fault_that_say_different_things_are_refused():
    with pytest.raises(InputError, match="after 3 chunks, the fault after 5"):
        At(chunk=3).fail(StreamTruncate(5))


@given(sites, st.none() | st.integers(1, 9))
def test_the_site_of_a_tool_covers_no_call_of_a_model(site, call):
    assert not At(tool="answer", call=call).covers(site)


@pytest.mark.parametrize(
    "at", [At(), At(call=2), At(tool="search"), At(tool="search", call=2), At(tool="refund", call=1)]
)
def test_a_call_of_a_tool_is_covered_by_sites_of_that_tool_alone(at):
    assert not at.covers(ToolSite("refund", 2))


def test_a_call_of_a_tool_is_named_by_its_tool_and_its_number():
    site = ToolSite("refund", 2)
    assert str(At.of(site)) == "tool=refund call=2"
    assert At.of(site).covers(site)
    assert At(tool="refund").covers(site)


@pytest.mark.parametrize("condition", [{"workflow": "w"}, {"step_id": "s"}, {"attempt": 1}, {"chunk": 0}])
def test_of_a_call_of_a_tool_nothing_but_its_number_can_be_set(condition):
    with pytest.raises(InputError) as caught:
        At(tool="refund", call=1, **condition).fail(ToolLost())
    assert [caught.value.place] == list(condition)


def test_faults_of_models_and_of_tools_fire_at_their_own_kind_alone():
    with pytest.raises(
        InputError, match="tool_lost is a tool fault, and the site has no tool\n  hint: add the tool, like "
    ):
        At(call=1).fail(ToolLost())
    with pytest.raises(
        InputError, match="http_error is a model fault, not a tool fault\n  hint: use one of duplicate_item, "
    ):
        At(tool="refund").fail(HttpError(500))


@pytest.mark.parametrize(("number", "is_covered"), [(1, False), (2, True), (9, True)])
def test_a_fault_can_last_from_a_call_on(number, is_covered):
    assert At(since=2).covers(Site("", None, number, number, 1)) is is_covered
    assert At(step_id="a", since=2).covers(Site("", "a", number, 99, 3)) is is_covered
    assert At(tool="refund", since=2).covers(ToolSite("refund", number)) is is_covered


def test_a_site_is_one_call_or_all_from_one_on():
    with pytest.raises(InputError, match="the site says call=3 too") as caught:
        At(call=3, since=2).fail(HttpError(500))
    assert caught.value.place == "since"


ASKS = Response("one two three", "m", tool_calls=(ToolCall("find", {"order": "x", "n": 1}, "c1"),))
TOOLS = [{"type": "function", "function": {"name": "find"}}]
WITHOUT_TEXT = {"connection_reset", "timeout", "content_filter", "empty_response", "slow", "slow_drip", "stream_stall"}
WITHOUT_TEXT |= {
    "previous_answer",
    "wrong_fields",
    "wrong_names",
    "wrong_content_type",
    "doubled_tool_calls",
    "shared_tool_id",
    "one_more_tool",
    "ws_reorder",
    "ws_repeat",
}


def texts_of(fault, *, marked):
    """All that an agent sees of a call with the fault, as text, and the marks in the log."""
    log = FaultLog()
    plan = FaultPlan([parse_fault(f"everywhere: {fault}")])
    injector = FaultInjector(Scripted(ASKS, ASKS), plan, fault_log=log, marked=marked)

    async def work():
        try:
            response = await injector.complete(user("Hi"), "m", tools=TOOLS)
        except ProviderError as error:
            return f"{error} {error.body}"
        return repr(response)

    return run(work(), virtual_time=True), log.marks


def test_a_mark_is_that_of_its_line_and_of_no_other():
    line = parse_fault("call=1: http_error 500")
    assert re.fullmatch("fault-[bcdfghjklmnpqrst]{6}", mark_of(line))  # no digit, which an agent may look for
    assert mark_of(line) == mark_of(parse_fault("call=1: http_error 500"))
    assert mark_of(line) != mark_of(parse_fault("call=2: http_error 500"))


@pytest.mark.parametrize("fault", [fault for fault in SAMPLES if fault.type != "partial_response"], ids=str)
def test_the_texts_of_a_fault_carry_the_mark_in_an_exploration_and_nowhere_else(fault):
    plain, no_marks = texts_of(fault, marked=False)
    marked, (mark,) = texts_of(fault, marked=True)
    assert mark == mark_of(parse_fault(f"everywhere: {fault}"))
    assert "fault-" not in plain
    assert no_marks == []
    assert (mark in marked) is (fault.type not in WITHOUT_TEXT)


@pytest.mark.parametrize("fault", TOOL_SAMPLES, ids=str)
def test_the_errors_and_results_of_tools_carry_the_mark_in_an_exploration_and_nowhere_else(fault):
    seen = []
    for marked in (False, True):
        plan = FaultPlan([parse_fault(f"tool=refund: {fault}")])
        tools = inject_tools([Till().tool("plain")], plan, marked=marked)

        async def work(tools=tools):
            try:
                return str(tools["refund"].callable(order_id=7))
            except ToolFaultError as error:
                return str(error)
            except TimeoutError as error:
                return str(error)

        seen.append(run(work(), virtual_time=True))
    mark = mark_of(parse_fault(f"tool=refund: {fault}"))
    assert "fault-" not in seen[0]
    has_text = "lies" not in fault.traits and fault.type not in ("stdout_noise", "tool_empty", "tool_timeout")
    assert (mark in seen[1]) is has_text


def test_cut_text_ends_with_the_mark_and_cut_arguments_have_none():
    plan = FaultPlan([parse_fault("everywhere: partial_response half")])
    mark = mark_of(plan.faults[0])

    async def work(response):
        return await FaultInjector(Scripted(response), plan, marked=True).complete(user("Hi"), "m")

    assert run(work(Response("one two three"))).content == f"one tw {mark}"
    assert mark not in repr(run(work(ASKS)))


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("", ""),
        ("busy", "busy fault-0"),
        ("<html>", "<html> fault-0"),
        ('{"status": "ok", "resu', '{"status": "ok", "resu fault-0'),
        ('{"error": {"message": "busy", "code": 7}}', '{"error":{"message":"busy fault-0","code":7}}'),
        ('{"message": "busy"}', '{"message":"busy fault-0"}'),
        ('{"status": "ok"}', '{"status":"ok","mark":"fault-0"}'),
        ("[1]", '[1,"fault-0"]'),
        ('"a"', '"a fault-0"'),
        ("17", "17"),
    ],
)
def test_a_mark_keeps_json_json_and_other_text_other_text(text, marked):
    assert add_mark(text, "fault-0") == marked
    assert add_mark(text, "") == text


def test_an_overflow_is_recognised_with_its_mark_too():
    text, (mark,) = texts_of(parse_fault("call=1: context_overflow").fault, marked=True)
    body = text[text.index("{") :]
    assert json.loads(body)["error"]["code"] == "context_length_exceeded"
    message = error_message(body.encode(), "error", "message")
    assert "maximum context length" in message
    assert message.endswith(mark)


def test_a_response_file_never_has_marks():
    async def work():
        mock = MockProvider(responses={"a": {"fault": {"type": "refusal", "content": "No."}}})
        return (await mock.complete(user("Hi"), "m", step_id="a")).content

    assert run(work()) == "No."
