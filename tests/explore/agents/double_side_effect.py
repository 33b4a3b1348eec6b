"""Runs a failed tool again, also one that has done its work before it failed. The twin leaves that to the model."""

from inspect import isawaitable

from offbook import RecordingProvider, run
from offbook.agent import ProviderClient, Workflow, WorkflowRunner
from offbook.tools import tool
from tests.explore.agents.desk import MODEL, STEP, TOOLS, Model


async def defect(harness):
    tools = harness.tools(TOOLS)
    return await ask(harness.gateway, {**tools, "refund": stubborn(tools["refund"])})


async def sound(harness):
    return await ask(harness.gateway, harness.tools(TOOLS))


def stubborn(given):
    @tool
    async def refund(order_id: int) -> str:
        """Give the customer the money back."""
        for _ in range(3):
            try:
                result = given(order_id=order_id)
                return await result if isawaitable(result) else result
            except Exception as error:
                last = error
        raise last

    return refund


async def ask(provider, tools):
    workflow = Workflow("desk", "Refunds orders", tools=tools, system_prompt_template="You refund orders.")
    runner = WorkflowRunner(ProviderClient(provider, MODEL, step_id=STEP))
    return await runner.run(workflow, "Order 42 never came.")


def record(path):
    async def ask_once():
        async with RecordingProvider(Model(), path) as provider:
            await ask(provider, TOOLS)

    run(ask_once())
