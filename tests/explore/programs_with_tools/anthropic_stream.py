"""Anthropic's streamed messages: the look-up is a function of another module, the refund a method of this script."""

from anthropic import Anthropic
from shop import PARAMETERS, PATIENCE_S, Desk, GaveUpError, end, find_order, note


class Till:
    def refund(self, order: int, amount: int) -> str:
        note("refund", order=order, amount=amount)
        return f"refunded {order}"


TOOLS = [{"name": name, "input_schema": shape} for name, shape in PARAMETERS.items()]


def ask(client, messages):
    """Read a stream, again if it ends early."""
    for _ in range(2):
        with client.messages.stream(
            model="claude-sonnet-4-5", max_tokens=200, messages=messages, tools=TOOLS
        ) as stream:
            answer = stream.get_final_message()
        if answer.stop_reason is not None:
            return answer
    raise GaveUpError("the stream breaks every time")


def serve():
    client, desk = Anthropic(max_retries=1, timeout=PATIENCE_S), Desk(7)
    tools = {"find_order": find_order, "refund": Till().refund}
    messages = [{"role": "user", "content": "Order 7 never came."}]
    for _ in range(6):
        answer = ask(client, messages)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return desk.finish()
        if answer.stop_reason != "tool_use":
            raise GaveUpError(f"the answer is not complete: {answer.stop_reason}")
        texts = [(call.id, desk.use(tools, call.name, call.input)) for call in calls]
        results = [{"type": "tool_result", "tool_use_id": use, "content": text} for use, text in texts]
        asked = [
            block.model_dump(exclude_none=True, include={"type", "id", "name", "input", "text"})
            for block in answer.content
        ]
        messages += [{"role": "assistant", "content": asked}, {"role": "user", "content": results}]
    raise GaveUpError("the model does not come to an end")


if __name__ == "__main__":
    end(serve)
