"""The workflow that runs into every type of fault handles each of them."""

from pathlib import Path

import pytest

from offbook import run
from offbook.faults import FAULT_TYPES
from offbook.pipeline import Live, open_pipeline
from offbook.recording.stores.locate import open_store
from offbook.workflow import WorkflowEngine, load_workflow

FOLDER = Path(__file__).parents[2] / "examples"
FLOW = load_workflow(FOLDER / "fault_replay.yaml")


@pytest.fixture(scope="module")
def result():
    async def work():
        async with open_pipeline(FLOW.config, Live(), folder=FOLDER) as session:
            return await WorkflowEngine(FLOW, session.gateway, folder=FOLDER).run()

    return run(work(), virtual_time=True)


def test_every_type_of_fault_is_met():
    met = {exchange.fault.type for _, exchange in open_store(FOLDER / "fault_replay.json").load() if exchange.fault}
    others = {name for name, fault in FAULT_TYPES.items() if name.startswith("ws_") or "lies" in fault.traits}
    assert met == FAULT_TYPES.keys() - others  # those are for WebSockets, or for explorations


def test_every_step_with_a_fault_says_what_it_shows():
    described = {step.id for step in FLOW.steps if step.description}
    assert {step.id for step in FLOW.steps} - described == {"ask_otherwise", "keep"}


def test_the_workflow_succeeds_with_an_answer_for_every_fault(result):
    assert result.succeeded
    assert len(result.state["answers"]) == 24
    assert result.state["greeting"] == "Hei!"


@pytest.mark.parametrize(
    ("step", "attempts", "latency_s"),
    [
        ("timeout", 2, 6.0),
        ("rate_limit", 2, 30.0),
        ("server_error", 3, 3.0),
        ("malformed_response", 2, 1.0),
        ("wrong_shape", 2, 1.0),
        ("wrong_content_type", 1, 0.0),
        ("connection_reset", 2, 1.0),
        ("stream_cut_at_once", 2, 1.0),
        ("slow", 1, 3.0),
        ("refusal", 1, 0.0),
        ("slow_drip", 1, 8.0),
        ("context_overflow", 2, 0.0),
        ("tool_call_fault", 3, 0.0),
        ("invalid_tool_args", 3, 0.0),
        ("unknown_tool", 3, 0.0),
        ("wrong_types", 3, 0.0),
        ("wrong_values", 2, 0.0),
        ("doubled_tool_calls", 2, 0.0),
        ("shared_tool_id", 2, 0.0),
        ("one_more_tool", 3, 0.0),
    ],
)
def test_a_step_recovers_after_so_many_attempts_and_so_much_virtual_time(result, step, attempts, latency_s):
    ended = result.steps[step]
    assert ended.status == "done"
    assert ended.attempts == attempts
    assert ended.latency_s == latency_s


def test_three_steps_fail_and_those_after_them_run_all_the_same(result):
    assert [(step.id, step.error_type) for step in result.failures] == [
        ("stream_truncate", "StreamInterruptedError"),
        ("stream_stall", "StepTimeoutError"),
        ("partial_response", "StepError"),
    ]
    assert {result.steps[f"after_{step.id}"].status for step in result.failures} == {"done"}


def test_an_empty_answer_is_asked_for_again_and_a_filtered_one_otherwise(result):
    assert result.steps["empty_response"].output == 2
    assert result.steps["was_filtered"].output == "ask_otherwise"
