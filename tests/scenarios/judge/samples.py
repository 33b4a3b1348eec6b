"""A conversation to judge, and models that judge it."""

import asyncio
import json

from offbook.messages import Response, WholeReply
from offbook.providers.provider import Provider
from offbook.scenarios.mocks import MockedCall
from offbook.scenarios.result import TurnRecord
from offbook.scenarios.scenario import Scenario

REFUND = Scenario("refund", profile="Ada", goal="a refund", knowledge=("order 17",))
TURNS = (
    TurnRecord(0, "I want a refund.", "For which order?"),
    TurnRecord(
        1,
        "Order 17.",
        "Done: 30 €.",
        (
            MockedCall("find", {"id": 17}, {"paid": 30}, is_answered=True),
            MockedCall("refund", {"id": 17}, error="not allowed", is_answered=True),
            MockedCall("notify", {"id": 17}),
        ),
    ),
)


def answer(**fields):
    return Response(content=json.dumps(fields))


class ByStep(Provider):
    """Answers each call with the outcome for its step: a Response, or an error to raise. Later calls end sooner."""

    name = "by-step"

    def __init__(self, default=None, **by_metric):
        self.default = default or answer(score=1, label="none", reason="so")
        self.by_step = {f"judge.{metric}": outcome for metric, outcome in by_metric.items()}
        self.requests, self.under_way, self.most_under_way = [], 0, 0

    async def send(self, request):
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(1 / len(self.requests))
        self.under_way -= 1
        outcome = self.by_step.get(request.step_id, self.default)
        if isinstance(outcome, BaseException):
            raise outcome
        return WholeReply(outcome)


def data_of(request, tag="conversation"):
    """The data between the tags of a request."""
    content = request.messages[1]["content"]
    assert content.count(f"</{tag}>") == 1
    return json.loads(content.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0])
