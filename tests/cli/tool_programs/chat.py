"""A loop on OpenAI's chat API, with a dict of functions."""

import json
import os
import urllib.request

from ledger import ran


def look(order: int, deep: bool = False) -> str:
    ran("look", order)
    return f"order {order}"


def refund(order: int, note: str = "") -> dict:
    ran("refund", order)
    return {"refunded": order, "note": clean(note)}


def clean(note):
    return note.strip()


TOOLS = {"look": look, "refund": refund}


def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    return json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]


def run_tool(name, arguments):
    return json.dumps(TOOLS[name](**arguments))


messages = [{"role": "user", "content": "Refund order 7"}]
while (message := ask(messages)).get("tool_calls"):
    messages.append(message)
    for call in message["tool_calls"]:
        result = run_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(message["content"])
