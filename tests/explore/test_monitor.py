"""Running something on a harness."""

import asyncio
import json
import sys
import threading

import msgspec
import pytest

import offbook.clock
from offbook import ProviderGateway, RetryPolicy, explore_function
from offbook.errors import AllProvidersFailedError, DeadlineExceededError, ProviderConnectionError
from offbook.explore.monitor import MonitoredFunction, is_own_file, is_own_module, place_in_dump, place_of
from offbook.explore.options import Deadlines
from tests.explore.runs import harnesses_of, plan_of
from tests.fakes import user

HI = user("Hi")


def performed(work, entries=None, **options):
    return MonitoredFunction(work, **options).run(harnesses_of(entries or {"s": {"content": "Hello"}}), plan_of())


async def ask(harness):
    return (await harness.provider.complete(HI, "m", step_id="s")).content


def test_a_run_gives_its_result_and_its_calls():
    run = performed(ask)
    assert run.result == "Hello"
    assert run.error is None
    assert run.hung == ""
    assert run.diverged == ""
    assert [call.number for call in run.calls] == [1]


def test_a_function_need_not_wait_for_anything():
    assert performed(lambda harness: {"at": [1, 2]}).result == {"at": [1, 2]}


def test_time_is_virtual():
    async def sleep(harness):
        await asyncio.sleep(1800)

    assert performed(sleep).took_s == 1800.0


class Thing:
    """Something that JSON does not know."""


def test_a_result_that_is_no_json_is_reported_alike_in_every_run():
    texts = [performed(lambda harness: Thing()).result for _ in range(2)]
    assert texts == ["<tests.explore.test_monitor.Thing>"] * 2


class GaveUpError(Exception):
    pass


class GaveUpLaterError(GaveUpError):
    pass


def raising(error):
    def work(harness):
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "declared", "declared_as", "kind"),
    [
        (ValueError("no"), (), "", "undeclared"),
        (ValueError("no"), (GaveUpError,), "", "undeclared"),
        (GaveUpError("no"), (), "", "gave up"),
        (GaveUpError("no"), (ValueError,), "", "undeclared"),
        (GaveUpError("no"), (GaveUpError,), "GaveUpError", "declared"),
        (GaveUpLaterError("no"), ("KeyError", "GaveUpError"), "GaveUpError", "declared"),
        (DeadlineExceededError(5.0, []), (), "", "declared"),
        (ProviderConnectionError("no", provider="p"), (ValueError,), "", "declared"),
        (ExceptionGroup("two", [GaveUpError("no"), ValueError("no")]), (GaveUpError,), "GaveUpError", "declared"),
        (TimeoutError("no"), (), "", "undeclared"),
    ],
)
def test_an_error_is_declared_or_not(error, declared, declared_as, kind):
    ending = performed(raising(error), declared=declared).error
    assert ending.kind == kind
    assert ending.declared_as == declared_as


def test_the_message_of_an_error_is_the_same_in_every_run():
    assert performed(raising(ValueError(Thing()))).error.message.endswith("Thing object at 0x…>")


def test_a_run_that_has_not_ended_by_its_own_clock_has_hung():
    async def wait(harness):
        try:
            await asyncio.sleep(7200)
        except Exception:
            raise AssertionError("it was caught") from None

    run = performed(wait)
    assert run.hung == "it had not ended after 3600 s"
    assert run.took_s == 3600.0
    assert performed(wait, deadlines=Deadlines(virtual_s=5.0)).hung == "it had not ended after 5 s"


def test_a_run_that_makes_call_after_call_has_hung():
    harnesses = harnesses_of({"s": {"content": "Hello"}})
    monitored = MonitoredFunction(ask_for_ever)
    MonitoredFunction(ask).run(harnesses, plan_of())
    again = monitored.run(harnesses, plan_of())
    assert again.hung == "it made more than 105 model calls"


def test_a_run_whose_tasks_make_call_after_call_has_hung():
    async def ask_in_a_group(harness):
        async with asyncio.TaskGroup() as group:
            group.create_task(ask_for_ever(harness))

    harnesses = harnesses_of({"s": {"content": "Hello"}})
    MonitoredFunction(ask).run(harnesses, plan_of())
    assert MonitoredFunction(ask_in_a_group).run(harnesses, plan_of()).hung == "it made more than 105 model calls"


async def ask_for_ever(harness):
    while True:
        await ask(harness)


def test_a_run_that_never_gives_the_turn_back_has_hung():
    def spin(harness):
        while True:
            pass

    hung = performed(spin, deadlines=Deadlines(real_s=0.05)).hung
    assert hung == "it had not ended after 0.05 s of real time"


def test_beside_the_main_thread_no_alarm_rings():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(performed(ask, deadlines=Deadlines(real_s=0.01))))
    thread.start()
    thread.join()
    assert [run.result for run in runs] == ["Hello"]


def test_an_exit_is_an_ending():
    failure = performed(raising(SystemExit(3))).error
    assert failure.kind == "undeclared"
    assert failure.type == "SystemExit"
    assert failure.message == "it called sys.exit(3)"


def test_an_interrupt_comes_through():
    with pytest.raises(KeyboardInterrupt):
        performed(raising(KeyboardInterrupt()))
    with pytest.raises(BaseExceptionGroup):
        performed(raising(BaseExceptionGroup("stop", [KeyboardInterrupt()])))


def test_what_was_done_to_recover_is_counted():
    async def ask_gateway(harness):
        gateway = ProviderGateway(retry=RetryPolicy(max_retries=1), sink=harness.recovery_counter)
        gateway.register(harness.provider)
        gateway.register(harness.provider, is_fallback=True, as_model="backup")
        await gateway.complete(HI, "m", step_id="s")

    harnesses = harnesses_of({"s": {"content": "Hello"}})

    async def ask_both(harness):
        for model in ("m", "backup"):
            await harness.provider.complete(HI, model, step_id="s")

    MonitoredFunction(ask_both).run(harnesses, plan_of())
    run = MonitoredFunction(ask_gateway).run(harnesses, plan_of("call=1: http_error 500"))
    assert run.paths == {"fallback": 1, "retry": 1}


def test_a_breaker_that_opens_is_counted():
    async def ask_often(harness):
        for _ in range(3):
            try:
                await harness.gateway.complete(HI, "m", step_id="s")
            except AllProvidersFailedError:
                continue

    harnesses = harnesses_of({"s": {"content": "Hello"}})
    MonitoredFunction(ask).run(harnesses, plan_of())
    run = MonitoredFunction(ask_often).run(harnesses, plan_of("everywhere: http_error 500"))
    assert run.paths["breaker open"] == 1


def test_an_endless_task_among_others_has_hung(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"_version": 2, "hello": {"content": "Hello!"}}))

    async def hello(harness):
        while True:
            try:
                return await harness.provider.complete([{"role": "user", "content": "Hi"}], "m", step_id="hello")
            except ConnectionError:
                pass

    async def agent(harness):
        async with asyncio.TaskGroup() as group:
            group.create_task(hello(harness))

    exploration = explore_function(agent, file, faults="connection_reset")
    assert {str(each.case): each.verdict for each in exploration.results} == {
        "step=hello call=1 attempt=1: connection_reset": "recovered",
        "step=hello call=1: connection_reset": "hung",
    }


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        (__file__, True),
        ("<string>", True),
        ("<frozen importlib._bootstrap>", False),
        (json.__file__, False),
        (msgspec.__file__, False),
        (offbook.clock.__file__, False),
    ],
)
def test_files_of_offbook_the_standard_library_and_packages_are_not_the_agents(file, is_own):
    assert is_own_file(file) is is_own


def test_modules_are_distinguished_like_files():
    own = [is_own_module(module) for module in (sys.modules[__name__], json, msgspec, sys, offbook.clock)]
    assert own == [True, False, False, False, False]


def outermost(function):
    return function()


def test_the_place_is_the_innermost_line_of_the_agent():
    def here():
        return place_of(sys._getframe(), inside=outermost.__code__)

    assert outermost(here) == f"test_monitor.py:{here.__code__.co_firstlineno + 1} here"


def test_what_called_the_run_is_not_the_agent():
    def look():
        return place_of(sys._getframe().f_back, inside=outermost.__code__)

    assert outermost(look) == ""


async def waits(event):
    await event.wait()


def test_if_the_loop_waits_the_place_is_where_the_first_task_waits():
    async def look():
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        task = asyncio.create_task(waits(event), name="T")
        places = loop.create_future()
        loop.call_soon(lambda: places.set_result(place_of(None, inside=outermost.__code__)))
        place = await places
        event.set()
        await task
        return place

    assert asyncio.run(look()) == f"test_monitor.py:{waits.__code__.co_firstlineno + 1} waits"


DUMP = f"""\
Current thread 0x00007f (most recent call first):
  File "{json.__file__}", line 9 in loads
  File "/home/me/desk.py", line 41 in answer
  File "{__file__}", line 30 in outermost
  File "/home/me/main.py", line 3 in <module>
"""


def test_a_dump_shows_the_same():
    assert place_in_dump(DUMP, inside=outermost.__code__) == "desk.py:41 answer"
    without = "\n".join(line for line in DUMP.splitlines() if "desk" not in line)
    assert place_in_dump(without, inside=outermost.__code__) == ""
