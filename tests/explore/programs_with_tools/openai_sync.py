"""Chat Completions: the look-up is a function of this script, the refund one of another module."""

from openai import OpenAI
from shop import PARAMETERS, PATIENCE_S, PRICES, Desk, GaveUpError, end, note, parsed, refund


def find_order(order: int) -> dict:
    note("find_order", order=order)
    return {"order": order, "price": PRICES[order]}


TOOLS = [{"type": "function", "function": {"name": name, "parameters": shape}} for name, shape in PARAMETERS.items()]


def serve():
    client, desk = OpenAI(max_retries=1, timeout=PATIENCE_S), Desk(7)
    messages = [{"role": "user", "content": "Order 7 never came."}]
    for _ in range(6):
        choice = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0]
        if not choice.message.tool_calls:
            return desk.finish()
        messages.append(choice.message.model_dump(exclude_none=True))
        for call in choice.message.tool_calls:
            tools = {"find_order": find_order, "refund": refund}
            text = desk.use(tools, call.function.name, parsed(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    raise GaveUpError("the model does not come to an end")


if __name__ == "__main__":
    end(serve)
