"""A graph of LangGraph's over a model of LangChain's."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.wire.frameworks.client import PATIENCE_S
from tests.wire.frameworks.langchain_clients import OpenAI
from tests.wire.frameworks.scripts import QUESTION


class LangGraph(OpenAI):
    title = "over ChatOpenAI"

    async def ask(self, url: str, *, timeout_s: float = PATIENCE_S) -> str:
        graph = _graph(self.model(url, timeout_s=timeout_s), [])
        return (await to_thread(graph.invoke, _asked()))["messages"][-1].text

    async def stream(self, url: str, *, timeout_s: float = PATIENCE_S) -> AsyncIterator[str]:
        graph = _graph(self.model(url, timeout_s=timeout_s), [])
        for piece, _ in await to_thread(list, graph.stream(_asked(), stream_mode="messages")):
            yield piece.text

    def run_tools(self, url: str, weather: BaseTool, *, is_streamed: bool) -> str:
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


CLIENTS = (LangGraph(),)
