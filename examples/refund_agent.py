"""A refund agent in the guarded loop: recorded once, replayed without a model, and with a fault in its second call.

Run it: python examples/refund_agent.py
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from local_model import serving
from offbook import (
    At,
    FaultInjector,
    FaultPlan,
    MockProvider,
    OpenAIProvider,
    PlannedFault,
    Provider,
    ProviderGateway,
    RecordingProvider,
    Request,
    Response,
    RetryPolicy,
    ToolCall,
    record_tools,
    replay_tools,
    run,
)
from offbook.agent import AgentRun, ProviderClient, Workflow, WorkflowRunner, tool
from offbook.faults import Timeout
from offbook.tools import GivenTools

REFUNDED: list[int] = []


def find_order(order_id: int) -> dict[str, object]:
    """Look up an order."""
    return {"order_id": order_id, "status": "lost", "total": 30.0}


@tool(side_effect=True, prerequisites=[{"tool": "find_order", "match_arg": "order_id"}])
def refund(order_id: int) -> str:
    """Give the customer the money back, and end the conversation."""
    REFUNDED.append(order_id)
    return f"order {order_id} is refunded"


TOOLS: dict[str, Callable[..., object]] = {"find_order": find_order, "refund": refund}


def model(request: Request) -> Response:
    """The model of this example: it looks up an order, then refunds it."""
    name = "refund" if request.messages[-1]["role"] == "tool" else "find_order"
    return Response(model=request.model, tool_calls=(ToolCall(name, {"order_id": 42}, id=f"call_{name}"),))


async def ask(provider: Provider, tools: GivenTools) -> AgentRun:
    """Run the agent on any provider and any tools: real ones, recorders or replays."""
    workflow = Workflow(
        "refund",
        "Refunds orders that never came",
        tools=tools,
        required_steps=["find_order"],
        terminal_tool="refund",
        system_prompt_template="You are a {role}.",
    )
    gateway = ProviderGateway(retry=RetryPolicy(backoff_s=1.0, jitter=0.0))
    gateway.register(provider)
    runner = WorkflowRunner(ProviderClient(gateway, "gpt-4o-mini", step_id="agent"))
    return await runner.run_in_full(workflow, "Order 42 never came", prompt_vars={"role": "support agent"})


async def record(path: Path, url: str) -> AgentRun:
    async with RecordingProvider(OpenAIProvider(base_url=url), path) as provider:
        with record_tools(TOOLS, path) as tools:
            return await ask(provider, tools)


async def replay(path: Path, faults: FaultPlan | None = None) -> AgentRun:
    provider: Provider = MockProvider(path, strict=True)
    if faults is not None:
        provider = FaultInjector(provider, faults)
    return await ask(provider, replay_tools(TOOLS, path))


def main(path: Path) -> None:
    with serving(model) as url:
        recorded = run(record(path, url))
    print(f"recorded: {recorded.result}; {len(REFUNDED)} refund was made")

    replayed = run(replay(path), virtual_time=True)
    print(f"replayed: {replayed.result}; {len(REFUNDED)} refund was made, no model was called")

    late = FaultPlan([PlannedFault(At(step_id="agent", call=2, attempt=1), Timeout(after_ms=5000))])
    broken = run(replay(path, late), virtual_time=True)
    print(f"its second model call timed out, and was retried: {broken.result}")
    print(f"the same transcript: {broken.messages == replayed.messages == recorded.messages}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "refund.json")
