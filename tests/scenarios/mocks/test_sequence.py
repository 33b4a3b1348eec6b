"""Sequences: one answer after the other, then the last again, and all of it afresh in each conversation."""

import asyncio

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st

from offbook import InputError
from offbook.scenarios import Mocks, fails, hangs, sequence
from tests.scenarios.mocks.parts import given, given_times, resolve_all, virtually

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
    assert given_times(sequence([ValueError("busy"), TimeoutError, {"ok": True}]), 3) == [
        {"error": "busy"},
        {"error": "TimeoutError"},
        {"ok": True},
    ]


def test_functions_in_a_sequence_are_called():
    async def third(args):
        return {"third": args["n"]}

    answers = sequence([lambda args: {"first": args["n"]}, lambda args, ctx: {"second": ctx.call_index}, third])
    assert given(answers, *({"n": n} for n in range(4))) == [{"first": 0}, {"second": 1}, {"third": 2}, {"third": 3}]


def test_mocks_in_a_sequence_answer_their_call():
    answers = sequence([fails("no"), hangs(60), sequence([1, 2, 3])])
    assert given_times(answers, 5) == [{"error": "no"}, {"error": "tool took longer than 60 s"}, 1, 2, 3]


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
        ([], "sequence: expected one answer or more, got none"),
        ("abc", "sequence: expected a list of answers, got 'abc'"),
        ({"a": 1}, "sequence: expected a list of answers"),
        (5, "sequence: expected a list of answers, got 5"),
        ([1, object()], r"sequence: \[1\]: no JSON"),
        ([lambda: 1], r"sequence: \[0\]: a mock is called with"),
    ],
)
def test_what_is_no_sequence_is_refused(values, reason):
    with pytest.raises(InputError, match=reason):
        sequence(values)


def test_a_sequence_may_be_made_of_any_iterable():
    assert given_times(sequence(n * n for n in range(3)), 4) == [0, 1, 4, 4]
