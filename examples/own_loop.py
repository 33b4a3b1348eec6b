"""A hand-written loop with the OpenAI SDK, and offbook's guards between the model and the tools.

Run it: python examples/own_loop.py
"""

from typing import Any

try:
    from openai import OpenAI
except ImportError:
    raise SystemExit("this example needs the OpenAI SDK: pip install openai") from None

from local_model import serving
from offbook import Request, Response, ToolCall
from offbook.agent import Guardrails, tool
from offbook.providers import read_response


def find_order(order_id: int) -> dict[str, object]:
    """Look up an order.

    Args:
        order_id: the number on the receipt
    """
    if order_id != 42:
        raise LookupError(f"there is no order {order_id}")
    return {"order_id": order_id, "status": "lost"}


@tool(side_effect=True, prerequisites=[{"tool": "find_order", "match_arg": "order_id"}])
def refund(order_id: int) -> str:
    """Give the customer the money back, and end the conversation."""
    return f"order {order_id} is refunded"


def hasty_model(request: Request) -> Response:
    """A model that refunds too early, writes calls as text, mistypes one, and succeeds in the end."""
    last = str(request.messages[-1]["content"])
    if "[StepEnforcementError]" in last or "[ToolError]" in last:
        number = "24" if "[StepEnforcementError]" in last else "42"
        call = f'{{"name": "find_order", "arguments": {{"order_id": {number}}}}}'
        return Response(f"Sure!\n```json\n{call}\n```", model=request.model)
    return Response(model=request.model, tool_calls=(ToolCall("refund", {"order_id": 42}, id="call_1"),))


def support(client: OpenAI, question: str) -> str:
    """Answer a customer: call the model, check its tool calls and run them, until a terminal tool has run."""
    guardrails = Guardrails([find_order, refund], required_steps=["find_order"], terminal_tool="refund")
    functions: list[Any] = guardrails.functions
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=functions)
        verdict = guardrails.check(read_response(completion))
        messages += verdict.messages
        for message in verdict.messages:
            print(f"  {message['role']:9} {message['content'] or message['tool_calls'][0]['function']}")
        outcomes = guardrails.run_sync(verdict.calls)
        for outcome in outcomes:
            messages.append({"role": "tool", "tool_call_id": outcome.call.id or "", "content": outcome.text})
            print(f"  tool      {outcome.text}")
        if guardrails.record(outcomes):
            return outcomes[-1].text


def main() -> None:
    with serving(hasty_model) as url, OpenAI(base_url=url, api_key="none") as client:
        print("Order 42 never came")
        print(f"result: {support(client, 'Order 42 never came')}")


if __name__ == "__main__":
    main()
