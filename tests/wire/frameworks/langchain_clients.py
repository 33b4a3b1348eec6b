"""LangChain with the models of two vendors."""

from __future__ import annotations

import atexit
from abc import abstractmethod
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import add

import httpx2
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI

from tests.wire.frameworks.client import PATIENCE_S, Client, Report
from tests.wire.frameworks.scripts import QUESTION

HTTP_CLIENT = httpx2.Client(verify=False)
atexit.register(HTTP_CLIENT.close)


class LangChain(Client):
    """A chat model of LangChain's. It is asked in threads: its asynchronous clients outlive their event loops."""

    @abstractmethod
    def model(self, url: str, *, timeout_s: float = PATIENCE_S) -> BaseChatModel:
        """The model at `url`."""

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        return (await to_thread(self.model(url, timeout_s=timeout_s).invoke, QUESTION)).text

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        for piece in await to_thread(list, self.model(url, timeout_s=timeout_s).stream(QUESTION)):
            yield piece.text

    async def use_tools(self, url: str, weather: Callable[[str], str], *, is_streamed: bool) -> str:
        return await to_thread(self.run_tools, url, _tool(weather), is_streamed=is_streamed)

    def run_tools(self, url: str, weather: BaseTool, *, is_streamed: bool) -> str:
        model = self.model(url).bind_tools([weather])
        messages: list[BaseMessage] = [HumanMessage(QUESTION)]
        while True:
            answer = reduce(add, model.stream(messages)) if is_streamed else model.invoke(messages)
            if not answer.tool_calls:
                return answer.text
            messages += [answer, *map(weather.invoke, answer.tool_calls)]

    async def report(self, url: str) -> Report:
        return await to_thread(self.model(url).with_structured_output(Report).invoke, QUESTION)


def _tool(weather: Callable[[str], str]) -> BaseTool:
    return tool("weather", description="Tells the weather.")(weather)


class OpenAI(LangChain):
    title = "ChatOpenAI"

    def model(self, url: str, *, timeout_s: float = PATIENCE_S) -> BaseChatModel:
        return ChatOpenAI(
            model="gpt-5", base_url=f"{url}/v1", api_key="none", timeout=timeout_s, http_client=HTTP_CLIENT
        )


class Anthropic(LangChain):
    title = "ChatAnthropic"
    report_script = "report by Report"

    def model(self, url: str, *, timeout_s: float = PATIENCE_S) -> BaseChatModel:
        return ChatAnthropic(model="claude", base_url=url, api_key="none", max_tokens=99, timeout=timeout_s)


CLIENTS = (OpenAI(), Anthropic())
