"""The catalog: every fault by the name under which it is declared."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.base import retry_after_s
from offbook.errors import (
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from offbook.faults import (
    FAULT_TYPES,
    TOOL_FAULT_TYPES,
    ConnectionReset,
    Fault,
    HttpError,
    MalformedResponse,
    StreamTruncate,
    Timeout,
    ToolFault,
    fault_of,
    stream_fault_of,
)
from offbook.faults.catalog import PLANNED_FAULT_TYPES, fault_variants


def test_faults_are_listed_by_the_names_they_are_declared_by():
    assert {"connection_reset", "http_error", "malformed_response", "stream_truncate", "timeout"} <= FAULT_TYPES.keys()
    for name, fault in FAULT_TYPES.items():
        assert issubclass(fault, Fault)
        assert name == fault.__struct_config__.tag


def test_faults_of_tools_are_a_family_of_their_own():
    assert {"tool_empty", "tool_error", "tool_garbled", "tool_lost", "tool_timeout"} <= TOOL_FAULT_TYPES.keys()
    assert not TOOL_FAULT_TYPES.keys() & FAULT_TYPES
    for name, fault in TOOL_FAULT_TYPES.items():
        assert issubclass(fault, ToolFault)
        assert name == fault.__struct_config__.tag


def test_variants_are_named_after_their_faults_and_persistent_ones_come_first():
    for over_http in (False, True):
        variants = fault_variants(PLANNED_FAULT_TYPES.values(), over_http=over_http)
        assert len({variant.name for variant in variants}) == len(variants)
        assert all(variant.name.split()[0] == variant.fault.type for variant in variants)
        order = [(variant.http_only, not variant.is_persistent) for variant in variants]
        assert order == sorted(order)


def test_variants_of_http_alone_are_tried_only_there_and_last():
    calls, http = (fault_variants(FAULT_TYPES.values(), over_http=over_http) for over_http in (False, True))
    further = http[len(calls) :]
    assert [variant.name for variant in http[: len(calls)]] == [variant.name for variant in calls]
    assert all(variant.http_only for variant in further)
    of_websockets = ["ws_close 1011", "ws_close 1013", "ws_close 1001", "ws_reorder", "ws_repeat"]
    assert [variant.name for variant in further] == ["wrong_content_type", "stream_truncate cut", *of_websockets]
    assert [variant.name for variant in further if variant.is_optional] == of_websockets


LATER = datetime(2077, 5, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ProviderError("x", status_code=500, headers={"a": "b"}, body="c"), HttpError(500, {"a": "b"}, "c")),
        (RateLimitError("x", body="c"), HttpError(429, {}, "c")),
        (ProviderTimeoutError("x"), Timeout(12.5)),
        (TimeoutError(), Timeout(12.5)),
        (ProviderConnectionError("x"), ConnectionReset()),
        (ConnectionRefusedError(), ConnectionReset()),
        (MalformedResponseError("x", raw="<"), MalformedResponse("<")),
        (ProviderError("x"), StreamTruncate(0, "error_event")),
    ],
)
def test_an_error_before_the_first_event_becomes_the_fault_that_raises_it(error, fault):
    assert fault_of(error, after_ms=12.5) == fault


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (ProviderTimeoutError("x"), "TimeoutError"),
        (TimeoutError(), "TimeoutError"),
        (ProviderConnectionError("x"), "ConnectionError"),
        (ConnectionResetError(), "ConnectionError"),
        (MalformedResponseError("x"), "malformed"),
        (ProviderError("x", status_code=529), "error_event"),
        (GeneratorExit(), "clean"),
        (asyncio.CancelledError(), "clean"),
    ],
)
def test_an_error_inside_a_stream_becomes_the_break_that_raises_it(error, ending):
    assert stream_fault_of(error, after_chunks=4) == StreamTruncate(4, ending)


@given(
    wait_s=st.none() | st.sampled_from([0.0, 30.0, 60.0]) | st.floats(0, 1e6),
    headers=st.dictionaries(
        st.sampled_from(["Retry-After", "retry-after-ms", "x"]),
        st.sampled_from(["30", "soon", "Sat, 01 Jan 2000 00:01:00 GMT", "1e3"]),
    ),
)
def test_how_long_to_wait_is_reported_by_the_headers_alone_whenever_they_are_replayed(wait_s, headers):
    fault = fault_of(RateLimitError("x", headers=headers, retry_after_s=wait_s), after_ms=0.0)
    if wait_s is None:
        assert fault.headers == headers
    else:
        assert retry_after_s(fault.headers, now=LATER) == wait_s
    assert fault.headers.get("x") == headers.get("x")


def test_headers_that_tell_how_long_to_wait_stay_as_they_are():
    headers = {"Retry-After": "30", "x-request-id": "r1"}
    error = RateLimitError("x", headers=headers, retry_after_s=30.0)
    assert fault_of(error, after_ms=0.0).headers == headers
