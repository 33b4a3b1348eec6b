"""LangGraph: `with_langgraph.py AGENT defect|sound`."""

import asyncio
import sys

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy
from policies import POLICIES
from shop import PATIENCE_S, end

from tools import tools_of

AGENT, TWIN = sys.argv[1:]
POLICY = POLICIES[AGENT](sound=TWIN == "sound")
TOOLS = [tool(each) for each in tools_of(AGENT, TWIN)]
MODEL = ChatOpenAI(model="gpt-4o", max_retries=1, timeout=PATIENCE_S).bind_tools(TOOLS)


async def use(request, execute):
    async def run():
        return (await execute(request)).content

    call = request.tool_call
    text = await POLICY(call["name"], call["args"], run)
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"])


async def ask(state):
    return {"messages": [await MODEL.ainvoke(state["messages"])]}


async def serve():
    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    again = RetryPolicy(max_attempts=3, retry_on=Exception) if POLICY.starts_over else None
    graph.add_node("tools", ToolNode(TOOLS, handle_tool_errors=False, awrap_tool_call=use), retry_policy=again)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    ended = await graph.compile().ainvoke({"messages": [("user", "Order 7 never came.")]}, {"recursion_limit": 12})
    return POLICY.finish(ended["messages"][-1].text)


if __name__ == "__main__":
    end(lambda: asyncio.run(serve()))
