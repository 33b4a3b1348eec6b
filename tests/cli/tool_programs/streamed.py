"""A loop on Anthropic's SDK that streams, with the methods of a class as tools."""

from anthropic import Anthropic
from ledger import ran


class Desk:
    def __init__(self, shop):
        self.shop = shop

    def look(self, order):
        ran("look", order)
        return f"order {order} of {self.shop}"

    @staticmethod
    def refund(order, **details):
        ran("refund", order)
        return f"refunded {order}: {details}"


class Agent:
    def __init__(self):
        self.client, self.desk = Anthropic(), Desk("north")

    def answer(self, messages):
        with self.client.messages.stream(model="m", max_tokens=100, messages=messages) as stream:
            for _ in stream.text_stream:
                pass
            return stream.get_final_message()

    def run(self, block):
        result = getattr(self.desk, block.name)(**block.input)
        return {"type": "tool_result", "tool_use_id": block.id, "content": result}

    def work(self, task):
        messages = [{"role": "user", "content": task}]
        while (message := self.answer(messages)).stop_reason == "tool_use":
            messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
            results = [self.run(block) for block in message.content if block.type == "tool_use"]
            messages.append({"role": "user", "content": results})
        return message.content[0].text


print(Agent().work("Refund order 7"))
