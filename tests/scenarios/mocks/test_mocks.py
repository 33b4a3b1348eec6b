"""Declaring mocks: invalid ones, ids of conversations, mocks that are never called, and wrappers of tools."""

from contextlib import suppress

import pytest

from offbook import InputError, run
from offbook.errors import UnmockedToolError
from offbook.scenarios import Mocks
from offbook.tools import tool, tool_of
from offbook.tools.definition import wrap_tool
from tests.scenarios.mocks.resolving import resolve_all, virtually


def test_mocks_that_no_conversation_called_are_reported_in_the_order_declared():
    mocks = Mocks({"c": 1, "a": 2, "b": 3}, unmocked="passthrough")
    assert mocks.never_called() == ("c", "a", "b")
    virtually(resolve_all(mocks.conversation(), "a", "elsewhere"))
    assert mocks.never_called() == ("c", "b")
    virtually(resolve_all(mocks.conversation(), "c", "b"))
    assert mocks.never_called() == ()


def test_a_conversation_without_an_id_is_given_the_next():
    mocks = Mocks({})
    ids = [mocks.conversation(name).conversation_id for name in (None, "conv-7-abc123", None)]
    assert ids == ["conv-1", "conv-7-abc123", "conv-2"]


@tool
def get_weather(city: str):
    return city


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ([1], r"mocks: expected a dict of mocks, got \[1\]"),
        ({"": 1}, "mocks: expected the name of a tool, got ''"),
        ({5: 1}, "mocks: expected the name of a tool, got 5"),
        ({"get_weather": get_weather}, "mocks: get_weather: expected a mock, got a tool"),
    ],
)
def test_what_is_no_mock_is_refused_where_it_is_declared(declared, reason):
    with pytest.raises(InputError, match=reason):
        Mocks(declared)


def test_an_unknown_mode_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"unmocked: unknown value 'ignore'(.|\n)*one of: error, passthrough"):
        Mocks({}, unmocked="ignore")


def watched(seen):
    """Wrap tools so that `seen` gets the name, the side effect and the arguments of each call."""

    def around(mocked):
        async def call(**args):
            seen.append((mocked.name, mocked.side_effect, args))
            return await mocked.callable(**args)

        return wrap_tool(mocked, call, timeout_s=None)

    return around


def refund(order: int) -> str:
    return "paid"


def test_something_can_be_put_around_every_tool_that_is_called():
    seen = []
    mocks = Mocks({"refund": "paid"}, unmocked="passthrough")
    tools = mocks.conversation(wrap_tool=watched(seen))
    assert virtually(tools.resolve("refund", {"order": 42})) == "paid"
    assert virtually(tools.resolve("other", {})) is None
    assert seen == [("refund", False, {"order": 42}), ("other", False, {})]


def test_a_call_that_the_real_tool_would_refuse_does_not_get_there():
    seen = []
    tools = Mocks({"refund": "paid"}, schemas={"refund": refund}).conversation(wrap_tool=watched(seen))
    assert "error" in virtually(tools.resolve("refund", {"order": "x"}))
    assert seen == []


def test_what_is_put_around_may_answer_what_the_real_tool_would_not():
    tools = Mocks({"refund": "paid"}, schemas={"refund": refund}).conversation(
        wrap_tool=lambda mocked: wrap_tool(mocked, lambda **args: 5, timeout_s=None)
    )
    assert virtually(tools.resolve("refund", {"order": 42})) == 5
    assert tools.calls[0].result == 5


@pytest.mark.parametrize(
    "options",
    [
        {"side_effects": ["refund"]},
        {"schemas": {"refund": tool_of(refund, side_effect=True)}},
        {"schemas": {"refund": refund}, "side_effects": ["refund"]},
    ],
)
def test_side_effects_are_known_by_name_and_by_the_real_tool(options):
    seen = []
    virtually(
        Mocks({"refund": "paid"}, **options).conversation(wrap_tool=watched(seen)).resolve("refund", {"order": 42})
    )
    assert [does_harm for _, does_harm, _ in seen] == [True]


def test_what_the_real_tool_declares_of_its_effect_is_what_its_mock_declares():
    real = tool_of(refund, side_effect=True, idempotent="order", undoes="pay")
    declared = []

    def around(mocked):
        declared.append(mocked.declaration)
        return mocked

    tools = Mocks({"refund": "paid"}, schemas={"refund": real}).conversation(wrap_tool=around)
    virtually(tools.resolve("refund", {"order": 42}))
    assert declared == [real.declaration]
    assert tools.toolbox([real])["refund"].declaration == real.declaration


def test_side_effects_are_known_by_the_tools_of_a_toolbox():
    seen = []
    tools = Mocks({"refund": "paid"}).conversation(wrap_tool=watched(seen))
    mocked = tools.toolbox([tool_of(refund, side_effect=True)])["refund"]
    assert virtually(mocked.callable(order=42)) == "paid"
    assert seen == [("refund", True, {"order": 42})]


def test_the_name_of_a_tool_is_taken_where_a_list_of_tools_is_expected():
    wrapped = []
    mocks = Mocks({"refund": 1, "r": 2}, side_effects="refund")
    tools = mocks.conversation(wrap_tool=lambda tool: wrapped.append((tool.name, tool.side_effect)) or tool)
    run(tools.resolve("refund", {}))
    run(tools.resolve("r", {}))
    assert wrapped == [("refund", True), ("r", False)]


def test_mocks_may_be_inside_an_object_of_tools():
    assert run(Mocks({"tools": {"ping": "pong"}}).conversation().resolve("ping", {})) == "pong"


def test_calls_without_an_answer_are_kept_even_if_their_errors_are_caught():
    tools = Mocks({"ping": "pong", "fail": RuntimeError("down")}).conversation()
    run(tools.resolve("ping", {}))
    run(tools.resolve("fail", {}))
    assert tools.unanswered == ()
    with suppress(UnmockedToolError):
        run(tools.resolve("pong", {}))
    assert [error.tool for error in tools.unanswered] == ["pong"]
