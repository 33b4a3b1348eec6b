"""The error tree: drawn as it is, with data on every error and messages that say all of it once."""

import pickle
import re

import pytest

from offbook import errors
from offbook.agent import errors as agent_errors
from offbook.errors import (
    AllProvidersFailedError,
    Attempt,
    BudgetExceededError,
    EventLoopError,
    InputError,
    MalformedResponseError,
    OffbookError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RecordingFormatError,
    RecordingMismatchError,
    RequestError,
    ToolArgumentsError,
    ToolTimeoutError,
)


def drawn_tree(module):
    """Each error of the drawing in the module's docstring, with the one above it."""
    above, parents = [], {}
    for branch, name in re.findall(r"^([│├└─ ]*)(\w+Error)\b", module.__doc__, re.MULTILINE):
        depth = len(branch) // 4
        parents[name] = above[depth - 1] if depth else None
        above[depth:] = [name]
    return parents


@pytest.mark.parametrize("module", [errors, agent_errors])
def test_the_tree_is_as_it_is_drawn(module):
    raised = {
        name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, OffbookError)
    }
    assert drawn_tree(module) == {
        name: next((base.__name__ for base in kind.__bases__ if base.__name__ in raised), None)
        for name, kind in raised.items()
    }


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "it is wrong"),
        ({"source": "run.json"}, "run.json: it is wrong"),
        ({"place": "key 'a'"}, "key 'a': it is wrong"),
        ({"source": "run.json", "place": "key 'a'"}, "run.json: key 'a': it is wrong"),
        ({"source": "run.json", "hint": "mend it"}, "run.json: it is wrong\n  hint: mend it"),
    ],
)
@pytest.mark.parametrize("kind", [InputError, RecordingFormatError, RequestError])
def test_an_input_error_says_where_why_and_what_to_do(kind, parts, message):
    error = kind("it is wrong", **parts)
    assert str(error) == message
    assert (error.reason, error.source, error.place, error.hint) == (
        "it is wrong",
        *(parts.get(name, "") for name in ("source", "place", "hint")),
    )


def test_a_provider_error_carries_its_data_and_names_the_provider_once():
    headers = {"x": "1"}
    error = ProviderError("HTTP 500: oh", provider="openai", status_code=500, headers=headers, body="oh")
    headers.clear()
    assert str(error) == "openai: HTTP 500: oh"
    assert error.provider == "openai"
    assert error.status_code == 500
    assert error.headers == {"x": "1"}
    assert error.body == "oh"
    bare = ProviderError("odd")
    assert str(bare) == "odd"
    assert bare.provider == ""
    assert bare.status_code is None
    assert bare.headers == {}
    assert bare.body == ""


def test_a_rate_limit_has_status_429_and_a_time_to_wait_if_that_was_sent():
    assert RateLimitError("slow down", retry_after_s=2.5).retry_after_s == 2.5
    error = RateLimitError("slow down", provider="openai", headers={"a": "b"}, body="c")
    assert error.status_code == 429
    assert error.retry_after_s is None
    assert error.headers == {"a": "b"}
    assert error.body == "c"


def test_timeouts_and_broken_connections_are_caught_by_their_builtin_names():
    assert isinstance(ProviderTimeoutError("late"), TimeoutError)
    assert isinstance(ProviderConnectionError("reset"), ConnectionError)
    assert not isinstance(ProviderTimeoutError("late"), ConnectionError)
    assert str(ProviderTimeoutError("late", provider="p")) == "p: late"


def test_a_malformed_response_carries_what_arrived():
    error = MalformedResponseError("no JSON", provider="p", raw="<html>")
    assert error.raw == "<html>"
    assert error.body == "<html>"
    assert error.status_code is None
    assert str(error) == "p: no JSON"


def test_a_mismatch_carries_its_kind_its_key_and_the_difference():
    error = RecordingMismatchError("step 'a' drifted:", kind="drifted", key="a", difference="  -x\n  +y")
    assert error.kind == "drifted"
    assert error.key == "a"
    assert error.difference == "  -x\n  +y"
    assert str(error) == "step 'a' drifted:\n  -x\n  +y"
    assert str(RecordingMismatchError("gone", kind="missing")) == "gone"


def test_only_failed_calls_are_provider_errors():
    for other in (InputError("x"), RecordingMismatchError("x", kind="missing"), EventLoopError("x")):
        assert isinstance(other, OffbookError)
        assert not isinstance(other, ProviderError)


PICKLED = [
    InputError("wrong", source="a.json", place="line 1", hint="mend it"),
    RateLimitError("slow down", provider="openai", headers={"Retry-After": "3"}, body="b", retry_after_s=3.0),
    ProviderTimeoutError("late", provider="openai"),
    ProviderConnectionError("reset", provider="openai"),
    MalformedResponseError("what?", raw="{"),
    RecordingMismatchError("no answer", kind="missing", key="greet", difference="- a"),
    AllProvidersFailedError([Attempt("openai", 1, ProviderError("down", status_code=500), 0.5)]),
    BudgetExceededError(spent_usd=2.0, limit_usd=1.0),
    ToolArgumentsError(["city: missing"], tool="find"),
    ToolTimeoutError(tool="find", timeout_s=2.5),
]


@pytest.mark.parametrize("error", PICKLED, ids=lambda error: type(error).__name__)
def test_an_error_crosses_to_another_process_whole(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.__dict__.keys() == error.__dict__.keys()
    assert repr(arrived.__dict__) == repr(error.__dict__)
