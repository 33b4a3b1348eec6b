"""OpenAI's Agents SDK: `with_openai_agents.py AGENT defect|sound`."""

import asyncio
import json
import sys

from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI
from policies import POLICIES
from shop import PATIENCE_S, end

from tools import tools_of

AGENT, TWIN = sys.argv[1:]
POLICY = POLICIES[AGENT](sound=TWIN == "sound")


def policed(function):
    tool = function_tool(function, failure_error_function=None)
    invoke = tool.on_invoke_tool

    async def use(context, arguments):
        return await POLICY(tool.name, json.loads(arguments), lambda: invoke(context, arguments))

    tool.on_invoke_tool = use
    return tool


async def serve():
    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(max_retries=1, timeout=PATIENCE_S))
    agent = Agent("desk", model="gpt-4o", tools=[policed(each) for each in tools_of(AGENT, TWIN)])
    for attempt in range(3 if POLICY.starts_over else 1):
        await asyncio.sleep(attempt)
        try:
            ended = await Runner.run(agent, "Order 7 never came.", max_turns=6)
            return POLICY.finish(ended.final_output)
        except Exception as error:
            failed = error
    raise failed


if __name__ == "__main__":
    end(lambda: asyncio.run(serve()))
