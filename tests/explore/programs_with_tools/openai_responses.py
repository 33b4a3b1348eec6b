"""OpenAI's Responses: the look-up is a method of another module, the refund a static method of this script."""

from openai import OpenAI
from shop import PARAMETERS, PATIENCE_S, Desk, GaveUpError, Shop, end, note, parsed


class Till:
    @staticmethod
    def refund(order: int, amount: int) -> str:
        note("refund", order=order, amount=amount)
        return f"refunded {order}"


TOOLS = [{"type": "function", "name": name, "parameters": shape} for name, shape in PARAMETERS.items()]


def serve():
    client, desk = OpenAI(max_retries=1, timeout=PATIENCE_S), Desk(7)
    tools = {"find_order": Shop().find_order, "refund": Till.refund}
    asked = [{"role": "user", "content": "Order 7 never came."}]
    for _ in range(6):
        answer = client.responses.create(model="gpt-4o", input=asked, tools=TOOLS)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return desk.finish()
        for call in calls:
            text = desk.use(tools, call.name, parsed(call.arguments))
            named = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            asked += [{"type": "function_call", **named}]
            asked += [{"type": "function_call_output", "call_id": call.call_id, "output": text}]
    raise GaveUpError("the model does not come to an end")


if __name__ == "__main__":
    end(serve)
