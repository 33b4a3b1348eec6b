"""A bug in the code of a mock is an error of the test, and not one of the tool."""

import pytest

from offbook.errors import MockError
from offbook.scenarios import Mocks, sequence

ANSWERS = sequence(["a", "b"])


def counts(args, ctx):
    return ctx.call_idx


def misspells(args):
    return argz["city"]  # noqa: F821


def takes_the_mock_for_an_iterator(args):
    return ANSWERS.next()


def takes_a_dict_for_an_object(args):
    return args.city


async def waits(args, ctx):
    return ctx.turn_idx


@pytest.mark.parametrize(
    ("mock", "error"),
    [
        (counts, r"AttributeError: .*'call_idx' \(test_mock_bug.py:\d+\); did you mean 'call_index'\?"),
        (misspells, r"NameError: name 'argz' is not defined.* \(test_mock_bug.py:\d+\); did you mean 'args'\?"),
        (takes_the_mock_for_an_iterator, "AttributeError: .*'next'"),
        (takes_a_dict_for_an_object, "AttributeError: 'dict' object has no attribute 'city'"),
        (waits, "did you mean 'turn_index'"),
        (sequence(["fine", counts]), "did you mean 'call_index'"),
    ],
)
async def test_a_bug_in_a_mock_ends_the_call_and_stays_noted(mock, error):
    tools = Mocks({"weather": mock}).conversation()
    with pytest.raises(MockError, match=rf"the mock of 'weather' has a bug: .*{error}|{error}"):  # noqa: PT012
        await tools.resolve("weather", {"city": "Oslo"})
        await tools.resolve("weather", {"city": "Oslo"})
    assert [type(each) for each in tools.unanswered] == [MockError]


def refuses(args):
    raise TypeError("a city is text")


@pytest.mark.parametrize(
    ("mock", "message"),
    [
        (refuses, "a city is text"),
        (TypeError("no such city"), "no such city"),
        (lambda args: args["town"], "KeyError: 'town'"),
        (lambda args: args["city"] + 1, 'can only concatenate str (not "int") to str'),
        (lambda args: args["city"].keys(), "'str' object has no attribute 'keys'"),
        (lambda args: int(args["city"]), "invalid literal for int() with base 10: 'Oslo'"),
    ],
)
async def test_what_a_mock_raises_for_the_tool_is_the_error_of_the_tool(mock, message):
    tools = Mocks({"weather": mock}).conversation()
    assert await tools.resolve("weather", {"city": "Oslo"}) == {"error": message}
    assert tools.unanswered == ()
