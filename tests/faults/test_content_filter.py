"""The content_filter fault."""

from offbook import MockProvider, Response, StreamEnd
from tests.fakes import events_of, user

WITHHELD = Response(model="gpt-4o", provider="mock", finish_reason="content_filter")


async def test_the_answer_is_withheld_and_says_so():
    mock = MockProvider(responses={"a": {"content": "never seen", "fault": {"type": "content_filter"}}})
    assert await mock.complete(user("Hi"), "gpt-4o", step_id="a") == WITHHELD
    assert await events_of(await mock.stream(user("Hi"), "gpt-4o", step_id="a")) == [StreamEnd(WITHHELD)]
