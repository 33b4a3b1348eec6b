"""Tools of the Agent Development Kit, called by agents, one of which hands over to the other."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool, FunctionTool, ToolContext
from google.genai import types
from ledger import finish, ran
from pydantic import BaseModel


class Order(BaseModel):
    order: int


def refund(order: int, note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order)
    return {"refunded": order}


async def look_up(order: Order, tool_context: ToolContext) -> dict[str, Any]:
    """Look up an order."""
    ran("look_up", order=order.model_dump())
    return {"order": order.order, "by": tool_context.agent_name}


def check(order: int) -> dict[str, Any]:
    """Check an order."""
    ran("check", order=order)
    raise LookupError(f"no order {order}")


class Count(BaseTool):
    def __init__(self) -> None:
        super().__init__(name="count", description="Count sales.")

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, int]:
        ran("count", **args)
        return {"total": len(args["since"])}


class Scripted(BaseLlm):
    """Calls tools turn by turn, then ends."""

    model: str = "scripted"
    turns: list[list[tuple[str, dict[str, Any]]]]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        turn = self.turns.pop(0) if self.turns else []
        parts = [types.Part.from_function_call(name=name, args=given) for name, given in turn]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


def handle(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, error: Exception) -> dict[str, str]:
    return {"error": repr(error)}


async def main() -> None:
    boss = LlmAgent(name="boss", model=Scripted(turns=[[("refund", {"order": 4})]]), tools=[refund])
    calls = [("refund", {"order": 1}), ("look_up", {"order": {"order": 2}}), ("count", {"since": "May"})]
    clerk = LlmAgent(
        name="clerk",
        model=Scripted(turns=[[*calls, ("check", {"order": 3})], [("transfer_to_agent", {"agent_name": "boss"})]]),
        tools=[refund, FunctionTool(look_up), check, Count()],
        sub_agents=[boss],
        on_tool_error_callback=handle,
    )
    runner = InMemoryRunner(agent=clerk, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="help")])
    results = []
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        results += [[event.author, each.name, each.response] for each in event.get_function_responses()]
    finish(results)


asyncio.run(main())
