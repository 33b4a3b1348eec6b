"""A loop on OpenAI's Responses API, with tools in another module, which get their arguments in one object."""

import json

from openai import OpenAI
from shop import desk

client = OpenAI()
items = [{"role": "user", "content": "Refund order 7"}]
while True:
    answer = client.responses.create(model="m", input=items)
    calls = [item for item in answer.output if item.type == "function_call"]
    if not calls:
        break
    items += [call.model_dump(exclude_none=True) for call in calls]
    for call in calls:
        result = getattr(desk, f"handle_{call.name}")(json.loads(call.arguments))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
print(answer.output_text)
