"""Mocks made from functions, values and sequences."""

import asyncio
import functools
from dataclasses import dataclass
from datetime import date
from enum import Enum
from types import MappingProxyType
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import BaseModel

from offbook import InputError
from offbook.clock import SYSTEM_CLOCK
from offbook.errors import MockError
from offbook.scenarios import MockContext, Mocks, fails, hangs, sequence
from tests.scenarios.mocks.resolving import answers_to, answers_to_many, resolve_all, virtually


class Answering:
    def __call__(self, args, ctx):
        return [args["city"], ctx.call_index]

    def method(self, args):
        return args["city"]

    @staticmethod
    async def static(args, ctx):
        return ctx.tool


async def test_the_context_has_the_names_of_agentest_too():
    mock = {"get": lambda args, ctx: [ctx.callIndex, ctx.turnIndex, ctx.conversationId == ctx.conversation_id]}
    tools = Mocks(mock).conversation()
    assert [await tools.resolve("get", {}) for _ in range(2)] == [[0, 0, True], [1, 0, True]]


def test_a_function_answers_by_the_arguments():
    def search_products(args):
        if args["query"] == "laptop":
            return {"results": [{"id": 1, "name": "ThinkPad X1", "price": 1899}], "total": 1}
        return {"results": [], "total": 0}

    assert answers_to(search_products, {"query": "laptop"}, {"query": "sofa"}) == [
        {"results": [{"id": 1, "name": "ThinkPad X1", "price": 1899}], "total": 1},
        {"results": [], "total": 0},
    ]


def test_an_async_function_is_waited_for_in_virtual_time():
    async def search_database(args):
        await asyncio.sleep(100)
        return {"results": []} if args["query"] == "not found" else {"results": [1, 2]}

    async def timed():
        tools = Mocks({"search": search_database}).conversation()
        results = await resolve_all(tools, ("search", {"query": "not found"}), ("search", {"query": "all"}))
        return results, SYSTEM_CLOCK.monotonic_s()

    assert virtually(timed()) == ([{"results": []}, {"results": [1, 2]}], 200.0)


def test_a_function_of_two_is_given_the_context():
    seen = []
    answers_to(lambda args, ctx: seen.append(ctx), {}, {})
    assert seen == [MockContext("tool", index, "conv-1-abc123", 0, {}) for index in (0, 1)]


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda args: args["city"], "Oslo"),
        (lambda args, ctx: ctx.tool, "tool"),
        (lambda args, ctx=None: ctx.tool, "tool"),
        (lambda args, default="mine": default, "mine"),
        (lambda *all: all[1].tool, "tool"),
        (lambda args, *more: more[0].tool, "tool"),
        (lambda args, *, loud=False: loud, False),
        (Answering(), ["Oslo", 0]),
        (Answering().method, "Oslo"),
        (Answering.static, "tool"),
        (functools.partial(lambda sign, args: sign + args["city"], "+"), "+Oslo"),
        (Mock(return_value=7), 7),
        (AsyncMock(return_value=7), 7),
    ],
)
def test_what_a_function_takes_decides_what_it_is_called_with(function, result):
    assert answers_to(function, {"city": "Oslo"}) == [result]


@pytest.mark.parametrize(
    "function",
    [
        lambda: 1,
        lambda args, ctx, more: 1,
        lambda *, args: 1,
        lambda args, *, ctx: 1,
        lambda args, ctx, *, more: 1,
        min,
    ],
)
def test_a_function_that_takes_something_else_is_refused_where_it_is_declared(function):
    with pytest.raises(InputError, match=r"mocks: get_cart: ") as caught:
        Mocks({"get_cart": function})
    assert caught.value.hint == "write lambda args: …, or lambda args, ctx: …"


def test_a_refusal_says_how_a_mock_is_called():
    with pytest.raises(InputError, match=r"a mock is called with \(args\) or \(args, ctx\): too many positional"):
        Mocks({"get_cart": lambda: 1})


def test_a_mock_that_changes_its_arguments_changes_nobody_elses():
    async def conversation():
        tools, args = Mocks({"add": lambda args: args["items"].append(2)}).conversation(), {"items": [1]}
        await tools.resolve("add", args)
        return args, tools.calls[0].args

    assert virtually(conversation()) == ({"items": [1]}, {"items": [1]})


@pytest.mark.parametrize("value", [{"ok": True}, [1, 2], "text", 3, 2.5, False, None])
def test_a_value_answers_every_call(value):
    assert answers_to_many(value, 3) == [value] * 3


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
    with pytest.raises(InputError, match=r"mocks: get: not JSON: Type is not JSON serializable: object"):
        Mocks({"get": object()})


@dataclass
class Slot:
    day: date


class Seat(Struct):
    row: int


class Guest(BaseModel):
    born: date


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Slot(date(2026, 3, 30)), {"day": "2026-03-30"}),
        ([Seat(4)], [{"row": 4}]),
        ({"guest": Guest(born=date(1815, 12, 10))}, {"guest": {"born": "1815-12-10"}}),
        ((1, (2,)), [1, [2]]),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        ({1: "one"}, {"1": "one"}),
        (date(2026, 3, 30), "2026-03-30"),
    ],
)
def test_values_with_a_usual_json_are_given_as_that(value, json):
    assert answers_to(lambda args: value) == [json]


@pytest.mark.parametrize("value", [object(), b"bytes", [1j], {"f": print}, {1, "a"}, "\ud800", 2**70])
def test_a_result_that_is_no_json_is_an_error_that_names_the_mock(value):
    with pytest.raises(MockError, match="the mock of 'tool' returned something that is not JSON: ") as caught:
        answers_to(lambda args: value)
    assert caught.value.tool == "tool"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)


@for_any(st.lists(JSON, min_size=1, max_size=6), st.integers(0, 10), st.integers(1, 3))
def test_any_sequence_answers_in_order_repeats_its_last_value_and_starts_afresh(values, calls, conversations):
    mocks = Mocks({"tool": sequence(values)})
    for _ in range(conversations):
        results = virtually(resolve_all(mocks.conversation(), *["tool"] * calls))
        assert results == [values[min(index, len(values) - 1)] for index in range(calls)]


@for_any(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 2), max_size=12))
def test_conversations_that_take_turns_each_have_the_sequence_to_themselves(values, order):
    async def interleaved():
        mocks = Mocks({"tool": sequence(values)})
        conversations, results = [mocks.conversation() for _ in range(3)], [[], [], []]
        for which in order:
            results[which].append(await conversations[which].resolve("tool", {}))
        return results

    results = virtually(interleaved())
    assert results == [(values + values[-1:] * 12)[: order.count(which)] for which in range(3)]


def test_exceptions_in_a_sequence_are_raised():
    assert answers_to_many(sequence([ValueError("busy"), TimeoutError, {"ok": True}]), 3) == [
        {"error": "busy"},
        {"error": "TimeoutError"},
        {"ok": True},
    ]


def test_functions_in_a_sequence_are_called():
    async def third(args):
        return {"third": args["n"]}

    answers = sequence([lambda args: {"first": args["n"]}, lambda args, ctx: {"second": ctx.call_index}, third])
    assert answers_to(answers, *({"n": n} for n in range(4))) == [
        {"first": 0},
        {"second": 1},
        {"third": 2},
        {"third": 3},
    ]


def test_mocks_in_a_sequence_answer_their_call():
    answers = sequence([fails("no"), hangs(60), sequence([1, 2, 3])])
    assert answers_to_many(answers, 5) == [{"error": "no"}, {"error": "tool took longer than 60 s"}, 1, 2, 3]


def test_a_sequence_under_two_names_answers_each_from_its_start():
    shared = sequence([1, 2])
    tools = Mocks({"a": shared, "b": shared}).conversation()
    assert virtually(resolve_all(tools, "a", "b", "a", "b")) == [1, 1, 2, 2]


def test_calls_made_at_once_are_answered_in_the_order_they_were_made():
    async def slow(args):
        await asyncio.sleep(5)
        return "slow"

    async def at_once():
        tools = Mocks({"tool": sequence([slow, "quick", "last"])}).conversation()
        return await asyncio.gather(*(tools.resolve("tool", {}) for _ in range(3)))

    assert virtually(at_once()) == ["slow", "quick", "last"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "sequence: expected at least one answer, got none"),
        ("abc", "sequence: expected a list of answers, got 'abc'"),
        ({"a": 1}, "sequence: expected a list of answers"),
        (5, "sequence: expected a list of answers, got 5"),
        ([1, object()], r"sequence: \[1\]: not JSON"),
        ([lambda: 1], r"sequence: \[0\]: a mock is called with"),
    ],
)
def test_what_is_no_sequence_is_refused(values, reason):
    with pytest.raises(InputError, match=reason):
        sequence(values)


def test_a_sequence_may_be_made_of_any_iterable():
    assert answers_to_many(sequence(n * n for n in range(3)), 4) == [0, 1, 4, 4]
