"""A pydantic model as parameters: it judges in its own way, and what it finds is told in words for a model."""

from datetime import date
from typing import Callable  # noqa: UP035

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from offbook.errors import InputError, ToolArgumentsError
from offbook.tools.pydantic_parameters import ModelParameters


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, gt=0)


class Order(BaseModel):
    order_id: int
    items: list[Item] = []
    contact: int | str | None = None
    title: str = ""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = 0


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


class Span(BaseModel):
    start: int
    end: int

    @field_validator("start")
    @classmethod
    def is_even(cls, value):
        if value % 2:
            raise AssertionError("must be even")
        return value

    @model_validator(mode="after")
    def is_forward(self):
        if self.end < self.start:
            raise ValueError("the end is before the start")
        return self


def problems(model, args):
    with pytest.raises(ToolArgumentsError) as caught:
        ModelParameters(model, tool="find").check(args)
    assert caught.value.tool == "find"
    return caught.value.problems


def test_the_schema_has_no_titles_but_keeps_an_argument_of_that_name():
    schema = ModelParameters(Order, tool="find").schema
    assert schema["properties"]["title"] == {"default": "", "type": "string"}
    assert schema["properties"]["order_id"] == {"type": "integer"}
    assert schema["$defs"]["Item"]["properties"]["sku"] == {"type": "string"}
    assert "title" not in schema
    assert "title" not in schema["$defs"]["Item"]


def test_arguments_that_fit_pass():
    ModelParameters(Order, tool="find").check({"order_id": 42, "items": [{"sku": "a"}], "contact": "me"})


def test_a_wrong_value_is_reported_with_its_path_the_reason_and_what_was_given():
    assert problems(Order, {"order_id": [], "items": [{"sku": "a"}, {"sku": "b", "count": 0}]}) == (
        "order_id: Input should be a valid integer (got [])",
        "items[1].count: Input should be greater than 0 (got 0)",
    )


def test_missing_arguments_are_named():
    assert problems(Order, {"items": [{}]}) == ("order_id: missing", "items[0].sku: missing")


def test_unexpected_arguments_are_the_models_affair():
    ModelParameters(Order, tool="find").check({"order_id": 1, "extra": 2})
    assert problems(Closed, {"a": 1, "b": 2}) == ("b: unexpected, there is no such argument",)


def test_the_branches_of_a_union_are_no_part_of_the_path():
    assert problems(Order, {"order_id": 1, "contact": []}) == (
        "contact: Input should be a valid integer (got [])",
        "contact: Input should be a valid string (got [])",
    )


def test_what_validators_say_is_reported_without_pydantics_words():
    assert problems(Span, {"start": 3, "end": 4}) == ("start: must be even (got 3)",)
    assert problems(Span, {"start": 4, "end": 2}) == ("the end is before the start",)


def test_a_strict_model_judges_arguments_as_the_json_that_they_were():
    ModelParameters(Strict, tool="find").check({"day": "2024-02-29"})
    assert problems(Strict, {"day": "2023-02-29"})[0].startswith("day: Input should be a valid date")
    assert problems(Strict, {"day": object()})[0].startswith("day: Input should be a valid date")


def test_the_error_says_it_all_and_no_web_address():
    with pytest.raises(ToolArgumentsError) as caught:
        ModelParameters(Order, tool="find").check({})
    assert str(caught.value) == "wrong arguments for find:\norder_id: missing"


def test_a_model_without_a_json_schema_is_refused_by_name():
    class Odd(BaseModel):
        hook: Callable[[], int]

    with pytest.raises(InputError, match=r"(?s)^find: Odd: .*JsonSchema"):
        _ = ModelParameters(Odd, tool="find").schema
