"""An agent of LlamaIndex."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from shop import QUESTION, finish, look_up, refund


async def main() -> None:
    llm = OpenAILike(
        "gpt-5",
        api_base=os.environ["OPENAI_BASE_URL"],
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=8000,
        max_retries=0,
    )
    agent = FunctionAgent(tools=[look_up, refund], llm=llm, streaming=False)
    finish((await agent.run(QUESTION)).response.content)


asyncio.run(main())
