"""A support agent with LangGraph: it answers customers, and refunds orders."""

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

SYSTEM = "You answer customers of a shop. Refund orders that never came."


@tool
def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is refunded"  # here it only says so


def answer(question: str, model: ChatOpenAI) -> str:
    """Run the graph: ask the model, and run the tools that it asks for, until it answers."""
    asking = model.bind_tools([refund])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [asking.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([refund]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    started = {"messages": [("system", SYSTEM), ("user", question)]}
    return str(graph.compile().invoke(started, {"recursion_limit": 10})["messages"][-1].content)


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]) or "Order 42 never came.", ChatOpenAI(model="gpt-4o-mini", timeout=10)))
