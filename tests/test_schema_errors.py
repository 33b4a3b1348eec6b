"""Complaints: a fault that is declared wrongly is explained in the same words wherever it is declared."""

import json

import pytest

from offbook import MockProvider
from offbook.errors import InputError
from offbook.faults import FAULT_TYPES, ORDER_FAULT_TYPES, TOOL_FAULT_TYPES, FaultPlan, parse_fault
from offbook.schema_errors import check_int, check_number, check_type, describe_type

CUT_SHORT = "unexpected end of data: line 1 column 4 (char 3)"
TYPES = f"fault types: {', '.join(sorted(FAULT_TYPES))}"
OF_TOOLS = (
    f"; of tools: {', '.join(sorted(TOOL_FAULT_TYPES))}; of order: {', '.join(sorted(ORDER_FAULT_TYPES))}"
    "; of processes: crash"
)


def complaint(declare, place):
    with pytest.raises(InputError) as caught:
        declare()
    error = caught.value
    assert error.place.startswith(place)
    return error.place.removeprefix(place).lstrip("."), error.reason, error.hint


@pytest.mark.parametrize(
    ("fault", "text", "inside", "reason", "hint"),
    [
        (
            {"type": "tmeout"},
            "",
            "type",
            "unknown fault type 'tmeout'",
            'did you mean \'timeout\'? for example {"type":"timeout"}',
        ),
        ({"type": "zzz"}, "", "type", "unknown fault type 'zzz'", TYPES),
        ({"type": 5}, "", "type", "expected a string", TYPES),
        ({"type": ["timeout"]}, "", "type", "expected a string", None),
        ({}, "", "", "the field type is missing", TYPES),
        ({"type": "timeout", "after": 5}, "timeout after=5", "", "unknown field 'after'", None),
        (
            {"type": "timeout", "after_ms": -1},
            "timeout -1",
            "after_ms",
            "expected a number of at least 0, got -1",
            'for example {"type":"timeout","after_ms":5000}',
        ),
        ({"type": "timeout", "after_ms": "x"}, "timeout x", "after_ms", "expected a number, got 'x'", None),
        ({"type": "http_error"}, "http_error", "", "the field status_code is missing", None),
        (
            {"type": "http_error", "status_code": 99},
            "http_error 99",
            "status_code",
            "expected an integer of at least 100, got 99",
            'for example {"type":"http_error","status_code":503}',
        ),
        ({"type": "unknown_tool", "a": 1}, "unknown_tool a=1", "", "unknown field 'a'", None),
        (
            {"type": "http_error", "status_code": 500, "headers": {"a": 1}},
            'http_error 500 headers={"a":1}',
            "headers[...]",
            "expected a string, got an integer",
            'for example {"type":"http_error","status_code":503,"headers":{"retry-after":"30"}}',
        ),
        (
            {"type": "stream_truncate", "raise": "Boom"},
            "stream_truncate raise=Boom",
            "raise",
            "'Boom' is no exception of Python, httpx or offbook",
            (
                "clean, cut, error_event, malformed, or an exception like ConnectionError, ValueError or "
                "httpx.ReadError; "
                'for example {"type":"stream_truncate","raise":"ConnectionError"}'
            ),
        ),
        (
            {"type": "slow_drip", "every_ms": -1},
            "slow_drip -1",
            "every_ms",
            "expected a number of at least 0, got -1",
            None,
        ),
        (
            {"type": "wrong_content_type", "content_type": "text/\nhtml"},
            'wrong_content_type "text/\\nhtml"',
            "content_type",
            "expected a string in another format, got 'text/\\nhtml'",
            (
                "plain ASCII, as a header may have: text/plain; "
                'for example {"type":"wrong_content_type","content_type":"text/html; charset=utf-8"}'
            ),
        ),
        (
            {"type": "wrong_shape", "raw": "[1,"},
            "wrong_shape [1,",
            "",
            f"raw is not JSON: {CUT_SHORT}; malformed_response takes any text",
            'fields: raw; for example {"type":"wrong_shape"}',
        ),
    ],
)
def test_a_wrong_fault_is_explained_alike_in_a_recording_a_plan_and_a_line(fault, text, inside, reason, hint, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"faults": [{"at": {}, "fault": fault}]}))
    recorded = complaint(lambda: MockProvider(responses={"a": {"fault": fault}}), "key 'a'.fault")
    listed = complaint(lambda: MockProvider(responses={"a": [{}, {"fault": fault}]}), "key 'a'[1].fault")
    planned = complaint(lambda: FaultPlan.load(path), "faults[0].fault")
    assert recorded[:2] == (inside, reason)
    assert hint in (None, recorded[2])
    assert recorded == listed
    assert planned == (*recorded[:2], recorded[2].replace(TYPES, TYPES + OF_TOOLS))
    if text:
        *alike, in_line = complaint(lambda: parse_fault(f"everywhere: {text}"), "")
        assert [*alike, in_line.partition("for example '")[0]] == [
            *recorded[:2],
            recorded[2].partition("for example {")[0],
        ]


def test_a_fault_that_is_no_object_is_explained_with_the_types():
    place, reason, hint = complaint(lambda: MockProvider(responses={"a": {"fault": "timeout"}}), "key 'a'.fault")
    assert place == ""
    assert hint == TYPES
    assert "got a string" in reason


@pytest.mark.parametrize("name", sorted(TOOL_FAULT_TYPES))
def test_a_tools_fault_where_only_models_may_fail_is_explained_by_where_it_belongs(name, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"chaos": {"seed": 1, "rate": 1.0, "faults": [{"type": name}]}}))
    recorded = complaint(lambda: MockProvider(responses={"a": {"fault": {"type": name}}}), "key 'a'.fault")
    assert recorded == complaint(lambda: FaultPlan.load(path), "chaos.faults[0]")
    assert recorded[1:] == (
        f"unknown fault type {name!r}",
        f"it is a tool fault, for a line of a plan: 'tool=refund: {name}'",
    )


def test_an_argument_of_its_kind_passes():
    check_type("x", str, source="name")
    check_int(3, source="count")
    check_number(2.5, source="wait_s")


def test_an_argument_of_another_kind_is_refused_with_what_to_pass():
    with pytest.raises(InputError) as caught:
        check_type(3, dict, source="options", hint="options={}")
    assert str(caught.value) == "options: expected a dict, got int\n  hint: options={}"


@pytest.mark.parametrize("value", ["3", None, True, [3]])
@pytest.mark.parametrize("check", [check_number, check_int])
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(InputError, match=r"count: expected (a number|an int), got "):
        check(value, source="count")


def test_a_fraction_is_no_whole_number():
    with pytest.raises(InputError, match=r"count: expected an int, got 2\.5"):
        check_int(2.5, source="count")


@pytest.mark.parametrize(
    ("value", "said"), [(None, "None"), ("x", "a str"), ({}, "dict"), (dict, "the class dict itself")]
)
def test_what_was_given_is_said_in_short(value, said):
    assert describe_type(value) == said
