"""A loop on Gemini's API without an SDK, with a match statement."""

import os

import httpx
from ledger import ran


def order_status(number):
    ran("look", number)
    return f"order {number}"


def refund(order, note=None):
    ran("refund", order)
    return f"refunded {order}"


def ask(contents):
    url = f"{os.environ['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/m:generateContent"
    headers = {"x-goog-api-key": os.environ["GOOGLE_API_KEY"]}
    return httpx.post(url, headers=headers, json={"contents": contents}).json()["candidates"][0]["content"]


def run(call):
    match call:
        case {"name": "look", "args": {"order": order}}:
            return order_status(order)
        case {"name": "refund", "args": arguments}:
            return refund(**arguments)


contents = [{"role": "user", "parts": [{"text": "Refund order 7"}]}]
while "functionCall" in (content := ask(contents))["parts"][0]:
    contents.append(content)
    calls = [part["functionCall"] for part in content["parts"]]
    parts = [{"functionResponse": {"name": call["name"], "response": {"result": run(call)}}} for call in calls]
    contents.append({"role": "user", "parts": parts})
print(content["parts"][0]["text"])
