"""Mocks checked against the real tools, their arguments and results, and the suggested mock for a tool without one."""

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from offbook import InputError
from offbook.errors import MockDriftError, MockError, UnmockedToolError
from offbook.scenarios import Mocks, sequence
from offbook.tools import ToolDef, ToolSpec, tool_of
from tests.scenarios.mocks.resolving import answers_to, resolve_all, virtually


class Status(Enum):
    OPEN = "open"


class Booking(TypedDict):
    id: str
    day: date
    seats: int
    status: Status


class Wanted(BaseModel):
    day: date
    seats: Annotated[int, Field(gt=0)] = 1


async def create_booking(day: date, seats: int = 1) -> Booking: ...


def untold(day: date, seats: int = 1): ...


SCHEMA = {
    "type": "object",
    "properties": {"day": {"type": "string", "format": "date"}, "seats": {"type": "integer"}},
    "required": ["day"],
}
GOOD = {"id": "BK-1", "day": "2026-03-30", "seats": 2, "status": "open"}
KNOWN = [
    create_booking,
    tool_of(create_booking),
    ToolDef(ToolSpec("create_booking", parameters=SCHEMA), create_booking),
    ToolSpec("create_booking", parameters=SCHEMA),
    SCHEMA,
    Wanted,
]


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: type(known).__name__)
def test_a_call_that_the_real_tool_would_refuse_is_refused_as_it_would(known):
    mocks = Mocks({"create_booking": GOOD}, schemas={"create_booking": known})
    tools = mocks.conversation()
    calls = [("create_booking", args) for args in ({}, {"day": "2026-03-30", "seats": "two"}, {"day": "2026-03-30"})]
    missing, wrong, good = virtually(resolve_all(tools, *calls))
    assert missing == {"error": "wrong arguments for create_booking:\nday: missing"}
    assert wrong["error"].startswith("wrong arguments for create_booking:\nseats: ")
    assert good == GOOD
    assert [call.error for call in tools.calls] == [missing["error"], wrong["error"], None]


def test_a_refused_call_counts_but_does_not_reach_the_mock():
    answers = sequence([1, lambda args, ctx: ctx.call_index])
    assert answers_to(answers, {}, {"day": "2026-03-30"}, {"day": "2026-03-30"}, schemas={"tool": SCHEMA})[1:] == [1, 2]


def test_a_mock_gets_the_arguments_as_the_agent_gave_them():
    assert answers_to(lambda args: args, {"day": "2026-03-30"}, schemas={"tool": untold}) == [{"day": "2026-03-30"}]


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ({**GOOD, "seats": "2"}, ("seats: Input should be a valid integer (got '2')",)),
        ({**GOOD, "status": "lost"}, ("status: Input should be 'open' (got 'lost')",)),
        ({name: GOOD[name] for name in ("id", "day")}, ("seats: missing", "status: missing")),
        ([GOOD], ("Input should be an object",)),
        (None, ("Input should be an object",)),
    ],
)
def test_a_mock_that_drifts_from_what_a_function_returns_is_an_error_that_says_how(result, problems):
    mocks = Mocks({"create_booking": result}, schemas={"create_booking": create_booking})
    tools = mocks.conversation()
    with pytest.raises(MockDriftError) as caught:
        virtually(resolve_all(tools, ("create_booking", {"day": "2026-03-30"})))
    assert caught.value.tool == "create_booking"
    assert caught.value.problems == problems
    listed = "\n".join(f"  {problem}" for problem in problems)
    assert str(caught.value) == f"the mock of 'create_booking' returns what the real tool would not:\n{listed}"
    assert tools.calls[0].error == str(caught.value)


@pytest.mark.parametrize("returns", [Booking, Any, dict, Booking | None, {"type": "object", "required": ["id"]}, {}])
def test_a_mock_that_answers_as_the_real_tool_does_passes(returns):
    assert answers_to(GOOD, returns={"tool": returns}) == [GOOD]


@pytest.mark.parametrize(
    ("schema", "result", "problem"),
    [
        ({"required": ["id"]}, {}, "'id' is a required property"),
        ({"properties": {"ids": {"items": {"type": "integer"}}}}, {"ids": [1, "x"]}, "ids[1]: 'x' is not of type"),
        ({"properties": {"day": {"format": "date"}}}, {"day": "soon"}, "day: 'soon' is not a 'date' (got 'soon')"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "x", "'x' is not of type 'integer'"),
        ({"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]}, {}, "'a' is a required property"),
    ],
)
def test_a_mock_that_drifts_from_a_json_schema_is_an_error_that_says_how(schema, result, problem):
    with pytest.raises(MockDriftError) as caught:
        answers_to(result, returns={"tool": schema})
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_what_is_declared_goes_before_what_the_function_says():
    options = {"schemas": {"tool": create_booking}, "returns": {"tool": Any}}
    assert answers_to("anything", {"day": "2026-03-30"}, **options) == ["anything"]


@pytest.mark.parametrize("function", [untold, lambda day, seats=1: None])
def test_a_function_that_does_not_say_what_it_returns_lets_anything_pass(function):
    assert answers_to({"odd": 1}, {"day": "2026-03-30"}, schemas={"tool": function}) == [{"odd": 1}]


def test_a_function_that_returns_nothing_says_so():
    def log(event: str) -> None: ...

    assert answers_to(None, {"event": "x"}, schemas={"tool": log}) == [None]
    with pytest.raises(MockDriftError):
        answers_to({"logged": True}, {"event": "x"}, schemas={"tool": log})


def test_a_tool_that_does_not_tell_its_signature_lets_anything_pass():
    assert answers_to(5, schemas={"tool": ToolDef(ToolSpec("tool"), min)}) == [5]


class Foreign(Struct):
    id: int


def returns_foreign(day: str) -> Foreign: ...


def returns_unknown(day: str) -> "NowhereToBeFound": ...  # noqa: F821


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schemas": {"tool": returns_foreign}}, r"mocks: returns\.tool: the type has no JSON schema(.|\n)*Any"),
        (
            {"schemas": {"tool": returns_unknown}},
            r"mocks: schemas\.tool: the return annotation cannot be resolved: name",
        ),
        ({"schemas": {"tool": {"type": "array"}}}, "tool: parameters: expected the JSON schema of an object"),
        ({"schemas": {"tool": 5}}, "tool: expected a function, got int 5"),
        ({"returns": {"tool": {"type": "objekt"}}}, r"mocks: returns\.tool\.type: invalid JSON schema: 'objekt'"),
        ({"returns": {"tool": 5}}, r"mocks: returns\.tool: the type has no JSON schema"),
        ({"returns": {"tool": "Nowhere"}}, r"mocks: returns\.tool: the type has no JSON schema: .*Nowhere"),
    ],
)
def test_a_real_tool_that_is_declared_wrongly_is_refused_there(options, reason):
    with pytest.raises(InputError, match=reason):
        Mocks({"tool": 1}, **options)


def test_a_reference_that_leads_nowhere_is_an_error_of_the_test():
    with pytest.raises(MockError, match=r"has a \$ref to /\$defs/gone, which does not exist"):
        answers_to(1, returns={"tool": {"$ref": "#/$defs/gone"}})


class Item(BaseModel):
    sku: str
    price: float
    tags: list[str] = []


class Order(BaseModel):
    order_id: int
    placed: date
    status: Literal["open", "closed"]
    items: list[Item]
    note: str | None = None
    email: str = Field(json_schema_extra={"format": "email"})
    by_name: dict[str, int] = {}
    is_paid: bool


class Tree(TypedDict):
    name: str
    children: "list[Tree]"


def error_of(tool, args, mocked=(), **options):
    with pytest.raises(UnmockedToolError) as caught:
        virtually(resolve_all(Mocks(dict.fromkeys(mocked), **options).conversation(), (tool, args)))
    return caught.value


def pasted(error):
    """Mocks with the suggestion as the only one."""
    return eval(f"{{{error.suggestion}}}")


def test_the_error_shows_the_mock_to_paste():
    error = error_of("send_confirmation_email", {"to": "ada@example.com"})
    assert str(error) == (
        "tool 'send_confirmation_email' was called, but no mock is defined for it.\n"
        "Add one:\n"
        "\n"
        "    mocks = {\n"
        '        "send_confirmation_email": lambda args: {\n'
        '            "success": True,\n'
        '            "to": args["to"],\n'
        "        },\n"
        "    }\n"
        "\n"
        'Or let every tool without a mock return None: Mocks(…, unmocked="passthrough")'
    )


def test_a_mock_with_a_similar_name_is_pointed_out():
    error = error_of("create_booking", {}, mocked=["cancel", "create_bookng"])
    assert str(error).splitlines()[0].endswith("Did you mean the mock 'create_bookng'?")


@for_any(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=6))
def test_what_is_pasted_is_python_that_repeats_arguments_whatever_they_are_called(tool, args):
    mocks = pasted(error_of(tool, args))
    assert list(mocks) == [tool]
    answer = mocks[tool](args)
    assert answer.pop("success", None) is not None
    assert answer.items() <= args.items()


@pytest.mark.parametrize(
    "returns",
    [
        Order,
        list[Order],
        Tree,
        str,
        int,
        float,
        bool,
        date,
        list[int],
        dict[str, int],
        Item | None,
        Literal["a", "b"],
        None,
        {"type": ["string", "null"]},
        {"type": "array"},
        {"type": "string", "format": "uuid"},
        {"const": {"a": [1, None, "x"]}},
        {"type": "integer", "examples": [42]},
        {"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]},
    ],
)
def test_where_it_is_known_what_the_tool_returns_the_suggestion_answers_like_that(returns):
    args = {"order_id": 7, "status": "any", "placed": 5, "sku": "S-1"}
    options = {"returns": {"find": returns}}
    error = error_of("find", args, **options)
    assert error.suggestion.startswith('"find": lambda args: ')
    tools = Mocks(pasted(error), **options).conversation()
    virtually(resolve_all(tools, ("find", args)))
    assert tools.calls[0].error is None


def test_fields_that_are_named_and_typed_like_an_argument_repeat_it():
    def find(order_id: int, status: str) -> Order: ...

    error = error_of("find", {"order_id": 7, "status": "any"}, schemas={"find": find})
    assert pasted(error)["find"]({"order_id": 9, "status": "any"}) == {
        "order_id": 9,
        "placed": "2026-03-30",
        "status": "open",
        "items": [{"sku": "text", "price": 1.0, "tags": ["text"]}],
        "note": "text",
        "email": "ada@example.com",
        "by_name": {},
        "is_paid": True,
    }


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/gone"}, {"$ref": "#/$defs/n", "$defs": {"n": True}}])
def test_a_schema_that_leads_nowhere_is_suggested_none_for(schema):
    assert pasted(error_of("find", {}, returns={"find": schema}))["find"]({}) is None
