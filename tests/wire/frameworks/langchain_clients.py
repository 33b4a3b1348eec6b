"""LangChain with the models of two vendors, and a graph of LangGraph's over one of them."""

from __future__ import annotations

from abc import abstractmethod
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import add

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.wire.frameworks.client import PATIENCE_S, Client, Report
from tests.wire.frameworks.scripts import QUESTION


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
        return await to_thread(self._loop, url, _tool(weather), is_streamed=is_streamed)

    def _loop(self, url: str, weather: BaseTool, *, is_streamed: bool) -> str:
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
        return ChatOpenAI(model="gpt-5", base_url=f"{url}/v1", api_key="none", timeout=timeout_s)


class Anthropic(LangChain):
    title = "ChatAnthropic"
    report_script = "report by Report"

    def model(self, url: str, *, timeout_s: float = PATIENCE_S) -> BaseChatModel:
        return ChatAnthropic(model="claude", base_url=url, api_key="none", max_tokens=99, timeout=timeout_s)


class LangGraph(OpenAI):
    title = "LangGraph over ChatOpenAI"

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        graph = _graph(self.model(url, timeout_s=timeout_s), [])
        return (await to_thread(graph.invoke, _asked()))["messages"][-1].text

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        graph = _graph(self.model(url, timeout_s=timeout_s), [])
        for piece, _ in await to_thread(list, graph.stream(_asked(), stream_mode="messages")):
            yield piece.text

    def _loop(self, url: str, weather: BaseTool, *, is_streamed: bool) -> str:
        graph = _graph(self.model(url), [weather])
        if not is_streamed:
            return graph.invoke(_asked())["messages"][-1].text
        pieces = [piece for piece, _ in graph.stream(_asked(), stream_mode="messages")]
        return "".join(piece.text for piece in pieces if isinstance(piece, AIMessageChunk))


def _asked() -> dict[str, list[BaseMessage]]:
    return {"messages": [HumanMessage(QUESTION)]}


def _graph(model: BaseChatModel, tools: list[BaseTool]) -> CompiledStateGraph:
    """Asks the model, runs the tools that it asks for, and asks again."""

    def ask(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.bind_tools(tools).invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return graph.compile()


CLIENTS = (OpenAI(), Anthropic(), LangGraph())
