"""Tools of LlamaIndex, called by agents of a workflow, one of which hands over to the other."""

import asyncio
from typing import Any

from ledger import finish, ran
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context


def refund(order: int, note: str = "") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order)
    return {"refunded": order}


async def look_up(ctx: Context, order: int, shop: str) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order} of {shop}"


def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class Count(AsyncBaseTool):
    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name="count", description="Count sales.")

    def call(self, input: str) -> ToolOutput:
        raise NotImplementedError

    async def acall(self, input: str) -> ToolOutput:
        ran("count", input=input)
        return ToolOutput(tool_name="count", content=f"{len(input)} sales", raw_input={"input": input}, raw_output=3)


class Close(BaseTool):
    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name="close", description="Close.")

    def __call__(self, input: str) -> ToolOutput:
        ran("close", input=input)
        return ToolOutput(tool_name="close", content=f"closed on {input}", raw_input={"input": input}, raw_output=None)


def scripted(*turns: list[tuple[str, dict[str, Any]]]) -> MockFunctionCallingLLM:
    left = list(turns)

    def answer(messages: Any, **_: Any) -> ChatMessage:
        turn = left.pop(0) if left else []
        blocks = [ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=given) for name, given in turn]
        return ChatMessage(role="assistant", blocks=blocks) if blocks else ChatMessage("done", role="assistant")

    return MockFunctionCallingLLM(response_generator=answer)


async def main() -> None:
    look = FunctionTool.from_defaults(look_up, name="look", partial_params={"shop": "north"})
    calls = [
        ("refund", {"order": 1}),
        ("look", {"order": 2}),
        ("fail", {"order": 3}),
        ("count", {"input": "May"}),
        ("close", {"input": "Monday"}),
    ]
    clerk = FunctionAgent(
        name="clerk",
        description="Takes orders.",
        tools=[refund, look, fail, Count(), Close()],
        llm=scripted(calls, [("handoff", {"to_agent": "boss", "reason": "hard"})]),
        can_handoff_to=["boss"],
    )
    boss = FunctionAgent(name="boss", description="Decides.", tools=[refund], llm=scripted([("refund", {"order": 4})]))
    handler = AgentWorkflow(agents=[clerk, boss], root_agent="clerk").run("help")
    results = [
        [event.tool_name, event.tool_output.content, event.tool_output.is_error, repr(event.tool_output.exception)]
        async for event in handler.stream_events()
        if isinstance(event, ToolCallResult)
    ]
    finish([sorted(results), (await handler).current_agent_name])


asyncio.run(main())
