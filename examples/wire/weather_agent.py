"""A hand-written agent with the OpenAI SDK. It does not import offbook.

Run it: offbook exec --replay examples/wire/weather.json --run-tools -- python examples/wire/weather_agent.py
"""

import json
from typing import Any

from openai import OpenAI

WEATHER = {"Oslo": "sun, 11 degrees", "Bergen": "rain, 9 degrees"}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def advise(client: OpenAI, question: str) -> str:
    """Call the model and run the tools that it calls, until it answers in text."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls]
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in calls:
            city = json.loads(call["function"]["arguments"])["city"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": WEATHER[city]})


if __name__ == "__main__":
    print(advise(OpenAI(), "Where do I need an umbrella today, in Oslo or in Bergen?"))
