"""Explore a function that refunds orders: record it once, then replay it with each fault at each of its calls.

Run it: python examples/explore_refund.py [report.html]
"""

import sys
import tempfile
from pathlib import Path

from local_model import serving
from offbook import OpenAIProvider, Provider, RecordingProvider, Request, Response, explore_function, run, tool
from offbook.explore import Harness, Run
from offbook.report.exploration import exploration_reporter_of, report_exploration
from offbook.tools import Toolbox


@tool(side_effect=True)
async def refund(order_id: int) -> str:
    """Give the customer the money back."""
    return f"order {order_id} is refunded"


async def handle(provider: Provider, tools: Toolbox) -> str:
    """Decide about a complaint, refund the order, and write to the customer."""
    complaint = {"role": "user", "content": "Order 42 never came."}
    decision = await provider.complete([complaint], "gpt-4o-mini", step_id="decide")
    if decision.content != "refund":
        return "A person will look at it."
    await tools["refund"].callable(order_id=42)
    task = {"role": "user", "content": "Write that order 42 is refunded."}
    return (await provider.complete([task], "gpt-4o-mini", step_id="write")).content


async def hasty(harness: Harness) -> str:
    """Start over when something fails. This also repeats the refund."""
    problem = ""
    for _ in range(3):
        try:
            return await handle(harness.provider, harness.tools(refund))
        except Exception as error:
            problem = str(error)
    raise RuntimeError(problem)


async def patient(harness: Harness) -> str:
    """Leave retries to a gateway, which repeats only the failed call."""
    return await handle(harness.gateway, harness.tools(refund))


def invariant_no_letter_without_a_refund(run: Run) -> None:
    assert run.result is None or "refunded" not in run.result or run.side_effects["refund"]


def model(request: Request) -> Response:
    """The model of this example."""
    is_letter = "Write" in str(request.messages[0]["content"])
    return Response("Dear customer, order 42 is refunded." if is_letter else "refund", model=request.model)


async def record(path: Path, url: str) -> None:
    async with RecordingProvider(OpenAIProvider(base_url=url), path) as provider:
        await handle(provider, Toolbox([refund]))


def main(recording: Path, page: str | None) -> None:
    with serving(model) as url:
        run(record(recording, url))
    for function in (hasty, patient):
        exploration = explore_function(
            function,
            recording,
            faults="connection_reset,http_error 500,timeout",
            declared=[RuntimeError],
            invariants=[invariant_no_letter_without_a_refund],
        )
        print(f"{function.__name__}: {len(exploration.results)} cases, {exploration.counts}")
        for found in exploration.findings:
            print(f"  {found.case}: {', '.join(found.assessment.evidence)}")
        if page is not None and exploration.findings:
            report_exploration(exploration, exploration_reporter_of(f"html={page}", reproduce=str))
            print(f"  see {page}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "refund.json", sys.argv[1] if len(sys.argv) > 1 else None)
