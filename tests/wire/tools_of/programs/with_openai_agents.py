"""Tools of the OpenAI Agents SDK: decorated, made by hand, and an agent that is a tool and has one itself."""

import asyncio
import json
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper, Runner, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from ledger import finish, ran
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


@function_tool
def refund(context: RunContextWrapper[Any], order: int, note: str = "none") -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order, note=note)
    return {"refunded": order}


@function_tool(name_override="look")
async def look_up(order: int) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order}"


async def count(context: Any, arguments: str) -> str:
    given = json.loads(arguments)
    ran("count", **given)
    return f"{len(given['since'])} sales"


SINCE = {"type": "object", "properties": {"since": {"type": "string"}}, "required": ["since"]}


class Scripted(Model):
    """Asks for all tools at once, then ends."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call", call_id=f"{name}{number}", name=name, arguments=json.dumps(given)
            )
            for number, (name, given) in enumerate(self.calls)
        ]
        if any(isinstance(each, dict) and each.get("type") == "function_call_output" for each in input):
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def main() -> None:
    clerk = Agent(name="clerk", model=Scripted(("look", {"order": 5})), tools=[look_up])
    made = FunctionTool(name="count", description="Count.", params_json_schema=SINCE, on_invoke_tool=count)
    asked = [
        ("refund", {"order": 1, "note": "late"}),
        ("refund", {"order": 2, "note": "late"}),
        ("look", {"order": 3}),
        ("count", {"since": "May"}),
        ("clerk", {"input": "look"}),
    ]
    tools = [refund, look_up, made, clerk.as_tool("clerk", "Looks.")]
    result = await Runner.run(Agent(name="boss", model=Scripted(*asked), tools=tools), "help")
    outputs = [each for each in result.to_input_list() if each.get("type") == "function_call_output"]
    finish([[each["call_id"], each["output"]] for each in outputs])


asyncio.run(main())
