"""The boundary where httpx2's errors become ours is complete."""

import inspect

import httpx2
import pytest

from offbook.errors import (
    InputError,
    MalformedResponseError,
    OffbookError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from offbook.providers.http import translate_errors

EXPECTED = {
    httpx2.CloseError: ProviderConnectionError,
    httpx2.ConnectError: ProviderConnectionError,
    httpx2.ConnectTimeout: ProviderTimeoutError,
    httpx2.CookieConflict: ProviderError,
    httpx2.DecodingError: MalformedResponseError,
    httpx2.HTTPError: ProviderError,
    httpx2.HTTPStatusError: ProviderError,
    httpx2.InvalidURL: InputError,
    httpx2.LocalProtocolError: ProviderConnectionError,
    httpx2.NetworkError: ProviderConnectionError,
    httpx2.PoolTimeout: ProviderTimeoutError,
    httpx2.ProtocolError: ProviderConnectionError,
    httpx2.ProxyError: ProviderConnectionError,
    httpx2.ReadError: ProviderConnectionError,
    httpx2.ReadTimeout: ProviderTimeoutError,
    httpx2.RemoteProtocolError: ProviderConnectionError,
    httpx2.RequestError: ProviderError,
    httpx2.RequestNotRead: ProviderConnectionError,
    httpx2.ResponseNotRead: ProviderConnectionError,
    httpx2.SSEError: MalformedResponseError,
    httpx2.StreamClosed: ProviderConnectionError,
    httpx2.StreamConsumed: ProviderConnectionError,
    httpx2.StreamError: ProviderConnectionError,
    httpx2.TimeoutException: ProviderTimeoutError,
    httpx2.TooManyRedirects: MalformedResponseError,
    httpx2.TransportError: ProviderConnectionError,
    httpx2.UnsupportedProtocol: InputError,
    httpx2.WriteError: ProviderConnectionError,
    httpx2.WriteTimeout: ProviderTimeoutError,
}


def exported_errors():
    """Every error class that httpx2 exports, and their subclasses in httpx2, but for those that faults are made of."""
    found = {kind for kind in vars(httpx2).values() if inspect.isclass(kind) and issubclass(kind, Exception)}
    waiting = list(found)
    while waiting:
        kinds = {kind for kind in waiting.pop().__subclasses__() if kind.__module__.startswith("httpx2")}
        waiting += kinds - found
        found |= kinds
    return {kind for kind in found if not issubclass(kind, (Warning, OffbookError))}


def instance_of(kind):
    """An error of this class with the message "told", however its constructor wants it."""
    error = kind.__new__(kind)
    Exception.__init__(error, "told")
    return error


def raised_through(error, provider="mine"):
    """What comes out of the boundary when `error` is raised inside."""
    with pytest.raises(OffbookError) as caught, translate_errors(provider):
        raise error
    return caught.value


def test_every_error_of_httpx2_has_an_expectation():
    assert exported_errors() == set(EXPECTED)


@pytest.mark.parametrize(("kind", "expected"), EXPECTED.items(), ids=lambda kind: kind.__name__)
def test_an_error_of_httpx2_becomes_ours(kind, expected):
    error = instance_of(kind)
    ours = raised_through(error)
    assert type(ours) is expected
    assert ours.__cause__ is error
    assert "mine" in str(ours)
    assert f"{kind.__name__}: told" in str(ours)


def test_an_error_without_a_message_is_reported_by_its_name():
    assert "ReadError" in str(raised_through(httpx2.ReadError("")))
    assert "ReadError:" not in str(raised_through(httpx2.ReadError("")))


@pytest.mark.parametrize("kind", [httpx2.ConnectError, httpx2.ConnectTimeout])
def test_a_connection_that_cannot_be_made_names_the_server_and_no_secret(kind):
    request = httpx2.Request("POST", "http://user:secret@127.0.0.1:9/v1/chat?key=hidden")
    message = str(raised_through(kind("", request=request)))
    assert message == f"mine: no connection to http://127.0.0.1:9 ({kind.__name__})"


def test_our_timeout_is_a_timeout_to_everyone():
    assert isinstance(raised_through(httpx2.ReadTimeout("late")), TimeoutError)


def test_our_broken_connection_is_a_broken_connection_to_everyone():
    assert isinstance(raised_through(httpx2.ReadError("reset")), ConnectionError)


def test_an_error_of_a_codec_gets_the_name_of_the_provider():
    error = MalformedResponseError("no choices", raw="{}")
    ours = raised_through(error)
    assert ours is error
    assert ours.provider == "mine"
    assert str(ours) == "mine: no choices"
    assert ours.raw == "{}"


def test_an_error_that_has_a_name_keeps_it():
    error = RateLimitError("slow down", provider="theirs")
    ours = raised_through(error)
    assert ours is error
    assert ours.provider == "theirs"
    assert str(ours) == "theirs: slow down"


def test_an_error_is_named_once_however_many_boundaries_it_passes():
    ours = raised_through(raised_through(httpx2.ReadError("reset"), "inner"), "outer")
    assert str(ours) == "inner: ReadError: reset"


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), OSError("x")], ids=repr)
def test_an_error_that_is_nobody_of_theirs_passes_as_it_is(error):
    with pytest.raises(type(error)) as caught, translate_errors("mine"):
        raise error
    assert caught.value is error


def test_where_nothing_fails_nothing_happens():
    with translate_errors("mine"):
        pass
