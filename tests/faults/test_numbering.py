"""Numbering: which call of its step a request is, and the how-manieth of all."""

from offbook import Request
from offbook.faults.numbering import Numbering
from tests.fakes import user


def request(step_id=None, *, text="Hi", attempt=1, call=0, workflow=""):
    return Request(tuple(user(text)), "m", step_id=step_id, attempt=attempt, call=call, workflow=workflow)


def numbers(*requests):
    """The call, the overall number and the attempt of each."""
    numbering = Numbering()
    sites = [numbering.site(request) for request in requests]
    return [(site.call, site.overall, site.attempt) for site in sites]


def test_calls_are_counted_by_step_and_in_all():
    assert numbers(request("a"), request("b"), request("a"), request(), request("b")) == [
        (1, 1, 1),
        (1, 2, 1),
        (2, 3, 1),
        (1, 4, 1),
        (2, 5, 1),
    ]


def test_steps_of_other_workflows_are_other_steps():
    assert numbers(request("a", workflow="x"), request("a", workflow="y")) == [(1, 1, 1), (1, 2, 1)]


def test_a_retry_is_an_attempt_and_not_a_call():
    assert numbers(request("a"), request("a", attempt=2), request("a", attempt=3), request("a")) == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 1, 3),
        (2, 2, 1),
    ]


def test_a_retry_belongs_to_the_latest_call_that_can_be_meant():
    assert numbers(request("a"), request("a"), request("a", attempt=2)) == [(1, 1, 1), (2, 2, 1), (2, 2, 2)]


def test_retries_of_calls_under_way_at_once_are_told_apart_by_their_messages():
    first, second = {"text": "first"}, {"text": "second"}
    assert numbers(
        request("a", **first),
        request("a", **second),
        request("a", **first, attempt=2),
        request("a", **second, attempt=2),
        request("a", **first, attempt=3),
    ) == [(1, 1, 1), (2, 2, 1), (1, 1, 2), (2, 2, 2), (1, 1, 3)]


def test_a_retry_with_changed_messages_belongs_to_the_latest_call():
    assert numbers(request("a"), request("a", text="Hi again", attempt=2)) == [(1, 1, 1), (1, 1, 2)]


def test_a_retry_of_a_call_that_nobody_saw_is_the_first_call():
    assert numbers(request("a", attempt=2), request("a")) == [(1, 1, 2), (2, 2, 1)]


def test_a_number_that_a_request_carries_is_taken():
    assert numbers(request("a", call=4), request("a", call=2, attempt=2), request("a", call=4, attempt=2)) == [
        (4, 1, 1),
        (2, 2, 2),
        (4, 1, 2),
    ]
