"""What an SDK makes of a value is remembered by the value: nobody can tell the difference."""

import asyncio
import math
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._utils import _transform
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import BaseModel

from offbook.providers.first_use import MAX_TRANSFORM_BYTES, TransformMemory, remember_transforms, remember_urls

REAL, REAL_ASYNC = _transform._transform_recursive, _transform._async_transform_recursive
ANNOTATION = get_type_hints(CompletionCreateParamsNonStreaming, include_extras=True)["messages"]
MESSAGE = get_args(get_args(ANNOTATION)[0])[0]


class Tool(BaseModel):
    name: str = "find"


TEXTS = st.sampled_from(["", "user", "tool", "text", "ü"])
LEAVES = st.none() | st.booleans() | st.integers(0, 2) | st.floats(allow_nan=False) | TEXTS
ODD = st.sampled_from([Tool(), datetime(2026, 1, 1, tzinfo=UTC), _transform.PropertyInfo()])
KEYS = st.sampled_from(["role", "content", "tool_calls", "function", "image_url", "url", "name", "other"])
VALUES = st.recursive(
    LEAVES | ODD, lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=3), max_leaves=6
)
MESSAGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=4)


def types_in(value: Any) -> Any:
    """Return a value in which 1, 1.0 and True are different."""
    if isinstance(value, dict):
        return [(key, types_in(each)) for key, each in value.items()]
    return [types_in(each) for each in value] if isinstance(value, list) else (type(value), value)


@given(MESSAGES)
def test_every_message_becomes_what_the_sdk_makes_of_it_every_time(messages: list[Any]) -> None:
    memory = TransformMemory()
    transform, transform_async = memory.remembering(REAL), memory.remembering_async(REAL_ASYNC)
    for message in [*messages, *deepcopy(messages)]:
        expected = types_in(REAL(message, annotation=ANNOTATION, inner_type=MESSAGE))
        assert types_in(transform(message, annotation=ANNOTATION, inner_type=MESSAGE)) == expected
        made = asyncio.run(transform_async(message, annotation=ANNOTATION, inner_type=MESSAGE))
        assert types_in(made) == expected


@given(MESSAGES)
def test_every_list_becomes_what_the_sdk_makes_of_it_every_time(messages: list[Any]) -> None:
    memory = TransformMemory()
    transform, transform_async = memory.remembering(REAL), memory.remembering_async(REAL_ASYNC)
    for each in (messages, deepcopy(messages)):
        expected = types_in(REAL(each, annotation=ANNOTATION))
        assert types_in(transform(each, annotation=ANNOTATION)) == expected
        assert types_in(asyncio.run(transform_async(each, annotation=ANNOTATION))) == expected


def test_a_known_list_or_text_is_not_made_again() -> None:
    made = []
    transform = TransformMemory().remembering(lambda data, **_: made.append(data) or data)
    for value in ("gpt-4o", ["a"], "gpt-4o", ["a"], "a"):
        assert transform(value, annotation=ANNOTATION) == value
    assert made == ["gpt-4o", ["a"], "a"]


def test_a_known_message_is_not_made_again_and_each_caller_has_its_own_copy() -> None:
    made = []
    transform = TransformMemory().remembering(lambda data, **_: made.append(data) or {"of": [data["n"]]})
    for number in (1, 1, True, 1.0, math.inf):
        result = transform({"n": number}, annotation=ANNOTATION, inner_type=MESSAGE)
        assert types_in(result) == [("of", [(type(number), number)])]
        result["of"].append("changed")
    assert [type(each["n"]) for each in made] == [int, bool, float, float]


def test_large_values_and_whole_requests_are_left_to_the_sdk() -> None:
    made = []
    transform = TransformMemory().remembering(lambda data, **_: made.append(data) or data)
    for _ in range(2):
        transform({"content": "x" * MAX_TRANSFORM_BYTES}, annotation=ANNOTATION, inner_type=MESSAGE)
        transform({"content": "x"}, annotation=ANNOTATION)
    assert len(made) == 4


def test_a_function_that_something_has_replaced_stays_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def mock(data: Any, *, annotation: Any, inner_type: Any = None) -> Any:
        return data

    monkeypatch.setattr(_transform, "_async_transform_recursive", mock)
    remember_transforms()
    assert _transform._transform_recursive is REAL


def test_the_sdk_sends_what_it_did_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transform, "_transform_recursive", REAL)
    monkeypatch.setattr(_transform, "_async_transform_recursive", REAL_ASYNC)
    body: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
    expected = _transform.maybe_transform(body, CompletionCreateParamsNonStreaming)
    remember_transforms()
    assert _transform._transform_recursive is not REAL
    assert [_transform.maybe_transform(body, CompletionCreateParamsNonStreaming) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_the_parts_of_a_known_url_are_not_found_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, urls, parsing = (pytest.importorskip(f"{name}{part}") for part in ("", "._urls", "._urlparse"))
    for module in (urls, parsing):
        monkeypatch.setattr(module, "urlparse", parsing.urlparse)
    texts = ["http://127.0.0.1:80/v1/", "HTTPS://a%40b:c@müller.de/p?q=1#f", "//[::1]/x"]
    expected = [(str(client.URL(each).copy_with(path="/new")), client.URL(each).port) for each in texts]
    remember_urls()
    for _ in range(2):
        assert [(str(client.URL(each).copy_with(path="/new")), client.URL(each).port) for each in texts] == expected
        with pytest.raises(client.InvalidURL):
            client.URL("http://a:b/")
    assert urls.urlparse(texts[0]) is urls.urlparse(texts[0])


def test_a_parser_of_urls_that_something_has_replaced_stays_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing = pytest.importorskip("httpx._urlparse")
    monkeypatch.setattr(parsing, "urlparse", mock := lambda url="": url)
    remember_urls()
    assert parsing.urlparse is mock
