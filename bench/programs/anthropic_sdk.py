"""An agent with the SDK of Anthropic, which streams."""

import asyncio
import sys

from anthropic import AsyncAnthropic

TOOL = {"name": "find", "input_schema": {"type": "object"}}


async def main() -> None:
    client = AsyncAnthropic(timeout=10.0, max_retries=2)
    messages: list = [{"role": "user", "content": "Where is order 42?"}]
    for _ in range(int(sys.argv[1])):
        asked = client.messages.stream(model="claude-sonnet-4-5", max_tokens=100, messages=messages, tools=[TOOL])
        async with asked as stream:
            answer = await stream.get_final_message()
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        asks = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in calls]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "nothing"} for call in calls]
        messages += [{"role": "assistant", "content": asks}, {"role": "user", "content": results}]
    print(answer.content[0].text)


asyncio.run(main())
