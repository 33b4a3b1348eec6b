"""What an exchange says was asked."""

import orjson
import pytest
from msgspec import Raw

from offbook.recording.format.exchange import Exchange, RecordedToolCall

MODELS = {"method": "GET", "path": "/v1/models?limit=1", "body": None}


def exchange_with(request):
    return Exchange(request=Raw(orjson.dumps(request)))


def test_a_call_of_plain_http_has_a_place_and_is_no_request_of_a_model():
    exchange = exchange_with(MODELS)
    assert exchange.http_fields() == MODELS
    assert exchange.http_place() == "GET /v1/models?limit=1"
    assert exchange.request_fields() is None


@pytest.mark.parametrize(
    "request_",
    [{"method": "GET"}, {"path": "/"}, {"method": 1, "path": "/"}, [1], "GET /", MODELS | {"messages": []}],
)
def test_what_is_none_has_no_place(request_):
    assert exchange_with(request_).http_fields() is None
    assert exchange_with(request_).http_place() == ""
    assert Exchange().http_place() == ""


def test_a_place_is_one_harmless_line():
    assert exchange_with({"method": "GET", "path": "/\n\x1b[2J"}).http_place() == "GET /  [2J"


def test_an_argument_that_is_larger_than_any_float_is_replayed():
    arguments = {"n": 10**400}
    exchange = Exchange(tool_calls=[RecordedToolCall(name="count", arguments=arguments)])
    (call,) = exchange.response(model="m", provider="p").tool_calls
    assert call.args == arguments
    assert call.args is not arguments
