"""The text form of planned faults: what is written can be read, and what cannot be read is explained."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.faults import (
    FAULT_TYPES,
    TOOL_FAULT_TYPES,
    At,
    ConnectionReset,
    HttpError,
    MalformedResponse,
    PlannedFault,
    SlowDrip,
    StreamStall,
    StreamTruncate,
    Timeout,
    ToolCallFault,
    ToolEmpty,
    ToolError,
    ToolGarbled,
    ToolLost,
    ToolTimeout,
    WrongContentType,
    WrongShape,
    parse_fault,
)
from offbook.faults.catalog import ORDER_FAULT_TYPES
from tests.faults.samples import SAMPLES, faults, planned_faults

NOT_NOW = '{"error": "not now"}'


@pytest.mark.parametrize(
    ("text", "at", "fault"),
    [
        ("call=3: http_error 500", At(call=3), HttpError(500)),
        ("step=answer attempt=1: timeout 5000", At(step_id="answer", attempt=1), Timeout(5000.0)),
        ("call=2 chunk=3: stream_truncate raise=clean", At(call=2, chunk=3), StreamTruncate(3, "clean")),
        ("everywhere: connection_reset", At(), ConnectionReset()),
        ("workflow=triage call=1: stream_stall 2 for_ms=1.5", At(workflow="triage", call=1), StreamStall(2, 1.5)),
        ('step="my step: one": timeout', At(step_id="my step: one"), Timeout()),
        ('step="say \\"hi\\"": timeout', At(step_id='say "hi"'), Timeout()),
        ("step=a:b: timeout", At(step_id="a:b"), Timeout()),
        ("step=5: timeout", At(step_id="5"), Timeout()),
        ("everywhere: http_error status_code=503", At(), HttpError(503)),
        ("everywhere: http_error 429 headers.Retry-After=30", At(), HttpError(429, {"Retry-After": "30"})),
        ("everywhere: http_error 429 headers.a=1 headers.b.c=2", At(), HttpError(429, {"a": "1", "b.c": "2"})),
        ('everywhere: http_error 429 headers={"a": "1"}', At(), HttpError(429, {"a": "1"})),
        ('everywhere: http_error 500 body="not now"', At(), HttpError(500, body="not now")),
        ("everywhere: http_error 500 body=404", At(), HttpError(500, body="404")),
        (f"everywhere: http_error 500 body={NOT_NOW}", At(), HttpError(500, body=NOT_NOW)),
        ("everywhere: malformed_response <html>", At(), MalformedResponse("<html>")),
        ('everywhere: malformed_response "not valid json"', At(), MalformedResponse("not valid json")),
        ("everywhere: malformed_response {oops", At(), MalformedResponse("{oops")),
        ("everywhere: tool_call_fault get args.city=Oslo", At(), ToolCallFault("get", {"city": "Oslo"})),
        ("everywhere: tool_call_fault get args.n=3", At(), ToolCallFault("get", {"n": 3})),
        ('everywhere: tool_call_fault get args.n="3"', At(), ToolCallFault("get", {"n": "3"})),
        ('everywhere: tool_call_fault get args.l=[1, {"a": 2}]', At(), ToolCallFault("get", {"l": [1, {"a": 2}]})),
        ("everywhere: tool_call_fault get args.x=NaN", At(), ToolCallFault("get", {"x": "NaN"})),
        ("everywhere: slow_drip 20", At(), SlowDrip(20.0)),
        ("everywhere: wrong_content_type text/plain", At(), WrongContentType("text/plain")),
        ('everywhere: wrong_content_type "text/plain; a=b"', At(), WrongContentType("text/plain; a=b")),
        ("everywhere: wrong_content_type 404", At(), WrongContentType("404")),
        (f"everywhere: wrong_shape {NOT_NOW}", At(), WrongShape(NOT_NOW)),
        ('everywhere: wrong_shape "\\"ok\\""', At(), WrongShape('"ok"')),
        ("  call=1   attempt=2 :  timeout   7  ", At(call=1, attempt=2), Timeout(7.0)),
        ("call=1:\n  http_error\n  500\n", At(call=1), HttpError(500)),
        ('everywhere: malformed_response "a"b', At(), MalformedResponse('"a"b')),
        ("step_id=a: timeout", At(step_id="a"), Timeout()),
        (
            'tool=refund call=1: tool_error "payment service is down"',
            At(tool="refund", call=1),
            ToolError("payment service is down"),
        ),
        ("tool=refund: tool_lost", At(tool="refund"), ToolLost()),
        ("call=2 tool=refund: tool_timeout 5000", At(tool="refund", call=2), ToolTimeout(5000.0)),
        ("tool=5: tool_garbled result=404", At(tool="5"), ToolGarbled("404")),
        ("tool=refund: tool_empty", At(tool="refund"), ToolEmpty()),
    ],
)
def test_a_line_is_read(text, at, fault):
    assert parse_fault(text) == PlannedFault(at, fault)


@pytest.mark.parametrize(
    ("planned", "text"),
    [
        (At(call=3).fail(HttpError(500)), "call=3: http_error 500"),
        (At(step_id="answer", attempt=1).fail(Timeout(5000.0)), "step=answer attempt=1: timeout 5000"),
        (At(call=2, chunk=3).fail(StreamTruncate(0, "clean")), "call=2 chunk=3: stream_truncate raise=clean"),
        (At().fail(ConnectionReset()), "everywhere: connection_reset"),
        (At(chunk=0).fail(StreamStall()), "chunk=0: stream_stall"),
        (
            At(step_id="a b").fail(HttpError(429, {"Retry-After": "30"}, "slow down")),
            'step="a b": http_error 429 headers.Retry-After=30 body="slow down"',
        ),
        (
            At().fail(ToolCallFault("get", {"n": 3, "text": "3", "where": {"city": "Oslo"}})),
            'everywhere: tool_call_fault get args.n=3 args.text="3" args.where={"city":"Oslo"}',
        ),
        (At().fail(HttpError(500, {"odd name": "x"})), 'everywhere: http_error 500 headers={"odd name":"x"}'),
        (At().fail(Timeout(1e300)), "everywhere: timeout 1e300"),
        (At().fail(Timeout(0.5)), "everywhere: timeout 0.5"),
        (At().fail(ToolCallFault("get", {"n": 3.0})), "everywhere: tool_call_fault get args.n=3.0"),
        (At().fail(MalformedResponse("a\nb")), 'everywhere: malformed_response "a\\nb"'),
        (At(tool="refund", call=1).fail(ToolLost("it is gone")), 'tool=refund call=1: tool_lost "it is gone"'),
        (At(tool="my tool").fail(ToolTimeout()), 'tool="my tool": tool_timeout'),
    ],
)
def test_a_planned_fault_is_written_as_people_write_it(planned, text):
    assert str(planned) == text


@given(planned_faults)
def test_what_is_written_can_be_read_again(planned):
    assert parse_fault(str(planned)) == planned
    assert "\n" not in str(planned)


@given(faults)
def test_no_two_faults_are_written_the_same(fault):
    assert all((str(fault) == str(sample)) == (fault == sample) for sample in SAMPLES)


OF_MODELS, OF_TOOLS = ", ".join(sorted(FAULT_TYPES)), ", ".join(sorted(TOOL_FAULT_TYPES))
OF_ORDER = ", ".join(sorted(ORDER_FAULT_TYPES))
TYPES = f"fault types: {OF_MODELS}; of tools: {OF_TOOLS}; of order: {OF_ORDER}; of processes: crash"
SITES = "fields: attempt, call, chunk, from, since, step, tool, until, workflow"


@pytest.mark.parametrize(
    ("text", "place", "reason", "hint"),
    [
        ("", "", "expected where, a colon and a fault", "a fault is like 'call=3: http_error 500'"),
        ("zzz", "", "expected where, a colon and a fault", "a fault is like"),
        ('step="a: timeout', "", "expected where, a colon and a fault", "a fault is like"),
        (":", "", "expected a site", "a fault is like"),
        ("everywhere call=3: timeout", "", "expected a site, got 'everywhere'", "a fault is like"),
        ("cal=3: timeout", "", "unknown field 'cal'", f"did you mean 'call'? {SITES}"),
        ("zzz=3: timeout", "", "unknown field 'zzz'", SITES),
        ("call=two: timeout", "call", "expected an integer, got 'two'", "for example 'call=2: timeout'"),
        ("call=0: timeout", "call", "expected an integer of at least 1, got 0", "for example 'call=2: timeout'"),
        (f"since={10**30}: timeout", "since", "of at most 1000000000, got 1000", "for example 'since=2: timeout'"),
        ("chunk=-1: stream_stall", "chunk", "of at least 0, got -1", "for example 'call=2 chunk=3: stream_truncate'"),
        ("step=: timeout", "step", "the value is missing", "for example 'step=answer: timeout'"),
        ('tool="": tool_lost', "tool", "the value is missing", "for example 'tool=refund: tool_error'"),
        ("call=1 call=2: timeout", "call", "given twice", "give it once"),
        ("step=a step_id=b: timeout", "step", "given twice", "give it once"),
        (
            "call=1:",
            "",
            "expected a fault after the colon",
            "put all of it in quotes: 'call=1: timeout', 'call=1: http",
        ),
        (
            "everywhere: tmeout",
            "",
            "unknown fault type 'tmeout'",
            "did you mean 'timeout'? for example 'everywhere: tim",
        ),
        ("everywhere: zzz", "", "unknown fault type 'zzz'", TYPES),
        ("everywhere: type=timeout", "", "unknown fault type 'type=timeout'", "did you mean 'timeout'?"),
        (
            "everywhere: timeout soon",
            "after_ms",
            "expected a number, got 'soon'",
            "for example 'everywhere: timeout 5000'",
        ),
        ("call=2: timeout -5", "after_ms", "a number of at least 0, got -5", "for example 'call=2: timeout 5000'"),
        ("call=2: timeout nan", "after_ms", "expected a number, got 'nan'", "for example 'call=2: timeout 5000'"),
        ("call=2: timeout 1e999", "after_ms", "expected a number, got '1e999'", "for example 'call=2: timeout 5000'"),
        ("everywhere: timeout 5 6", "", "'6' is one word too many", "put text that has spaces in double quotes"),
        ("everywhere: timeout 5 after_ms=6", "after_ms", "given twice", "give it once"),
        ("everywhere: timeout aftr_ms=5", "", "unknown field 'aftr_ms'", "did you mean 'after_ms'? fields: after_ms"),
        ("everywhere: timeout after_ms.x=5", "", "unknown field 'after_ms.x'", "did you mean 'after_ms'?"),
        ("everywhere: connection_reset 5", "", "'5' is one word too many", "put text that has spaces in double quotes"),
        ("everywhere: connection_reset a=5", "", "unknown field 'a'", "it has no fields besides type"),
        ("everywhere: http_error", "", "the field status_code is missing", "for example 'everywhere: http_error 503'"),
        ("call=2: http_error 5", "status_code", "of at least 100, got 5", "for example 'call=2: http_error 503'"),
        ("call=2: http_error 500 headers=5", "headers", "expected an object, got 5", "for example 'call=2: http_error"),
        ("everywhere: http_error 500 headers=5 headers.a=1", "headers.a", "given twice", "give it once"),
        (
            "everywhere: stream_truncate raise=Boom",
            "raise",
            "'Boom' is no exception of Python, httpx or offbook",
            "clean, cut, error_event, malformed, or an exception like ConnectionError, ValueError or httpx.ReadError; ",
        ),
        ("chunk=3: slow_drip", "chunk", "slow_drip does not fire inside a stream", "use stream_truncate"),
        (
            "chunk=3: timeout",
            "chunk",
            "timeout does not fire inside a stream",
            "use stream_truncate, stream_stall, ws_close",
        ),
        ("everywhere: tool_eror", "", "unknown fault type 'tool_eror'", "did you mean 'tool_error'? for example"),
        ("tool=a: tool_timeout -5", "after_ms", "of at least 0, got -5", "for example 'tool=a: tool_timeout 5000'"),
        ("tool=a: tool_lost a b", "", "'b' is one word too many", "put text that has spaces in double quotes"),
        (
            "call=1: tool_lost",
            "tool",
            "tool_lost is a tool fault, and the site has no tool",
            "add the tool, like 'tool=",
        ),
        (
            "tool=a: timeout",
            "tool",
            "timeout is a model fault, not a tool fault",
            "use one of duplicate_item, ",
        ),
        (
            "tool=a step=b: tool_lost",
            "step",
            "a tool call does not have this",
            "write the tool, and maybe which of its",
        ),
        ("tool=a attempt=1: tool_lost", "attempt", "a tool call does not have this", "write the tool"),
        (
            "chunk=3: stream_stall 4",
            "chunk",
            "the site says after 3 chunks, the fault after 4",
            "write one of them; for_ms=4 is how long it stalls",
        ),
        ("chunk=3: stream_truncate 4", "chunk", "the site says after 3 chunks, the fault after 4", "write one of them"),
    ],
)
def test_a_line_that_cannot_be_read_is_explained(text, place, reason, hint):
    with pytest.raises(InputError) as caught:
        parse_fault(text)
    error = caught.value
    assert error.source == repr(text)
    assert error.place == place
    assert reason in error.reason
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("call=1: http_error 5O3", "call=1: http_error 503"),
        ("http_error status=5O3", "call=1: http_error 503"),
        ("call=1: http_error status=503", "call=1: http_error 503"),
        ("call=1: http_error status_code 503", "call=1: http_error 503"),
        ("http_error 500", "call=1: http_error 500"),
        ("tool_lost", "tool=NAME: tool_lost"),
        (": timeout", "call=1: timeout"),
        ("call=3 http_error 500", "call=3: http_error 500"),
        ("call=2:timeout", "call=2: timeout"),
        ("call 3: timeout", "call=3: timeout"),
        ("call:3: timeout", "call=3: timeout"),
        ("call = 3: timeout", "call=3: timeout"),
        ("call=3,attempt=1: timeout", "call=3 attempt=1: timeout"),
        ("call=3, attempt=1: timeout", "call=3 attempt=1: timeout"),
        ("call=2: timeout 5s", "call=2: timeout 5000"),
        ("call=2: slow 500ms", "call=2: slow 500"),
        ("call=2: 503", "call=2: http_error 503"),
        ("call=2: rate_limit", "call=2: http_error 429"),
    ],
)
def test_of_a_usual_slip_the_line_that_is_meant_is_shown(text, meant):
    with pytest.raises(InputError) as caught:
        parse_fault(text)
    assert caught.value.hint == f"did you mean {meant!r}?"
    assert str(parse_fault(meant)) == meant


@given(
    st.text()
    | st.lists(
        st.sampled_from(["call=", "3", ":", " ", "everywhere", "timeout", "http_error", '"', "{", "[", "=", ".", "a"])
    ).map("".join)
)
@example("everywhere: malformed_response " + "[" * 100_000)
@example("call=" + "9" * 5000 + ": timeout")
@example("everywhere: timeout 1e999")
@example("everywhere: wrong_shape " + "[" * 100_000)
@example("everywhere: wrong_shape [1e999]")
@example('everywhere: wrong_shape "\ud800"')
@example("step=\ud800: timeout")
@example("everywhere: tool_call_fault get args.x=\ud800")
@example("everywhere: tool_call_fault get args.x=" + "[" * 100_000)
def test_any_text_is_read_or_refused(text):
    try:
        outcome = parse_fault(text)
    except InputError as error:
        outcome = error
    assert isinstance(outcome, PlannedFault) or outcome.hint


def test_a_number_with_thousands_of_digits_is_refused():
    with pytest.raises(InputError, match="headers"):
        parse_fault(f"call=1: http_error 500 headers={{{'9' * 5000}: 1}}")
