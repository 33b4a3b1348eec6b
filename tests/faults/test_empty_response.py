"""The empty_response fault."""

from offbook import MockProvider, Response, StreamEnd
from tests.fakes import events_of, user

EMPTY = Response(model="gpt-4o", provider="mock", finish_reason="stop")


async def test_the_answer_says_nothing_as_if_all_were_well():
    mock = MockProvider(responses={"a": {"content": "never seen", "fault": {"type": "empty_response"}}})
    assert await mock.complete(user("Hi"), "gpt-4o", step_id="a") == EMPTY
    assert await events_of(await mock.stream(user("Hi"), "gpt-4o", step_id="a")) == [StreamEnd(EMPTY)]
