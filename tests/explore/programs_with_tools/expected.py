"""The programs of this folder, and what an exploration is to say of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

FIND = {"find_order": {"read_only": True}}
EFFECT = {"effect": True}
DONE = {"content": "It is refunded."}


def asks(*calls: tuple[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return an answer that asks for tools."""
    return {
        "tool_calls": [
            {"id": f"{tool}-{arguments['order']}", "name": tool, "arguments": arguments} for tool, arguments in calls
        ]
    }


class Program(Struct, frozen=True, kw_only=True):
    """A program with the answers of its model, and the tools of its `offbook.toml`.

    A sound one has no `verdict`: nothing may be found in it. A defect is to get the `verdict` in the case `at`, with
    the `evidence`; `also` are other findings that it leads to elsewhere.
    """

    command: tuple[str, ...]
    answers: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Mapping[str, Any]]
    package: str = "openai"
    verdict: str = ""
    at: str = ""
    evidence: str = ""
    also: Sequence[str] = ()

    @property
    def name(self) -> str:
        return " ".join(self.command).replace(".py", "")


def by_hand(
    file: str, find_order: str, refund: str, *, package: str = "openai", orders: Sequence[int] = (7,)
) -> Program:
    """Return a sound program that calls its tools in a loop of its own."""
    prices = {7: 30, 8: 50}
    return Program(
        command=(file,),
        package=package,
        answers=[
            asks(*(("find_order", {"order": order}) for order in orders)),
            asks(*(("refund", {"order": order, "amount": prices[order]}) for order in orders)),
            DONE,
        ],
        tools={
            "find_order": {"function": find_order, "read_only": True},
            "refund": {"function": refund, "effect": True},
        },
    )


BY_HAND = [
    by_hand("openai_sync.py", "__main__:find_order", "shop:refund"),
    by_hand("openai_async.py", "shop:Shop.find_order_later", "openai_async:refund", orders=(7, 8)),
    by_hand("anthropic_stream.py", "shop:find_order", "__main__:Till.refund", package="anthropic"),
    by_hand("openai_responses.py", "shop:Shop.find_order", "openai_responses:Till.refund"),
    by_hand("gemini.py", "gemini:find_order", "shop:Shop.refund", package="google.genai"),
]


class Planted(Struct, frozen=True, kw_only=True):
    """What is expected of an agent with a defect, whatever framework it uses. `sound_tools` are those of its twin."""

    answers: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Mapping[str, Any]]
    sound_tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    verdict: str
    at: str
    evidence: str
    also: Sequence[str] = ()


REFUND = asks(("refund", {"order": 7}))
PLANTED = {
    # a lost answer: the refund was made, and is made again
    "retries": Planted(
        answers=[REFUND, DONE],
        tools={"refund": EFFECT},
        sound_tools={"refund": {"effect": True, "idempotent": "order"}},
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order=7) ran 2 times instead of once",
    ),
    # one of two parallel tools fails, and both run again
    "starts_over": Planted(
        answers=[asks(("refund", {"order": 7}), ("find_order", {"order": 7})), DONE],
        tools={"refund": EFFECT, **FIND},
        verdict="repeated effect",
        at="tool=find_order call=1: tool_error",
        evidence="refund(order=7) ran 2 times instead of once",
    ),
    # nothing was paid, and the customer hears that it was; if only the answer was lost, a failed call goes unnoticed
    "is_cheerful": Planted(
        answers=[REFUND, DONE],
        tools={"refund": EFFECT},
        verdict="missing effect",
        at="tool=refund call=1: tool_error",
        evidence="refund(order=7) did not run",
        also=["undetected (went on without)"],
    ),
    # the price of order 7 is paid for order 8
    "is_stale": Planted(
        answers=[asks(("find_order", {"order": 7})), asks(("find_order", {"order": 8})), {"content": "Pay."}],
        tools={"refund": {"function": "shop:refund", "effect": True}, **FIND},
        verdict="wrong effect",
        at="tool=find_order call=2: tool_error",
        evidence="refund(order=8, amount=30)",
    ),
}
# those that start the whole run over also send a model the request again that it has refused
RESTARTING = ["bad retry (in vain)", "bad retry (too soon)", "bad retry (storm)"]
FRAMEWORKS = {
    "with_langgraph.py": ("langgraph", {}),
    "with_pydantic_ai.py": ("pydantic_ai", {"starts_over": RESTARTING}),
    "with_openai_agents.py": ("agents", {"starts_over": RESTARTING}),
}


def with_framework(file: str, agent: str) -> list[Program]:
    """Return an agent with a defect, and its sound twin."""
    planted, (package, also) = PLANTED[agent], FRAMEWORKS[file]
    defect = Program(
        command=(file, agent, "defect"),
        answers=planted.answers,
        tools=planted.tools,
        package=package,
        verdict=planted.verdict,
        at=planted.at,
        evidence=planted.evidence,
        also=[*planted.also, *also.get(agent, ())],
    )
    tools = {**planted.tools, **planted.sound_tools}
    return [
        defect,
        Program(command=(file, agent, "sound"), answers=planted.answers, tools=tools, package=package),
    ]


EXPECTED = [*BY_HAND, *(each for file in FRAMEWORKS for agent in PLANTED for each in with_framework(file, agent))]
