"""An agent on the OpenAI SDK as a function, which is explored in-process. It gives up after a few turns."""

from __future__ import annotations

from typing import Any

import openai

from offbook import effect
from offbook.explore.harness import Harness

TOOL: Any = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
MAX_TURNS = 4


def refund_agent(harness: Harness) -> Any:
    client = openai.OpenAI(api_key="none", http_client=harness.sync_http_client(), timeout=10)
    messages: list[Any] = [{"role": "user", "content": "Order 42 never came"}]
    for _ in range(MAX_TURNS):
        said = client.chat.completions.create(model="gpt-5", messages=messages, tools=[TOOL]).choices[0].message
        if not said.tool_calls:
            return said.content
        calls = [call.model_dump() for call in said.tool_calls]
        messages.append({"role": "assistant", "tool_calls": calls})
        for call in calls:
            effect("refund", arguments=call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "done"})
    return None
