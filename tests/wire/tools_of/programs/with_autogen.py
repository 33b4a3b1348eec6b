"""Tools of AutoGen, called by an assistant."""

import asyncio
from functools import partial

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_core.tools import BaseTool, FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from ledger import finish, ran
from pydantic import BaseModel


def refund(order: int, note: str = "") -> dict[str, int | str]:
    """Refund an order."""
    ran("refund", order=order, note=note)
    return {"refunded": order, "note": note}


async def look_up(order: int, cancellation_token: CancellationToken) -> str:
    ran("look", order=order)
    return f"order {order} {cancellation_token.is_cancelled()}"


def close(shop: str, day: str, *, by: str = "") -> str:
    """Close a shop."""
    ran("close", day=day)
    return f"{by} closed {shop} on {day}"


def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Period(BaseModel):
    since: str


class Total(BaseModel):
    total: int


class Count(BaseTool[Period, Total]):
    def __init__(self) -> None:
        super().__init__(Period, Total, "count", "Count sales.")

    async def run(self, args: Period, cancellation_token: CancellationToken) -> Total:
        ran("count", since=args.since)
        return Total(total=len(args.since))


CALLS = [
    ("refund", '{"order": 1}'),
    ("look", '{"order": 2}'),
    ("fail", '{"order": 3}'),
    ("count", '{"since": "May"}'),
    ("close", '{"day": "Monday"}'),
]


async def main() -> None:
    calls = [FunctionCall(id=name, name=name, arguments=arguments) for name, arguments in CALLS]
    usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
    answer = CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)
    info = {"function_calling": True, "vision": False, "json_output": False, "structured_output": False}
    model = ReplayChatCompletionClient([answer], model_info=info | {"family": ModelFamily.UNKNOWN})
    tools = [refund, FunctionTool(look_up, name="look", description="Look up."), fail, Count()]
    tools.append(FunctionTool(partial(close, "north", by="me"), description="Close."))
    result = await AssistantAgent("clerk", model, tools=tools).run(task="help")
    executed = next(message for message in result.messages if message.type == "ToolCallExecutionEvent")
    finish([each.model_dump() for each in executed.content])


asyncio.run(main())
