"""An agent with the SDK of OpenAI."""

import sys

from openai import OpenAI

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}

client = OpenAI(timeout=10.0, max_retries=2)
messages: list = [{"role": "user", "content": "Where is order 42?"}]
for _ in range(int(sys.argv[1])):
    answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=[TOOL]).choices[0].message
    if not answer.tool_calls:
        break
    messages.append(answer.model_dump(exclude_none=True))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "nothing"} for call in answer.tool_calls]
print(answer.content)
