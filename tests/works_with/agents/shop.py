"""One agent of each framework, as its documentation shows it and with its default settings: `python shop.py NAME`.

It refunds an order. `--streamed` streams, and `--again` asks the same agent a second question, whatever came of the
first. Each answer, or error, is a line of JSON. The tools note in the file `ledger` that they ran.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

QUESTIONS = ("Refund order 7.", "Was it order 7?")
Ask = Callable[[str], Awaitable[Any]]
BASE_URL = os.environ["OPENAI_BASE_URL"]


def look_up(order: int) -> str:
    """Look up an order.

    Args:
        order: its number
    """
    return _ran(f"look_up {order}", f"order {order} is paid")


def refund(order: int) -> str:
    """Refund an order.

    Args:
        order: its number
    """
    return _ran(f"refund {order}", f"order {order} is refunded")


def _ran(line: str, result: str) -> str:
    with Path("ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")
    return result


TOOLS = {"look_up": look_up, "refund": refund}
SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        },
    }
    for name in TOOLS
]


def openai_by_hand(is_streamed: bool) -> Ask:
    import openai

    client, messages = openai.AsyncOpenAI(), []

    async def ask(question: str) -> Any:
        messages.append({"role": "user", "content": question})
        while True:
            asked = {"model": "gpt-4o", "messages": messages, "tools": SCHEMAS}
            if is_streamed:
                async with client.chat.completions.stream(**asked) as stream:
                    completion = await stream.get_final_completion()
            else:
                completion = await client.chat.completions.create(**asked)
            message = completion.choices[0].message
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                result = TOOLS[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return ask


def anthropic_runner(is_streamed: bool) -> Ask:
    import anthropic

    client = anthropic.AsyncAnthropic()

    def served(function: Callable[[int], str]) -> Any:
        async def call(order: int) -> str:
            return function(order)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return anthropic.beta_async_tool(call)

    async def ask(question: str) -> Any:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-4-5",
            max_tokens=500,
            tools=[served(look_up), served(refund)],
            messages=[{"role": "user", "content": question}],
            stream=is_streamed,
        )
        if not is_streamed:
            return (await runner.until_done()).content[0].text
        async for stream in runner:
            message = await stream.get_final_message()
        return message.content[0].text

    return ask


def google_genai(is_streamed: bool) -> Ask:
    from google import genai
    from google.genai import types

    config = types.GenerateContentConfig(tools=[look_up, refund])
    client = genai.Client()
    chat = client.aio.chats.create(model="gemini-2.5-flash", config=config)

    async def ask(question: str, client: genai.Client = client) -> Any:  # a client that is forgotten is closed
        if is_streamed:
            return "".join([each.text or "" async for each in await chat.send_message_stream(question)])
        return (await chat.send_message(question)).text

    return ask


def langgraph(is_streamed: bool) -> Ask:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.prebuilt import create_react_agent

    model = ChatOpenAI(model="gpt-5", streaming=is_streamed)
    graph = create_react_agent(model, [tool(look_up), tool(refund)], checkpointer=InMemorySaver())

    async def ask(question: str) -> Any:
        config = {"configurable": {"thread_id": "1"}}
        return (await graph.ainvoke({"messages": [("user", question)]}, config))["messages"][-1].text

    return ask


def pydantic_ai(is_streamed: bool) -> Ask:
    from pydantic_ai import Agent

    agent, history = Agent("openai-chat:gpt-5", tools=[look_up, refund]), []

    async def ask(question: str) -> Any:
        if not is_streamed:
            result = await agent.run(question, message_history=history)
            history[:] = result.all_messages()
            return result.output
        async with agent.run_stream(question, message_history=history) as result:
            return await result.get_output()

    return ask


def openai_agents(is_streamed: bool) -> Ask:
    from agents import Agent, Runner, SQLiteSession, function_tool

    agent = Agent(name="clerk", model="gpt-5", tools=[function_tool(look_up), function_tool(refund)])
    session = SQLiteSession("one")

    async def ask(question: str) -> Any:
        if not is_streamed:
            return (await Runner.run(agent, question, session=session)).final_output
        run = Runner.run_streamed(agent, question, session=session)
        async for _ in run.stream_events():
            pass
        return run.final_output

    return ask


def google_adk(is_streamed: bool) -> Ask:
    from google.adk.agents import Agent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = Agent(name="clerk", model="gemini-2.5-flash", tools=[look_up, refund])
    runner = InMemoryRunner(agent, app_name="shop")
    config = RunConfig(streaming_mode=StreamingMode.SSE if is_streamed else StreamingMode.NONE)

    async def ask(question: str) -> Any:
        found = {"app_name": "shop", "user_id": "u", "session_id": "s"}
        if await runner.session_service.get_session(**found) is None:
            await runner.session_service.create_session(**found)
        message = types.Content(role="user", parts=[types.Part(text=question)])
        events = [
            each async for each in runner.run_async(user_id="u", session_id="s", new_message=message, run_config=config)
        ]
        last = events[-1]
        if last.error_code:
            raise RuntimeError(last.error_code)
        return last.content.parts[0].text

    return ask


def smolagents(is_streamed: bool) -> Ask:
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    model = OpenAIServerModel("gpt-5")
    agent = ToolCallingAgent([tool(look_up), tool(refund)], model, verbosity_level=0, stream_outputs=is_streamed)

    async def ask(question: str) -> Any:
        return await asyncio.to_thread(agent.run, question, reset=False)

    return ask


def crewai(is_streamed: bool) -> Ask:
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    llm = LLM(model="openai/gpt-4o", base_url=BASE_URL, stream=is_streamed)
    tools = [tool("look_up")(look_up), tool("refund")(refund)]
    agent = Agent(role="clerk", goal="help", backstory="none", tools=tools, llm=llm)

    async def ask(question: str) -> Any:
        task = Task(description=question, expected_output="an answer", agent=agent)
        return (await asyncio.to_thread(Crew(agents=[agent], tasks=[task]).kickoff)).raw

    return ask


def autogen(is_streamed: bool) -> Ask:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(model="gpt-4o", base_url=BASE_URL)
    tools: list[Any] = [look_up, refund]
    agent = AssistantAgent("clerk", client, tools=tools, max_tool_iterations=5, model_client_stream=is_streamed)

    async def ask(question: str) -> Any:
        return (await agent.run(task=question)).messages[-1].content

    return ask


def llama_index(is_streamed: bool) -> Ask:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.workflow import Context
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(
        "gpt-5", api_base=BASE_URL, is_chat_model=True, is_function_calling_model=True, context_window=8000
    )
    agent = FunctionAgent(tools=[look_up, refund], llm=llm, streaming=is_streamed)
    context = Context(agent)

    async def ask(question: str) -> Any:
        return (await agent.run(question, ctx=context)).response.content

    return ask


def haystack(is_streamed: bool) -> Ask:
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function

    model = OpenAIChatGenerator(model="gpt-5", api_base_url=BASE_URL)
    tools = [create_tool_from_function(look_up), create_tool_from_function(refund)]
    agent = Agent(chat_generator=model, tools=tools, streaming_callback=(lambda _: None) if is_streamed else None)
    history: list[Any] = []

    async def ask(question: str) -> Any:
        asked = [*history, ChatMessage.from_user(question)]
        history[:] = (await asyncio.to_thread(agent.run, messages=asked))["messages"]
        return history[-1].text

    return ask


def agno(is_streamed: bool) -> Ask:
    from agno.agent import Agent
    from agno.db.in_memory import InMemoryDb
    from agno.models.openai import OpenAIChat

    agent = Agent(
        model=OpenAIChat(id="gpt-5", base_url=BASE_URL),
        tools=[look_up, refund],
        db=InMemoryDb(),
        add_history_to_context=True,
        session_id="one",
    )

    async def ask(question: str) -> Any:
        if not is_streamed:
            run = agent.run(question)
            if "error" in str(run.status).lower():
                raise RuntimeError(run.content)
            return run.content
        events = [*agent.run(question, stream=True)]
        if any("Error" in type(each).__name__ for each in events):
            raise RuntimeError(events[-1])
        return "".join(str(each.content or "") for each in events if each.event == "RunContent")

    return ask


def strands(is_streamed: bool) -> Ask:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"base_url": BASE_URL}, model_id="gpt-5", params=None)
    agent = Agent(model=model, tools=[tool(look_up), tool(refund)], callback_handler=None)

    async def ask(question: str) -> Any:
        return str(await agent.invoke_async(question)).strip()

    return ask


class Shop:
    look_up, refund = staticmethod(look_up), staticmethod(refund)


def semantic_kernel(is_streamed: bool) -> Ask:
    from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
    from semantic_kernel.functions import kernel_function

    for name, function in TOOLS.items():
        setattr(Shop, name, staticmethod(kernel_function(function)))
    service = OpenAIChatCompletion(ai_model_id="gpt-5")
    agent, thread = ChatCompletionAgent(service=service, name="clerk", plugins=[Shop()]), ChatHistoryAgentThread()

    async def ask(question: str) -> Any:
        if not is_streamed:
            return (await agent.get_response(question, thread=thread)).message.content
        stream = agent.invoke_stream(question, thread=thread)
        return "".join([str(each.message.content) async for each in stream])

    return ask


def dspy(is_streamed: bool) -> Ask:
    import dspy

    dspy.configure(lm=dspy.LM("openai/gpt-4o", api_base=BASE_URL, cache=False))
    react = dspy.ReAct("question -> answer", tools=[look_up, refund])

    async def ask(question: str) -> Any:
        return (await asyncio.to_thread(react, question=question)).answer

    return ask


def claude_agent_sdk(is_streamed: bool) -> Ask:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, create_sdk_mcp_server, tool

    def served(function: Callable[[int], str]) -> Any:
        async def call(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": function(**given)}]}

        return tool(function.__name__, function.__name__, {"order": int})(call)

    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[served(look_up), served(refund)])},
        allowed_tools=["mcp__shop__look_up", "mcp__shop__refund"],
        tools=[],
        setting_sources=[],
        env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MAX_THINKING_TOKENS": "0"},  # our model does not think
    )
    client = ClaudeSDKClient(options=options)

    async def ask(question: str) -> Any:
        await client.connect()
        await client.query(question)
        (last,) = [each async for each in client.receive_response() if isinstance(each, ResultMessage)]
        if last.is_error:
            raise RuntimeError(last.result)
        return last.result

    return ask


def magentic(is_streamed: bool) -> Ask:
    from magentic import StreamedStr, prompt_chain

    @prompt_chain("{question}", functions=[look_up, refund])
    def whole(question: str) -> str: ...

    @prompt_chain("{question}", functions=[look_up, refund])
    def streamed(question: str) -> StreamedStr: ...

    async def ask(question: str) -> Any:
        return "".join(await asyncio.to_thread(streamed if is_streamed else whole, question))

    return ask


async def main(name: str, *options: str) -> None:
    ask: Ask = globals()[name]("--streamed" in options)
    for question in QUESTIONS if "--again" in options else QUESTIONS[:1]:
        try:
            said = {"answer": await ask(question)}
        except BaseException as error:  # groups and errors of foreign runtimes, too
            root = error
            while isinstance(root, BaseExceptionGroup):
                root = root.exceptions[0]
            said = {
                "error": f"{type(root).__module__.partition('.')[0]}.{type(root).__name__}",
                "text": str(root)[:500],
            }
        sys.stdout.write(f"\n{json.dumps(said, default=str)}\n")  # what a framework prints may not end its line
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    os._exit(0)  # some leave threads
