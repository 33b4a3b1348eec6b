"""A desk that refunds orders: what the agents in this process share, and the recording that they run on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from offbook import RecordingProvider, run
from offbook.explore.harness import Harness
from offbook.messages import JsonObject, Reply, Request, Response, ToolCall, WholeReply
from offbook.providers.provider import Provider
from offbook.tools import Toolbox, run_tools, tool

STEP = "desk"
MODEL, BACKUP = "model", "backup"
DONE = "Order 42 is refunded."

Ask: TypeAlias = Callable[[list[JsonObject]], Awaitable[Response]]
Use: TypeAlias = Callable[[ToolCall], Awaitable[str]]


class GaveUpError(Exception):
    """What the agents are said to raise when they have to give up."""


def find_order(order_id: int) -> str:
    """Look up an order."""
    return f"order {order_id} was lost"


@tool(side_effect=True)
def refund(order_id: int) -> str:
    """Give the customer the money back."""
    return "paid"


TOOLS = Toolbox([find_order, refund])


class Model(Provider):
    """Looks the order up, refunds it, and says so."""

    name = "model"

    async def send(self, request: Request) -> Reply:
        results = sum(message["role"] == "tool" for message in request.messages)
        if results == len(TOOLS):
            return WholeReply(Response(DONE, request.model))
        call = ToolCall(list(TOOLS)[results], {"order_id": 42}, id=f"call_{results}")
        return WholeReply(Response(model=request.model, tool_calls=(call,)))


async def serve(ask: Ask, use: Use) -> str:
    """The loop of the agents: ask, use the tools that are asked for, and so on until there is a text."""
    messages: list[JsonObject] = [
        {"role": "system", "content": "You refund orders."},
        {"role": "user", "content": "Order 42 never came."},
    ]
    while True:
        answer = await ask(messages)
        if not answer.tool_calls:
            return _text_of(answer)
        messages.append(answer.to_message().to_dict())
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": await use(call)} for call in answer.tool_calls
        ]


def _text_of(answer: Response) -> str:
    if not answer.content:
        raise GaveUpError("the model said nothing")
    return answer.content


def asking(provider: Provider, model: str = MODEL) -> Ask:
    """Asks a provider, and leaves its errors to whoever it is."""

    async def ask(messages: list[JsonObject]) -> Response:
        return await provider.complete(messages, model, tools=TOOLS.functions, step_id=STEP)

    return ask


def using(tools: Toolbox) -> Use:
    """Uses tools, and tells the model of their errors."""

    async def use(call: ToolCall) -> str:
        (outcome,) = await run_tools(tools, [call])
        return outcome.text

    return use


async def sound(harness: Harness) -> str:
    """The agent as it should be: failed calls are tried again for a while, and the model hears of failed tools."""
    return await serve(asking(harness.gateway), using(harness.tools(TOOLS)))


def record(path: Path) -> None:
    """Record the agent, with its model and with another one that it may fall back to."""

    async def ask_both() -> None:
        async with RecordingProvider(Model(), path) as provider:
            for model in (MODEL, BACKUP):
                await serve(asking(provider, model), using(TOOLS))

    run(ask_both())
