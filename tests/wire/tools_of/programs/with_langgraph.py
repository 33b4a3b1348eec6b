"""Tools of LangChain, called by LangGraph: with what it injects, and one that runs a graph with a tool of its own."""

import asyncio
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from ledger import finish, ran


@tool
def refund(
    order: int,
    state: Annotated[dict[str, Any], InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
    note: str = "",
) -> dict[str, Any]:
    """Refund an order."""
    ran("refund", order=order, note=note)
    return {"refunded": order, "messages": len(state["messages"]), "call": tool_call_id}


@tool("look")
async def look_up(order: int) -> str:
    """Look up an order."""
    ran("look", order=order)
    return f"order {order}"


class Count(BaseTool):
    name: str = "count"
    description: str = "Count sales."

    def _run(self, since: str) -> int:
        ran("count", since=since)
        return len(since)


@tool
def fail(order: int) -> str:
    """Fail."""
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


async def research(given: dict[str, Any]) -> str:
    return f"found {await look_up.ainvoke({'order': given['order']})}"


def calls(*asked: tuple[str, dict[str, Any]]) -> AIMessage:
    named = [{"name": name, "args": args, "id": f"call-{number}"} for number, (name, args) in enumerate(asked)]
    return AIMessage("", tool_calls=named)


async def main() -> None:
    agent = RunnableLambda(research).as_tool(name="research", description="Find.", arg_types={"order": int})
    asked = calls(
        ("refund", {"order": 1, "note": "late"}),
        ("refund", {"order": 9, "note": "late"}),
        ("look", {"order": 2}),
        ("count", {"since": "May"}),
        ("fail", {"order": 3}),
        ("research", {"order": 4}),
    )
    model = GenericFakeChatModel(messages=iter([asked]))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([refund, look_up, Count(), fail, agent], handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", END)
    state = await graph.compile().ainvoke({"messages": [("user", "help")]})
    finish([[each.name, each.content, each.status] for each in state["messages"][2:]])


asyncio.run(main())
