"""An outage begins and ends: by the numbers of calls, or by the time since the first one."""

import asyncio

import pytest

from offbook import MockProvider, ToolCall, explore_function, run
from offbook.errors import InputError, ProviderError, ToolFaultError
from offbook.faults import FaultInjector, FaultLog, FaultPlan, inject_tools, parse_fault
from offbook.messages import Request
from offbook.tools import run_tool
from tests.explore.runs import write_recording

ASKED = Request(messages=({"role": "user", "content": "Hi"},), model="any")


def answers_at(line, *moments_s):
    """The statuses of calls at these moments of virtual time; 200 for an answer."""

    async def work():
        mock = MockProvider(default_response="Hello")
        model = FaultInjector(mock, FaultPlan([parse_fault(line)]))
        statuses, started_s = [], asyncio.get_running_loop().time()
        for at_s in moments_s:
            await asyncio.sleep(started_s + at_s - asyncio.get_running_loop().time())
            try:
                await (await model.send(ASKED)).collect()
                statuses.append(200)
            except ProviderError as error:
                statuses.append(error.status_code)
        return statuses

    return run(work(), virtual_time=True)


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        ("from=30s until=5m: http_error 503", [200, 503, 503, 200]),
        ("until=1m: http_error 503", [503, 503, 200, 200]),
        ("from=299s: http_error 503", [200, 200, 503, 503]),
        ("since=1 until=300000ms: http_error 503", [503, 503, 503, 200]),
    ],
)
def test_an_outage_by_time_lasts_from_one_moment_until_another(line, statuses):
    assert answers_at(line, 0, 30, 299, 300) == statuses


def test_an_outage_by_calls_ends_with_the_call_before_the_last_one():
    log = FaultLog()

    async def work():
        plan = FaultPlan([parse_fault("tool=find from=2 until=4: tool_error")])
        tools = inject_tools([find], plan, fault_log=log)
        return [(await run_tool(tools["find"], ToolCall("find"))).error is None for _ in range(4)]

    assert run(work()) == [True, False, False, True]
    assert [str(line) for line in log.fired] == ["tool=find call=2: tool_error", "tool=find call=3: tool_error"]


def find() -> str:
    """Find."""
    return "found"


def test_models_and_tools_of_a_run_have_one_clock(tmp_path):
    recording = write_recording(tmp_path / "run.json", {"_tools": {"find": {"result": "found"}}, "a": {"content": "x"}})

    async def agent(offbook):
        tool = offbook.tools(find)["find"]
        await offbook.provider.complete([{"role": "user", "content": "Hi"}], model="any", step_id="a")
        for _ in range(3):
            try:
                return tool.callable()
            except ToolFaultError:
                await asyncio.sleep(20)
        return "gave up"

    (result,) = explore_function(agent, recording, cases=["tool=find until=30s: tool_error"], workers=1).results
    assert result.title == "recovered"
    assert len(result.run.fired) == 2
    assert result.run.took_s == 40


@pytest.mark.parametrize("line", ["from=soon: timeout", "until=5x: timeout", "from=0: timeout"])
def test_what_is_neither_a_call_nor_a_time_is_refused(line):
    with pytest.raises(InputError, match="expected a call or a time, got "):
        parse_fault(line)


def test_an_outage_reads_as_it_was_written():
    line = "from=30s until=5m: http_error 503"
    assert str(parse_fault(line)) == line
    assert str(FaultPlan([parse_fault(line)])) == line
