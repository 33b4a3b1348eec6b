"""A refund agent as it is often written: whatever goes wrong, it starts the conversation over."""

import asyncio

from offbook.providers.provider import Provider
from offbook.templates.demo.refund_tools import MODEL, OPENING, GaveUpError, describe_result
from offbook.tools import Toolbox


async def answer(provider: Provider, tools: Toolbox) -> str:
    """Answer the customer, in three tries at most. Raises GaveUpError if the last one has failed, too."""
    problem = ""
    for _ in range(3):
        try:
            return await converse(provider, tools)
        except Exception as error:
            problem = str(error)
            await asyncio.sleep(10)
    raise GaveUpError(problem)


async def converse(provider: Provider, tools: Toolbox) -> str:
    """The loop: ask, run the tools that the model asks for, tell it their results, until it says something."""
    messages = list(OPENING)
    while True:
        response = await provider.complete(messages, MODEL, tools=tools.functions, step_id="agent")
        if not response.tool_calls:
            return response.content
        messages.append(response.to_message().to_dict())
        for call in response.tool_calls:
            result = await tools[call.tool].callable(**call.args)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": describe_result(result)})
