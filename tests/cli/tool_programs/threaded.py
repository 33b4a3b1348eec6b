"""A loop on OpenAI's chat API whose tools run in threads that were started before."""

import json
from concurrent.futures import ThreadPoolExecutor

from ledger import ran
from openai import OpenAI

pool = ThreadPoolExecutor(2)
list(pool.map(str, range(4)))


def look(order):
    ran("look", order)
    return f"order {order}"


def refund(order, amount):
    ran("refund", order)
    return f"refunded {amount}"


client = OpenAI()
messages = [{"role": "user", "content": "Refund order 7"}]
while True:
    message = client.chat.completions.create(model="m", messages=messages).choices[0].message
    if not message.tool_calls:
        break
    messages.append(message.model_dump(exclude_none=True))
    running = {
        call.id: pool.submit(globals()[call.function.name], **json.loads(call.function.arguments))
        for call in message.tool_calls
    }
    messages += [{"role": "tool", "tool_call_id": call, "content": each.result()} for call, each in running.items()]
print(message.content)
