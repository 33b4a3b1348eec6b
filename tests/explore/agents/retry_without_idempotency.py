"""Starts its whole conversation over when a call of the model fails. The twin gives up."""

import json
import sys

from openai import OpenAI, OpenAIError

GAVE_UP = 3
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "refund",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "integer"}}},
        },
    }
]


def converse(client):
    messages = [{"role": "user", "content": "Order 42 never came."}]
    while True:
        answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        if not answer.tool_calls:
            return answer.content
        messages.append(answer.model_dump(exclude_none=True))
        for call in answer.tool_calls:
            result = refund(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def refund(order_id):
    return f"paid for {order_id}"


def main(tries):
    client = OpenAI(max_retries=0)
    for _ in range(tries):
        try:
            sys.stdout.write(f"{converse(client)}\n")
        except OpenAIError:
            continue
        return 0
    return GAVE_UP


if __name__ == "__main__":
    sys.exit(main(tries=3 if sys.argv[1] == "defect" else 1))
