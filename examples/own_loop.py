"""A loop written by hand on the OpenAI SDK, with understudy's guards between the model and the tools.

Run it: python examples/own_loop.py
"""

from collections.abc import Callable
from typing import Any

import orjson

try:
    from openai import OpenAI
except ImportError:
    raise SystemExit("this example needs the OpenAI SDK: pip install openai") from None

from local_model import serving
from understudy import Request, Response, ToolCall, read_response
from understudy.agent import Guardrails, tool


def find_order(order_id: int) -> dict[str, object]:
    """Look up an order.

    Args:
        order_id: the number on the receipt
    """
    return {"order_id": order_id, "status": "lost"}


@tool(side_effect=True, prerequisites=[{"tool": "find_order", "match_arg": "order_id"}])
def refund(order_id: int) -> str:
    """Give the customer the money back, and end the conversation."""
    return f"order {order_id} is refunded"


TOOLS: dict[str, Callable[..., object]] = {"find_order": find_order, "refund": refund}


def hasty_model(request: Request) -> Response:
    """A model that wants to refund at once, writes one call as text, and does as it is told in the end."""
    last = str(request.messages[-1]["content"])
    if "[StepEnforcementError]" in last:
        call = '{"name": "find_order", "arguments": {"order_id": 42}}'
        return Response(f"Sure!\n```json\n{call}\n```", model=request.model)
    return Response(model=request.model, tool_calls=(ToolCall("refund", {"order_id": 42}, id="call_1"),))


def support(client: OpenAI, question: str) -> str:
    """Answer a customer: ask, check, run, until a terminal tool has run."""
    guardrails = Guardrails(TOOLS, required_steps=["find_order"], terminal_tool="refund")
    functions: list[Any] = guardrails.functions
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=functions)
        verdict = guardrails.check(read_response(completion))
        messages += verdict.messages
        for message in verdict.messages:
            print(f"  {message['role']:9} {message['content'] or message['tool_calls'][0]['function']}")
        result = ""
        for call in verdict.calls:
            result = orjson.dumps(TOOLS[call.tool](**call.args)).decode()
            messages.append({"role": "tool", "tool_call_id": call.id or "", "content": result})
            print(f"  tool      {result}")
        if guardrails.record(verdict.calls):
            return result


def main() -> None:
    with serving(hasty_model) as url, OpenAI(base_url=url, api_key="none") as client:
        print("Order 42 never came")
        print(f"result: {support(client, 'Order 42 never came')}")


if __name__ == "__main__":
    main()
