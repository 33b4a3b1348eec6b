"""An agent with LangGraph."""

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def find(order: int) -> str:
    """Find an order."""
    return "nothing"


model = ChatOpenAI(model="gpt-4o", timeout=10.0, max_retries=2).bind_tools([find])
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([find]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
ended = graph.compile().invoke(
    {"messages": [("user", "Where is order 42?")]}, {"recursion_limit": 2 * int(sys.argv[1])}
)
print(ended["messages"][-1].content)
