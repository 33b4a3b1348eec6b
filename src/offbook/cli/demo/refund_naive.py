"""A typical refund agent: on any error, it starts the conversation over."""

import asyncio

from offbook.cli.demo.refund_tools import MODEL, OPENING, GaveUpError, describe_result
from offbook.providers.provider import Provider
from offbook.tools import Toolbox


async def answer(provider: Provider, tools: Toolbox) -> str:
    """Answer the customer in at most three attempts. Raises GaveUpError if the last one fails."""
    problem = ""
    for _ in range(3):
        try:
            return await converse(provider, tools)
        except Exception as error:
            problem = str(error)
            await asyncio.sleep(10)
    raise GaveUpError(problem)


async def converse(provider: Provider, tools: Toolbox) -> str:
    """Call the model, run the tools that it calls and return their results to it, until it answers in text."""
    messages = list(OPENING)
    while True:
        response = await provider.complete(messages, MODEL, tools=tools.functions, step_id="agent")
        if not response.tool_calls:
            return response.content
        messages.append(response.to_message().to_dict())
        for call in response.tool_calls:
            result = await tools[call.tool].callable(**call.args)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": describe_result(result)})
