"""An agent of LangGraph."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from shop import QUESTION, finish, look_up, refund

graph = create_react_agent(ChatOpenAI(model="gpt-5"), [tool(look_up), tool(refund)])
finish(graph.invoke({"messages": [("user", QUESTION)]})["messages"][-1].text)
