"""An agent of Semantic Kernel."""

import asyncio

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function
from shop import QUESTION, finish, look_up, refund


class Shop:
    look_up = staticmethod(kernel_function(look_up))
    refund = staticmethod(kernel_function(refund))


async def main() -> None:
    agent = ChatCompletionAgent(service=OpenAIChatCompletion(ai_model_id="gpt-5"), name="clerk", plugins=[Shop()])
    finish((await agent.get_response(QUESTION)).message.content)


asyncio.run(main())
