"""The scenarios that are measured: users by script and users whom a model plays, and what answers for the models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.workload import COST_USD, MODEL, USAGE
from offbook import MockProvider, Provider, RecordingProvider, Request, Response
from offbook.config.agents import RetryingAgent
from offbook.config.file import Config, JudgeConfig, UserConfig
from offbook.config.participants import judge_maker, user_maker
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.messages import JsonObject, Reply, ToolCall, WholeReply
from offbook.scenarios import (
    HandlerContext,
    HandlerTarget,
    Participants,
    RunRules,
    Scenario,
    ScenarioRunner,
    SuiteResult,
    Trajectory,
    expected,
    scenario,
    turn,
)

Kind = Literal["scripted", "simulated"]
CONVERSATIONS, TURNS = 5, 2
RULES = RunRules(conversations=CONVERSATIONS)
CONFIG = Config(
    user=UserConfig(provider="openai", model=MODEL),
    judge=JudgeConfig(provider="openai", model=MODEL, metrics=("helpfulness", "goal_completion")),
)
LOOKED_UP = Trajectory("contains", [expected("find_order", exactly=TURNS)], forbidden=["refund"])
MOCKS = {"find_order": lambda args: {"id": args["id"], "status": "sent"}, "refund": {"paid": True}}


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response:
    """An agent that asks its model, and hands its tool calls back."""
    assert ctx.provider is not None
    return await ctx.provider.complete(messages, MODEL, step_id="agent")


def scenario_at(index: int, kind: Kind) -> Scenario:
    """The scenario of an index; no two have the same name, or say the same."""
    if kind == "scripted":
        expected_calls = Trajectory("strict", [expected("find_order", args={"id": 17})])
        turns = [
            turn(f"Where is parcel {number} of order {index}?", assertions=expected_calls) for number in range(TURNS)
        ]
        return scenario(f"scripted {index}", turns=turns, mocks=MOCKS, assertions=LOOKED_UP)
    goal, known = f"Find out where order {index} is.", ["The order is number 17.", "It was paid in March."]
    return scenario(f"simulated {index}", goal=goal, knowledge=known, mocks=MOCKS, assertions=LOOKED_UP)


class PlayedModel(Provider):
    """Answers for the agent, the user and the judge, by the step of a call. Keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        return WholeReply(_response(request))


def _response(request: Request) -> Response:
    last, step = request.messages[-1], str(request.step_id)
    if "/judge." in step:
        return _said('{"reason": "It is as it should be.", "score": 1}')
    if step.endswith("/user"):
        is_done = str(last["content"]).count('"you":') == TURNS
        return _said(f'{{"reason": "So it goes.", "message": "Where is it?", "stop": {str(is_done).lower()}}}')
    if last["role"] == "tool":
        return _said("It is on its way.")
    call = ToolCall("find_order", {"id": 17}, id=f"call_{len(request.messages)}")
    return Response("", MODEL, "openai", USAGE, COST_USD, finish_reason="tool_calls", tool_calls=(call,))


def _said(text: str) -> Response:
    return Response(text, MODEL, "openai", USAGE, COST_USD)


class Talks:
    """A suite of scenarios with its recording, and the requests that a run of it makes."""

    def __init__(self, scenarios: Sequence[Scenario], path: Path) -> None:
        self.scenarios, self.path = scenarios, path
        self.requests: list[Request] = []

    @property
    def conversations(self) -> int:
        return len(self.scenarios) * CONVERSATIONS

    async def record(self) -> None:
        """Hold every conversation once, and keep all calls of models."""
        model = PlayedModel()
        async with RecordingProvider(model, self.path, record="all") as recorder:
            assert (await self.run(recorder)).passed
        self.requests = model.requests

    def replay(self) -> MockProvider:
        """The recording from its start, read and ready."""
        provider = MockProvider(self.path, strict=True)
        assert provider.answers(self.requests[0])
        return provider

    async def run(self, provider: Provider) -> SuiteResult:
        """Hold every conversation, by the parts that a config makes."""
        agent = RetryingAgent(HandlerTarget("agent", handle), retry=DEFAULT_RETRY)
        participants = Participants(
            {"agent": agent}, provider, user_maker(CONFIG, self.scenarios), judge_maker(CONFIG, self.scenarios)
        )
        return await ScenarioRunner(participants, RULES).run(self.scenarios)

    async def call(self, provider: Provider) -> None:
        """Make the same calls without conversations, one after the other."""
        for request in self.requests:
            await (await provider.send(request)).collect()
