"""An agent of the Google ADK."""

import asyncio

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types
from shop import QUESTION, finish, look_up, refund


async def main() -> None:
    agent = Agent(name="clerk", model="gemini-2.5-flash", tools=[look_up, refund])
    runner = InMemoryRunner(agent, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    events = [each async for each in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    finish(events[-1].content.parts[0].text)


asyncio.run(main())
