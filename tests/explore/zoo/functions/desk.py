"""A desk that refunds orders, as it should be. The agents beside it each take one decision of it differently."""

from __future__ import annotations

import json
from typing import Any

from offbook import tool
from offbook.errors import ProviderError
from offbook.messages import Response
from offbook.tools import Toolbox
from tests.explore.zoo.ledger import note

STEP, MODEL, ORDER = "agent", "gpt-4o", 42
DONE = "Order 42 is refunded."
TICKET = [
    {"role": "system", "content": "You refund orders."},
    {"role": "user", "content": "Order 42 never came."},
]


class GaveUpError(Exception):
    """What the agents are declared to raise when they give up."""


def asks_for(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """An answer that asks for tools, as it is recorded."""
    return {
        "content": "",
        "tool_calls": [
            {"id": f"call_{tool}_{place}", "name": tool, "arguments": arguments}
            for place, (tool, arguments) in enumerate(calls, 1)
        ],
    }


REFUND = {STEP: [asks_for(("refund", {"order_id": 42})), {"content": DONE}]}
FIND_AND_REFUND = {STEP: [asks_for(("find_order", {"order_id": 42})), *REFUND[STEP]]}


@tool(read_only=True)
def find_order(order_id: int) -> dict[str, Any]:
    """Look up an order."""
    return {"order_id": order_id, "status": "lost"}


@tool(side_effect=True)
def refund(order_id: int) -> dict[str, Any]:
    """Give the customer the money back."""
    note("refund", order_id=order_id)
    return {"refunded": order_id}


TOOLS = Toolbox([find_order, refund])


RETRYABLE = (None, 408, 409, 425, 500, 502, 504, 529)
"""The statuses after which the same request may be answered; 429 and 503 may ask for a longer wait."""


def is_complete(answer: Response) -> bool:
    """Whether an answer has been written to its end, and is one."""
    return answer.finish_reason in ("stop", "tool_calls") and bool(answer.tool_calls or answer.content.strip())


def asking(provider, *, tools=TOOLS, model=MODEL):
    """Asks a provider once. An answer that is not complete is an error."""

    async def ask(messages):
        try:
            answer = await provider.complete(messages, model, tools=tools.functions, step_id=STEP)
        except ProviderError as error:
            raise GaveUpError("the model does not answer") from error
        if not is_complete(answer):
            raise GaveUpError(f"the answer is not complete: {answer.finish_reason}")
        return answer

    return ask


async def text_of(ask, question: str) -> str:
    """The text that answers one question."""
    answer = await ask([{"role": "user", "content": question}])
    if answer.tool_calls:
        raise GaveUpError("the model wants to use a tool, where it was to answer")
    return answer.content


class Till:
    """Uses the tools of one conversation: those of the customer's order alone, and a refund at most once."""

    def __init__(self, tools: Toolbox) -> None:
        self.tools, self.tried, self.results = tools, set(), {}

    @property
    def has_paid(self) -> bool:
        return "refund" in self.results

    async def use(self, call) -> str:
        """Return what the model is told."""
        if call.tool not in self.tools or call.raw_arguments is not None:
            return "error: there is no such tool, or its arguments are not JSON"
        if call.args != {"order_id": ORDER}:
            return "error: this is not the customer's order"
        if call.tool not in self.results:
            self.tried.add(call.tool)
            self.results[call.tool] = await self.run(call)
        return json.dumps(self.results[call.tool])

    async def run(self, call):
        try:
            result = self.tools[call.tool].callable(**call.args)
        except Exception as error:
            raise GaveUpError(f"{call.tool} failed, somebody has to look at it") from error
        return self.check(result)

    def check(self, result):
        if not isinstance(result, dict) or ORDER not in result.values():
            raise GaveUpError("a tool returned nonsense, somebody has to look at it")
        return result


async def converse(ask, use, *, ticket=TICKET, turns=6):
    """Ask, use the tools that are asked for, and so on until there is a text."""
    messages = list(ticket)
    for _ in range(turns):
        answer = await ask(messages)
        if not answer.tool_calls:
            return answer.content
        messages.append(answer.to_message().to_dict())
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": await use(call)} for call in answer.tool_calls
        ]
    raise GaveUpError("the model does not come to an end")


async def serve(ask, till: Till, *, turns=6):
    """A whole conversation, after which the order is refunded."""
    text = await converse(ask, till.use, turns=turns)
    if not till.has_paid:
        raise GaveUpError(f"the model says it is done, and nothing was paid: {text}")
    return text


async def serves(offbook, *, till=Till, turns=6):
    """The desk as it should be, with another till or other patience than it should have."""
    return await serve(asking(offbook.gateway), till(offbook.tools(TOOLS)), turns=turns)
