"""Which faults can be chosen."""

import pytest

from offbook.errors import InputError
from offbook.explore.menu import MENU, TOOL_FAULTS, WIRE_MENU, chosen


def names(dishes):
    return [dish.name for dish in dishes]


def test_all_is_the_whole_menu():
    assert chosen("all") == list(MENU)
    assert len(set(names(MENU))) == len(MENU)


def test_faults_are_chosen_by_their_own_names_or_by_their_types_in_the_order_of_the_menu():
    assert names(chosen("timeout, http_error 429")) == ["http_error 429", "timeout"]
    assert names(chosen(["http_error", "tool_lost"])) == [
        "http_error 500",
        "http_error 429",
        "http_error 401",
        "tool_lost",
    ]


def test_a_fault_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="'timeuot'") as refused:
        chosen("timeuot")
    assert "timeout" in refused.value.hint


def test_over_the_wire_no_tool_can_be_struck_and_waits_are_short():
    assert not set(names(WIRE_MENU)) & set(names(TOOL_FAULTS))
    assert {"wrong_content_type", "stream_truncate cut"} <= set(names(WIRE_MENU))
    (waits,) = chosen("http_error 429", WIRE_MENU)
    assert waits.fault.headers == {"retry-after": "1"}
    with pytest.raises(InputError, match="tool_lost"):
        chosen("tool_lost", WIRE_MENU)
