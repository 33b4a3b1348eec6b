"""The stream_truncate fault."""

import pytest

from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.messages import ReasoningDelta, TextDelta

ENDINGS = {
    "ConnectionError": ProviderConnectionError,
    "TimeoutError": ProviderTimeoutError,
    "clean": ProviderConnectionError,
    "cut": ProviderConnectionError,
    "error_event": ProviderError,
    "malformed": MalformedResponseError,
}


def truncate(**fields):
    return {"type": "stream_truncate"} | fields


@pytest.mark.parametrize(("ending", "error_type"), ENDINGS.items())
def test_it_yields_so_many_events_and_then_ends_that_way(strike, ending, error_type):
    came, error, _ = strike(truncate(after_chunks=2, **{"raise": ending}), content="one two three")
    assert came == [TextDelta("one"), TextDelta(" two")]
    assert type(error) is error_type
    assert "2 chunks" in str(error)
    assert error.provider == "mock"


@pytest.mark.parametrize(("ending", "error_type"), ENDINGS.items())
def test_a_whole_answer_is_never_complete(strike, ending, error_type):
    came, error, _ = strike(truncate(after_chunks=1, **{"raise": ending}), stream=False, content="one two")
    assert type(error) is error_type
    assert len(came) <= 1


def test_every_ending_is_told_in_words_of_its_own(strike):
    told = [str(strike(truncate(**{"raise": ending}), content="one")[1]) for ending in ENDINGS]
    assert len(set(told)) == len(ENDINGS)


def test_by_default_the_connection_breaks_before_the_first_event(strike):
    came, error, _ = strike(truncate(), content="never seen")
    assert (came, type(error)) == ([], ProviderConnectionError)


def test_a_stream_that_is_too_short_breaks_at_its_end(strike):
    came, error, _ = strike(truncate(after_chunks=100), content="one two")
    assert [event.text for event in came] == ["one", " two"]
    assert isinstance(error, ProviderConnectionError)


def test_without_content_nothing_comes(strike):
    came, error, _ = strike(truncate(after_chunks=3))
    assert came == []
    assert isinstance(error, ProviderConnectionError)


def test_events_of_every_kind_count(strike):
    came, _, _ = strike(truncate(after_chunks=2), reasoning="Hm.", content="one two")
    assert came == [ReasoningDelta("Hm."), TextDelta("one")]
