"""Agents of frameworks that tell their model about failed tools, with and without protection of a lost refund."""

from __future__ import annotations

import json
from functools import cache

from offbook import tool
from offbook.agent import ProviderClient, Workflow, WorkflowRunner
from offbook.errors import ProviderError
from tests.explore.zoo.functions.desk import (
    DONE,
    MODEL,
    REFUND,
    STEP,
    TOOLS,
    GaveUpError,
    asks_for,
    is_complete,
)
from tests.explore.zoo.planted import PlantedFunction

GUARDED = {
    STEP: [
        asks_for(("refund", {"order_id": 42})),
        asks_for(("reply", {"text": DONE})),
    ]
}


def reply(text: str) -> str:
    """Tell the customer how it ended, and end the conversation."""
    return text


class Refunds:
    """Refunds the customer's order, at most so often."""

    def __init__(self, tools, *, at_most):
        self._refund, self._left, self.paid = tools["refund"], at_most, None

    def pay(self, order_id):
        if order_id != 42:
            raise ValueError("this is not the customer's order")
        if self.paid is None:
            if not self._left:
                raise ValueError("it was tried before, and nobody knows whether it was paid; tell the customer")
            self._left -= 1
            result = self._refund.callable(order_id=order_id)
            if result != {"refunded": 42}:
                raise ValueError("the bank says nothing that makes sense, it may be paid")
            self.paid = result
        return self.paid

    def finish(self, text):
        if self.paid is None or not text:
            raise GaveUpError(f"nothing was paid, or there is nothing to say: {text}")
        return text


async def guarded(offbook, *, at_most):
    """The guarded agent of offbook, whose refund runs whenever the model asks; the twin's runs once."""
    tools = offbook.tools(TOOLS)
    refunds = Refunds(tools, at_most=at_most)

    @tool
    def refund(order_id: int) -> dict:
        """Give the customer the money back."""
        return refunds.pay(order_id)

    workflow = Workflow(
        "desk",
        "Refunds orders",
        tools={"find_order": tools["find_order"], "refund": refund, "reply": reply},
        required_steps=["refund"],
        terminal_tool="reply",
        system_prompt_template="You refund orders.",
    )
    runner = WorkflowRunner(ProviderClient(offbook.gateway, MODEL, step_id=STEP))
    return refunds.finish(await runner.run(workflow, "Order 42 never came."))


@cache
def pydantic_ai():
    import pydantic_ai  # noqa: PLC0415 - it takes a second
    import pydantic_ai.messages  # noqa: PLC0415
    import pydantic_ai.models.function  # noqa: PLC0415

    return pydantic_ai


def to_openai(messages):
    """The messages of pydantic-ai in the shape of OpenAI."""
    shaped = []
    for message in messages:
        calls = [part for part in message.parts if part.part_kind == "tool-call"]
        if calls:
            called = [
                {
                    "id": call.tool_call_id,
                    "type": "function",
                    "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
                }
                for call in calls
            ]
            shaped.append({"role": "assistant", "content": "", "tool_calls": called})
        for part in message.parts:
            if part.part_kind == "user-prompt":
                shaped.append({"role": "user", "content": part.content})
            elif part.part_kind == "text":
                shaped.append({"role": "assistant", "content": part.content})
            elif part.part_kind == "tool-return":
                content = part.model_response_str()
                shaped.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": content})
            elif part.part_kind == "retry-prompt":
                content = part.model_response()
                shaped.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": content})
    return shaped


async def in_pydantic_ai(offbook, *, at_most):
    """An agent of pydantic-ai, whose refund runs whenever the model asks; the twin's runs once."""
    library = pydantic_ai()
    tools = offbook.tools(TOOLS)
    refunds = Refunds(tools, at_most=at_most)

    async def ask(messages, info):
        try:
            answer = await offbook.gateway.complete(to_openai(messages), MODEL, tools=TOOLS.functions, step_id=STEP)
        except ProviderError as error:
            raise GaveUpError("the model does not answer") from error
        if not is_complete(answer):
            raise GaveUpError("the answer is not complete")
        calls = [
            library.messages.ToolCallPart(call.tool, call.arguments, tool_call_id=call.id) for call in answer.tool_calls
        ]
        return library.messages.ModelResponse(calls or [library.messages.TextPart(answer.content)])

    def retrying(function):
        def run(order_id: int) -> dict:
            try:
                return function(order_id=order_id)
            except Exception as error:
                raise library.ModelRetry(str(error)) from error

        return run

    agent = library.Agent(
        library.models.function.FunctionModel(ask),
        tools=[
            library.Tool(retrying(tools["find_order"].callable), name="find_order", max_retries=2),
            library.Tool(retrying(refunds.pay), name="refund", max_retries=2),
        ],
    )
    limits = library.UsageLimits(request_limit=8)
    try:
        result = await agent.run("Order 42 never came.", usage_limits=limits)
    except (library.UnexpectedModelBehavior, library.UsageLimitExceeded) as error:
        raise GaveUpError("the model does not come to an end") from error
    return refunds.finish(result.output)


@cache
def langgraph():
    import langchain_core.language_models  # noqa: PLC0415 - it takes a second
    import langchain_core.messages  # noqa: PLC0415
    import langchain_core.outputs  # noqa: PLC0415
    import langchain_core.tools  # noqa: PLC0415
    import langgraph.errors  # noqa: PLC0415
    import langgraph.graph  # noqa: PLC0415
    import langgraph.prebuilt  # noqa: PLC0415

    return langchain_core, langgraph


async def in_langgraph(offbook, *, at_most):
    """A graph of LangGraph with its node of tools, which runs a refund whenever the model asks; the twin's once."""
    chain, graph = langgraph()
    tools = offbook.tools(TOOLS)
    refunds = Refunds(tools, at_most=at_most)

    async def call_model(state):
        shaped = [
            json.loads(each) for each in map(json.dumps, chain.messages.convert_to_openai_messages(state["messages"]))
        ]
        try:
            answer = await offbook.gateway.complete(shaped, MODEL, tools=TOOLS.functions, step_id=STEP)
        except ProviderError as error:
            raise GaveUpError("the model does not answer") from error
        if not is_complete(answer):
            raise GaveUpError("the answer is not complete")
        return {"messages": [to_langchain(chain, answer)]}

    nodes = [
        chain.tools.StructuredTool.from_function(
            func=function, name=name, description=name, args_schema=TOOLS[name].spec.schema
        )
        for name, function in (("find_order", tools["find_order"].callable), ("refund", refunds.pay))
    ]
    builder = graph.graph.StateGraph(graph.graph.MessagesState)
    builder.add_node("model", call_model)
    builder.add_node("tools", graph.prebuilt.ToolNode(nodes, handle_tool_errors=True))
    builder.add_edge(graph.graph.START, "model")
    builder.add_conditional_edges("model", graph.prebuilt.tools_condition)
    builder.add_edge("tools", "model")
    try:
        state = await builder.compile().ainvoke(
            {"messages": [("user", "Order 42 never came.")]}, {"recursion_limit": 16}
        )
    except graph.errors.GraphRecursionError as error:
        raise GaveUpError("the model does not come to an end") from error
    return refunds.finish(state["messages"][-1].content)


def to_langchain(chain, answer):
    valid = [call for call in answer.tool_calls if call.raw_arguments is None]
    return chain.messages.AIMessage(
        content=answer.content,
        tool_calls=[{"name": call.tool, "args": call.args, "id": call.id} for call in valid],
        invalid_tool_calls=[
            {"name": call.tool, "args": call.raw_arguments, "id": call.id, "error": "it is not JSON"}
            for call in answer.tool_calls
            if call.raw_arguments is not None
        ],
    )


def told_of_failures(name, agent, answers=REFUND):
    return PlantedFunction(
        name=name,
        agent=agent,
        defect={"at_most": 1000},
        sound={"at_most": 1},
        answers=answers,
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order_id=42)",
    )


PLANTED = [
    told_of_failures("guarded agent", guarded, GUARDED),
    told_of_failures("pydantic-ai", in_pydantic_ai),
    told_of_failures("LangGraph", in_langgraph),
]
