"""Which faults can be chosen."""

import pytest

from offbook.errors import InputError
from offbook.explore.options import TOOL_VARIANTS, VARIANTS, WIRE_VARIANTS, select_variants


def names(variants):
    return [variant.name for variant in variants]


ORDERS = ["held_until", "cancelled", "cancelled after"]
SOCKETS = ["ws_close 1011", "ws_close 1013", "ws_close 1001", "ws_reorder", "ws_repeat"]
INSTRUCTIONS = [f"injected_text {name}" for name in ("ignore", "system", "exfiltrate", "helpful", "obeyed")]
MODEL_LIES = ["wrong_names", "garbled_content", "wrong_fields", "previous_answer"]
LIES = ["tool_stale", "tool_other", "tool_noop", "field_missing", "value_changed", "duplicate_item", "truncated_list"]
OPTIONAL = [
    "wrong_values",
    *MODEL_LIES,
    "doubled_tool_calls",
    "shared_tool_id",
    *SOCKETS,
    *LIES,
    *ORDERS,
    *INSTRUCTIONS,
]


def test_all_is_the_whole_menu_but_what_only_some_agents_can_withstand():
    assert select_variants("all") == [variant for variant in VARIANTS if variant.name not in OPTIONAL]
    assert names(variant for variant in VARIANTS if variant.is_optional) == OPTIONAL
    assert select_variants(["all", *OPTIONAL]) == list(VARIANTS)
    assert names(select_variants("wrong_values")) == ["wrong_values"]
    assert len(set(names(VARIANTS))) == len(VARIANTS)


def test_the_lies_have_a_name_together():
    assert names(select_variants("lies")) == MODEL_LIES + LIES
    assert names(select_variants("lies", WIRE_VARIANTS)) == MODEL_LIES


def test_faults_are_chosen_by_their_own_names_or_by_their_types_in_the_order_of_the_menu():
    assert names(select_variants("timeout, http_error 429")) == ["http_error 429", "timeout"]
    assert names(select_variants(["http_error", "tool_lost"])) == [
        "http_error 500",
        "http_error 429",
        "http_error 400",
        "http_error 401",
        "http_error 404",
        "http_error 503",
        "http_error 403",
        "http_error 503 retry-after",
        "http_error 422",
        "tool_lost",
    ]


def test_a_fault_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="'timeuot'") as refused:
        select_variants("timeuot")
    assert "timeout" in refused.value.hint


def test_over_the_wire_no_tool_can_fail_and_waits_are_short():
    assert not set(names(WIRE_VARIANTS)) & set(names(TOOL_VARIANTS))
    assert {"wrong_content_type", "stream_truncate cut"} <= set(names(WIRE_VARIANTS))
    (waits,) = select_variants("slow", WIRE_VARIANTS)
    assert waits.fault.after_ms <= 2000.0
    with pytest.raises(InputError, match="tool_lost: faults of tools cannot fire over HTTP"):
        select_variants("tool_lost", WIRE_VARIANTS)


@pytest.mark.parametrize("name", ["http_error 429", "http_error 503 retry-after"])
def test_a_program_is_asked_to_wait_as_long_as_what_runs_in_this_process(name):
    (over_http,), (in_process,) = (select_variants(name, menu) for menu in (WIRE_VARIANTS, VARIANTS))
    assert over_http.fault.headers == in_process.fault.headers == {"retry-after": "3"}
