"""An asynchronous loop on OpenAI's SDK: the tools of a turn run at once."""

import asyncio
import json

from ledger import ran
from openai import AsyncOpenAI


async def fetch_order(order: int) -> str:
    await asyncio.sleep(0)
    ran("look", order)
    return f"order {order}"


async def send_refund(order: int, amount: float) -> str:
    await asyncio.sleep(0)
    ran("refund", order)
    return f"refunded {amount}"


async def run(call):
    arguments = json.loads(call.function.arguments)
    match call.function.name:
        case "look":
            result = await fetch_order(arguments["order"])
        case "refund":
            result = await send_refund(arguments["order"], arguments["amount"])
    return {"role": "tool", "tool_call_id": call.id, "content": result}


async def main():
    async with AsyncOpenAI() as client:
        messages = [{"role": "user", "content": "Refund order 7"}]
        while True:
            answer = await client.chat.completions.create(model="m", messages=messages)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message.model_dump(exclude_none=True))
            messages += await asyncio.gather(*map(run, message.tool_calls))


print(asyncio.run(main()))
