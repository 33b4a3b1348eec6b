"""Mocks that are plain values."""

import pytest

from offbook import InputError
from offbook.scenarios import Mocks
from tests.scenarios.mocks.parts import given_times, virtually


@pytest.mark.parametrize("value", [{"ok": True}, [1, 2], "text", 3, 2.5, False, None])
def test_a_value_answers_every_call(value):
    assert given_times(value, 3) == [value] * 3


def test_a_value_is_what_it_was_when_it_was_declared():
    value = {"items": [1]}
    mocks = Mocks({"get": value})
    value["items"].append(2)

    async def change_and_ask_again():
        tools = mocks.conversation()
        (await tools.resolve("get", {}))["items"].clear()
        return await tools.resolve("get", {}), [call.result for call in tools.calls]

    assert virtually(change_and_ask_again()) == ({"items": [1]}, [{"items": [1]}] * 2)


def test_a_value_that_is_no_json_is_refused_where_it_is_declared():
    with pytest.raises(InputError, match=r"mocks: get: no JSON: Type is not JSON serializable: object"):
        Mocks({"get": object()})
