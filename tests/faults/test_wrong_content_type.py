"""The wrong_content_type fault."""

import pytest

from offbook import At, FaultPlan, WrongContentType
from offbook.errors import InputError, MalformedResponseError


@pytest.mark.parametrize(("stream", "expected"), [(True, "an event stream"), (False, "JSON")])
def test_it_says_as_what_the_answer_came_and_as_what_it_should_have(strike, stream, expected):
    came, error, _ = strike({"type": "wrong_content_type", "content_type": "text/plain"}, stream=stream)
    assert (came, type(error)) == ([], MalformedResponseError)
    assert str(error) == f"mock: the answer came as 'text/plain', not as {expected}"


def test_by_default_the_answer_is_a_page_for_people(strike):
    _, error, _ = strike({"type": "wrong_content_type"})
    assert "'text/html; charset=utf-8'" in str(error)


@pytest.mark.parametrize(
    "content_type", ["", " ", " a", "a ", "a\n", "a\r\nx: y", "a\tb", "\x00", "a\x7f", "ä", "a\u2028"]
)
def test_what_no_header_may_have_is_refused(content_type):
    with pytest.raises(InputError, match="content_type"):
        FaultPlan([At().fail(WrongContentType(content_type))])


@pytest.mark.parametrize("content_type", ["a", "text/html", 'multipart/mixed; boundary="a b"', "~!"])
def test_any_other_text_is_taken(content_type):
    plan = FaultPlan([At().fail(WrongContentType(content_type))])
    assert plan.faults[0].fault.content_type == content_type
