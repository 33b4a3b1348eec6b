"""Mocks that are functions: called with the arguments, and the context if they take it."""

import asyncio
import functools
from unittest.mock import AsyncMock, Mock

import pytest

from offbook import InputError
from offbook.clock import SYSTEM_CLOCK
from offbook.scenarios import MockContext, Mocks
from tests.scenarios.mocks.parts import given, resolve_all, virtually


class Answering:
    def __call__(self, args, ctx):
        return [args["city"], ctx.call_index]

    def method(self, args):
        return args["city"]

    @staticmethod
    async def static(args, ctx):
        return ctx.tool


def test_a_function_answers_by_the_arguments():
    def search_products(args):
        if args["query"] == "laptop":
            return {"results": [{"id": 1, "name": "ThinkPad X1", "price": 1899}], "total": 1}
        return {"results": [], "total": 0}

    assert given(search_products, {"query": "laptop"}, {"query": "sofa"}) == [
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
    given(lambda args, ctx: seen.append(ctx), {}, {})
    assert seen == [MockContext("tool", index, "conv-1-abc123", 0, {}) for index in (0, 1)]


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda args: args["city"], "Oslo"),
        (lambda args, ctx: ctx.tool, "tool"),
        (lambda args, ctx=None: ctx.tool, "tool"),
        (lambda args, kept="mine": kept, "mine"),
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
    assert given(function, {"city": "Oslo"}) == [result]


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
