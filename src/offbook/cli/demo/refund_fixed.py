"""The fixed agent: it keeps its transcript, retries only safe calls, and pays once."""

from offbook.cli.demo.refund_tools import MODEL, OPENING, GaveUpError, describe_result
from offbook.errors import ProviderError, ToolArgumentsError
from offbook.messages import JsonObject, Response, ToolCall
from offbook.providers.provider import Provider
from offbook.tools import Toolbox


async def answer(gateway: Provider, tools: Toolbox) -> str:
    """Answer the customer; the gateway retries failed calls. Raises GaveUpError if there is no answer."""
    messages, paid = list(OPENING), set[int]()
    for _ in range(10):
        response = await ask(gateway, messages, tools)
        if not response.tool_calls:
            return response.content
        messages.append(response.to_message().to_dict())
        for call in response.tool_calls:
            result = await use(call, tools, paid)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": describe_result(result)})
    raise GaveUpError("the model does not finish")


async def ask(gateway: Provider, messages: list[JsonObject], tools: Toolbox) -> Response:
    """Call the model until the answer is usable: complete text, or calls with valid arguments."""
    for _ in range(3):
        try:
            response = await gateway.complete(messages, MODEL, tools=tools.functions, step_id="agent")
            for call in response.tool_calls:
                tools[call.tool].bind(call.args)
        except ProviderError as error:
            raise GaveUpError(f"the model does not answer: {error}") from error
        except (KeyError, ToolArgumentsError):
            continue
        if response.tool_calls or (response.content and response.finish_reason == "stop"):
            return response
    raise GaveUpError("the model gives no usable answer")


async def use(call: ToolCall, tools: Toolbox, paid: set[int]) -> JsonObject:
    """Run a tool and check its result. A refund is tried once per order: after a failure, it may have been paid."""
    order_id, attempts, problem = call.args["order_id"], 3, "it was tried before"
    if call.tool == "refund":
        attempts = 0 if order_id in paid else 1
        paid.add(order_id)
    for _ in range(attempts):
        try:
            result: object = await tools[call.tool].callable(**call.args)
        except Exception as error:
            problem = str(error)
            continue
        if isinstance(result, dict) and result.get("order_id") == order_id:
            return result
        problem = f"it returned {result!r}"
    raise GaveUpError(f"{call.tool} of order {order_id} is in doubt: {problem}")
