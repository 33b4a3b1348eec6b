"""Chat Completions with all tools of an answer at once: an async method of another module, and an async function."""

import asyncio

from openai import AsyncOpenAI
from shop import PARAMETERS, PATIENCE_S, Desk, GaveUpError, Shop, end, note, parsed


async def refund(order: int, amount: int) -> str:
    note("refund", order=order, amount=amount)
    return f"refunded {order}"


TOOLS = [{"type": "function", "function": {"name": name, "parameters": shape}} for name, shape in PARAMETERS.items()]


async def use(desk, tools, tool, arguments):
    refusal = desk.refusal(tool, arguments)
    if refusal:
        return refusal
    for _ in range(desk.tries(tool)):
        try:
            return desk.accept(tool, arguments, await tools[tool](**arguments))
        except (OSError, RuntimeError) as error:
            failed = error
    raise GaveUpError(f"{tool} failed") from failed


async def serve():
    client, desk = AsyncOpenAI(max_retries=1, timeout=PATIENCE_S), Desk(7, 8)
    tools = {"find_order": Shop().find_order_later, "refund": refund}
    messages = [{"role": "user", "content": "Orders 7 and 8 never came."}]
    for _ in range(6):
        choice = (await client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)).choices[0]
        calls = choice.message.tool_calls
        if not calls:
            return desk.finish()
        used = [use(desk, tools, call.function.name, parsed(call.function.arguments)) for call in calls]
        texts = await asyncio.gather(*used, return_exceptions=True)
        for text in texts:
            if isinstance(text, BaseException):
                raise text
        messages.append(choice.message.model_dump(exclude_none=True))
        pairs = zip(calls, texts, strict=True)
        messages += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in pairs]
    raise GaveUpError("the model does not come to an end")


if __name__ == "__main__":
    end(lambda: asyncio.run(serve()))
