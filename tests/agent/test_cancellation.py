"""Cancelling a run."""

import asyncio

import pytest

from offbook import Response, run
from offbook.agent import MessageType, ProviderClient, WorkflowCancelledError, WorkflowRunner
from tests.agent.parts import FETCH, SUBMIT, agent, play
from tests.fakes import Scripted


async def test_a_run_that_is_cancelled_before_it_starts_asks_nobody():
    cancel = asyncio.Event()
    cancel.set()
    played = await play([FETCH, SUBMIT], run_options={"cancel_event": cancel}, catch=WorkflowCancelledError)
    assert not played.client.calls
    assert (played.error.iteration, played.error.completed_steps) == (0, {})


async def test_the_transcript_is_kept():
    cancel = asyncio.Event()
    workflow = agent(fetch=lambda **_: cancel.set())
    played = await play([FETCH, SUBMIT], workflow, run_options={"cancel_event": cancel}, catch=WorkflowCancelledError)
    assert (played.error.iteration, played.error.completed_steps) == (1, {"fetch": 1})
    assert [message.metadata.type for message in played.error.messages][-1] == MessageType.TOOL_RESULT


async def test_an_event_that_is_never_set_changes_nothing():
    assert (await play([FETCH, SUBMIT], run_options={"cancel_event": asyncio.Event()})).result == "submit done"


def test_a_model_call_under_way_is_given_up_at_once():
    provider = Scripted(Response(tool_calls=(FETCH,)), delay_s=3600.0)

    async def cancelled_after_a_second():
        cancel = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, cancel.set)
        runner = WorkflowRunner(ProviderClient(provider, "any"))
        with pytest.raises(WorkflowCancelledError) as caught:
            await runner.run(agent(), "go", prompt_vars={"role": "tester"}, cancel_event=cancel)
        assert len(caught.value.messages) == 2
        return loop.time()

    assert run(cancelled_after_a_second(), virtual_time=True) == pytest.approx(1.0)


def test_tools_that_are_running_are_let_finish():
    finished = []

    async def fetch(**_):
        await asyncio.sleep(60)
        finished.append(True)

    async def cancelled_in_the_middle():
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(1.0, cancel.set)
        return await play(
            [FETCH, SUBMIT], agent(fetch=fetch), run_options={"cancel_event": cancel}, catch=WorkflowCancelledError
        )

    played = run(cancelled_in_the_middle(), virtual_time=True)
    assert finished == [True]
    assert played.error.completed_steps == {"fetch": 1}


async def test_what_a_model_call_raises_is_raised_with_an_event_too():
    cancel = asyncio.Event()
    await play([OSError("gone")], run_options={"cancel_event": cancel}, catch=OSError)


async def test_cancelling_the_task_leaves_nothing_running():
    asked = asyncio.Event()

    class Silent:
        async def send(self, messages, tools=None):
            asked.set()
            await asyncio.Event().wait()

    running = WorkflowRunner(Silent()).run(agent(), "go", prompt_vars={"role": "tester"}, cancel_event=asyncio.Event())
    task = asyncio.ensure_future(running)
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
