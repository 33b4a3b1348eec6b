"""Replays flow.yaml: no network, no key, and no waiting, because time is virtual."""

from pathlib import Path

from offbook import FaultPlan, WorkflowEngine, load_workflow, parse_fault, run
from offbook.pipeline import Replay, open_pipeline
from offbook.workflow import WorkflowResult

ROOT = Path(__file__).parents[1]


async def replay(*faults: str) -> WorkflowResult:
    """Replay the workflow strictly, with `faults`."""
    flow = load_workflow(ROOT / "flow.yaml")
    mode = Replay(str(ROOT / "recordings" / "flow.json"))
    async with open_pipeline(flow.config, mode, faults=FaultPlan(map(parse_fault, faults))) as pipeline:
        engine = WorkflowEngine(flow, pipeline.gateway, wrap_tools=pipeline.wrap_tools, folder=ROOT)
        result = await engine.run()
        assert pipeline.unused() == []
    return result


def test_the_answer_comes_from_the_documentation() -> None:
    result = run(replay(), virtual_time=True)
    assert result.succeeded
    assert result.state["kind"] == "question"
    assert result.state["answer"] == "Refunds are paid within five working days."


def test_a_rate_limit_is_waited_for_and_changes_nothing() -> None:
    fault = "step=answer call=2 attempt=1: http_error 429 headers.Retry-After=30"
    result = run(replay(fault), virtual_time=True)
    assert result.succeeded
    assert result.state == run(replay(), virtual_time=True).state
    assert result.steps["answer"].attempts == 3
    assert result.latency_s == 30.0
