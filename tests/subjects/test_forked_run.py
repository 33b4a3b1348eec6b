"""Runs in forked processes: how they end, what they leave behind, and what time it is in them."""

import asyncio
import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import random
import re
import select
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from time import sleep as rest

import pytest

from offbook import explore_function, tool
from offbook.clock import SYSTEM_CLOCK, VIRTUAL_EPOCH
from offbook.errors import InputError
from offbook.explore.options import Deadlines
from offbook.explore.run import RunFailure
from offbook.faults import FaultPlan
from offbook.subjects.function import FunctionSubject
from tests.explore.runs import plan_of, write_recording
from tests.fakes import user

RESET = plan_of("step=s call=1: connection_reset")


@pytest.fixture
def recording(tmp_path):
    return write_recording(tmp_path / "run.json", {"s": [{"content": "Hello"}]})


@pytest.fixture
def faulty_run(recording):
    """Runs a function that asks, and then goes on with `after` if the call fails."""

    def run(after, **options):
        async def agent(harness):
            try:
                return await ask(harness)
            except ConnectionError:
                result = after(harness)
                return await result if asyncio.iscoroutine(result) else result

        subject = FunctionSubject(agent, recording, **options)
        assert subject.run(FaultPlan()).result == "Hello"
        return subject.run(RESET)

    return run


async def ask(harness):
    return (await harness.provider.complete(user("Hi"), "m", step_id="s")).content


def recurse(_):
    return recurse(_)


def exhaust_memory(_):
    raise MemoryError


def die(code):
    return lambda _: os._exit(code)


def kill_oneself(number):
    return lambda _: os.kill(os.getpid(), number)


def interrupt(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("after", "kind", "message"),
    [
        (lambda _: sys.exit(3), "SystemExit", "it called sys.exit(3)"),
        (lambda _: sys.exit(), "SystemExit", "it called sys.exit()"),
        (lambda _: sys.exit("no more"), "SystemExit", "it called sys.exit('no more')"),
        (die(7), "ProcessEnded", "the process ended with exit status 7"),
        (kill_oneself(signal.SIGKILL), "ProcessEnded", "signal 9 ended the process"),
        (kill_oneself(signal.SIGSEGV), "ProcessEnded", "signal 11 ended the process"),
        (kill_oneself(signal.SIGTERM), "ProcessEnded", "signal 15 ended the process"),
        (recurse, "RecursionError", "maximum recursion depth exceeded"),
        (exhaust_memory, "MemoryError", ""),
        (interrupt, "KeyboardInterrupt", ""),
    ],
)
def test_however_a_run_ends_it_is_an_ending_of_this_run_alone(faulty_run, after, kind, message):
    run = faulty_run(after)
    assert run.error == RunFailure("undeclared", kind, message)
    assert run.fired


def test_an_exit_can_be_declared(faulty_run):
    assert faulty_run(lambda _: sys.exit(3), declared=["SystemExit"]).error.kind == "declared"


def test_what_was_done_before_an_exit_is_known(faulty_run):
    assert [call.outcome for call in faulty_run(die(7)).calls] == ["failed"]


def retry_whatever_happens(harness):
    async def retry():
        while True:
            try:
                return await ask(harness)
            except:  # noqa: E722 - that is what such agents do
                continue

    return retry()


def wait_whatever_happens(_):
    while True:
        try:
            time.sleep(5)
        except:  # noqa: E722 - that is what such agents do
            continue


async def wait_for_ever(_):
    await asyncio.Event().wait()


async def wait_long(_):
    await asyncio.sleep(7200)


def spin(_):
    while True:
        pass


def wait_natively(_):
    """Lock a mutex twice, in C: no signal wakes it up."""
    mutex, library = ctypes.create_string_buffer(256), ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


SHORT = Deadlines(virtual_s=60.0)
SHORT_FOR_ALL = Deadlines(virtual_s=60.0, real_s=1.0)
"""The run without a fault, too, must end in so much real time."""


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (retry_whatever_happens, "it made more than 105 model calls; the last came from test_forked_run.py:{ask} ask"),
        (
            wait_whatever_happens,
            "it had not ended after 60 s; it waited in test_forked_run.py:{line} wait_whatever_happens",
        ),
        (wait_long, "it had not ended after 60 s; it waited in test_forked_run.py:{line} wait_long"),
        (wait_for_ever, "it had not ended after 60 s; it waited in test_forked_run.py:{line} wait_for_ever"),
    ],
)
def test_a_run_that_does_not_end_is_ended_and_says_where_it_waited(faulty_run, after, reason):
    line = after.__code__.co_firstlineno + (3 if after is wait_whatever_happens else 1)
    expected = reason.format(line=line, ask=ask.__code__.co_firstlineno + 1)
    assert faulty_run(after, deadlines=SHORT).hung == expected


@pytest.mark.parametrize("after", [spin, wait_natively])
def test_a_run_that_never_gives_the_turn_back_is_ended(faulty_run, after):
    hung = faulty_run(after, deadlines=SHORT_FOR_ALL).hung
    place = rf"test_forked_run\.py:\d+ {after.__name__}"
    assert re.fullmatch(rf"it had not ended after 1 s of real time; it waited in {place}", hung)


@tool
def look(place: str) -> str:
    """Look somewhere."""
    raise LookupError(place)


def call_a_tool_whatever_happens(harness):
    while True:
        try:
            return harness.tools(look)["look"](place="here")
        except:  # noqa: E722 - that is what such agents do
            continue


def test_a_run_that_calls_a_tool_again_and_again_is_ended(faulty_run):
    run = faulty_run(call_a_tool_whatever_happens)
    line = call_a_tool_whatever_happens.__code__.co_firstlineno + 3
    place = f"test_forked_run.py:{line} call_a_tool_whatever_happens"
    assert run.hung == f"it made more than 100 tool calls; the last came from {place}"
    assert len(run.tools) == 100


CACHE = {}


async def remember(harness):
    """Asks only what it has not asked before."""
    if "answer" not in CACHE:
        CACHE["answer"] = await ask(harness)
    return CACHE["answer"]


def test_what_a_run_keeps_in_a_module_is_not_there_for_the_next(recording):
    exploration = explore_function(remember, recording, faults="connection_reset")
    assert "not reached" not in exploration.counts
    assert CACHE == {}


def test_a_run_cannot_change_the_folder_the_environment_or_the_signals_of_this_process(faulty_run):
    before = Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGTERM)

    def change(_):
        os.chdir("/")
        os.environ["CHANGED"] = "yes"
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    assert faulty_run(change).error is None
    assert (Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGTERM)) == before


def test_what_a_run_prints_is_discarded(faulty_run, capfd):
    def talk(_):
        print("to output")  # noqa: T201
        print("to error", file=sys.stderr)  # noqa: T201
        subprocess.run(["echo", "from a program"], check=True)
        return "said"

    assert faulty_run(talk).result == "said"
    assert capfd.readouterr() == ("", "")


def test_nothing_of_this_process_runs_when_that_of_a_run_ends(tmp_path, faulty_run):
    script = f"""\
import atexit, sys, tempfile
from offbook.faults import FaultPlan
from offbook.subjects.function import FunctionSubject
atexit.register(print, "the end")
folder = tempfile.TemporaryDirectory()
subject = FunctionSubject(lambda harness: sys.exit(0), {str(tmp_path / "run.json")!r})
print(subject.run(FaultPlan()).error.message)
"""
    write_recording(tmp_path / "run.json", {})
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["it called sys.exit(0)", "the end"]
    assert done.stderr == ""


def test_what_a_run_has_started_ends_with_it(faulty_run):
    def start(_):
        return subprocess.Popen(["sleep", "600"]).pid

    pid = faulty_run(start).result
    assert _ends(pid)


def _ends(pid):
    """Whether a process is dead or dies soon: a signal that was sent may not have arrived yet."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 30)[0])
    finally:
        os.close(process)


def test_a_process_that_a_run_forked_holds_nothing_up(faulty_run):
    def fork(_):
        if os.fork() == 0:
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

    assert faulty_run(fork).error.message == "signal 9 ended the process"


def test_modules_from_elsewhere_are_loaded_once_and_those_of_the_agent_in_each_run(recording, tmp_path, monkeypatch):
    (tmp_path / "own_desk.py").write_text("import this_week_only_colorsys as other\nseen = []\n")
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "this_week_only_colorsys.py").write_text("from time import sleep\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(package))

    async def agent(harness):
        import own_desk  # noqa: PLC0415

        own_desk.seen.append(await ask(harness))
        own_desk.other.sleep(30)
        return own_desk.seen

    subject = FunctionSubject(agent, recording)
    runs = [subject.run(FaultPlan()) for _ in range(2)]
    assert [(run.result, run.took_s) for run in runs] == [(["Hello"], 30.0)] * 2
    assert "own_desk" not in sys.modules
    assert sys.modules.pop("this_week_only_colorsys").__file__.startswith(str(package))


@pytest.fixture
def _readable_memory():
    """Let functions of `time` be found in this module, too: what was there before the first test is frozen."""
    gc.unfreeze()
    yield
    gc.freeze()


def sleep_by_default(seconds, sleep=time.sleep):
    sleep(seconds)


def sleep_by_keyword(seconds, *, sleep=rest):
    sleep(seconds)


@pytest.mark.usefixtures("_readable_memory")
def test_sleeping_lets_virtual_time_pass_for_everybody(faulty_run):
    async def wait(_):
        loop = asyncio.get_running_loop()
        timer = asyncio.create_task(asyncio.sleep(4, "timer"))
        await asyncio.sleep(0)
        started = time.monotonic(), time.time(), time.perf_counter(), loop.time(), SYSTEM_CLOCK.monotonic_s()
        time.sleep(3)  # noqa: ASYNC251 - as many agents do
        rest(2)  # noqa: ASYNC251
        sleep_by_default(5)
        sleep_by_keyword(5)
        ended = time.monotonic(), time.time(), time.perf_counter(), loop.time(), SYSTEM_CLOCK.monotonic_s()
        assert timer.done() is False
        await timer
        assert loop.time() == ended[3]
        return [round(after - before, 6) for before, after in zip(started, ended, strict=True)]

    run = faulty_run(wait)
    assert run.result == [15.0] * 5
    assert run.took_s == 15.0


def test_the_time_and_the_date_agree(faulty_run):
    def read(_):
        now_s = time.monotonic()
        assert SYSTEM_CLOCK.utc_now() == VIRTUAL_EPOCH + timedelta(seconds=now_s)
        assert time.time() == VIRTUAL_EPOCH.timestamp() + now_s
        assert time.time_ns() == time.time() * 1e9
        assert time.monotonic_ns() == time.perf_counter_ns() == now_s * 1e9
        assert now_s > 86_400
        return "agreed"

    assert faulty_run(read).result == "agreed"


async def patient(harness):
    """Waits as long as it is asked to, by time.sleep."""
    for _ in range(3):
        try:
            return await ask(harness)
        except Exception as error:
            time.sleep(float(getattr(error, "headers", {}).get("Retry-After", 1)))  # noqa: ASYNC251
    raise ConnectionError


def test_an_agent_that_waits_by_sleeping_does_not_come_too_soon(recording):
    subject = FunctionSubject(patient, recording)
    subject.run(FaultPlan())
    run = subject.run(plan_of("step=s call=1 attempt=1: http_error 429 headers.Retry-After=30"))
    assert run.result == "Hello"
    assert run.took_s == 30.0
    assert [call.is_too_soon for call in run.calls] == [False, False]


@pytest.mark.usefixtures("_readable_memory")
def test_threads_that_sleep_let_time_pass_too(faulty_run):
    async def wait(harness):
        await asyncio.to_thread(time.sleep, 600)
        thread = threading.Thread(target=rest, args=[600])
        thread.start()
        thread.join()
        return await asyncio.to_thread(asyncio.run, asyncio.sleep(600, "woken"))

    run = faulty_run(wait)
    assert run.result == "woken"
    assert run.took_s == 1800.0


def test_the_standard_library_waits_for_processes_and_threads_in_real_time(faulty_run):
    def wait(_):
        subprocess.run(["sleep", "0.05"], check=True, timeout=3000)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            found = concurrent.futures.as_completed([pool.submit(str, 1)], timeout=3000)
            return [each.result() for each in found]

    run = faulty_run(wait)
    assert run.result == ["1"]
    assert run.took_s == 0.0


def test_a_negative_sleep_is_refused_as_ever(faulty_run):
    assert faulty_run(lambda _: time.sleep(-1)).error.type == "ValueError"


def test_chance_is_the_same_in_every_run(faulty_run):
    assert faulty_run(lambda _: random.random()).result == faulty_run(lambda _: random.random()).result


def test_time_is_real_outside(faulty_run):
    real = time.sleep, time.monotonic, time.time, asyncio.new_event_loop
    assert faulty_run(lambda _: time.sleep(3000)).took_s == 3000.0
    assert (time.sleep, time.monotonic, time.time, asyncio.new_event_loop) == real


def test_text_that_is_not_unicode_is_made_readable(faulty_run):
    def fail(_):
        raise ValueError("half a \ud83d")

    assert faulty_run(fail).error.message == "half a ?"


def test_wrong_input_is_raised_here(recording):
    class Refusing(FunctionSubject):
        def run_here(self, plan, continuation):
            raise InputError("no", source="a", place="b", hint="c")

    with pytest.raises(InputError) as caught:
        Refusing(ask, recording).run(FaultPlan())
    error = caught.value
    assert error.reason == "no"
    assert error.source == "a"
    assert error.place == "b"
    assert error.hint == "c"


def test_an_error_of_the_subject_itself_is_raised_here(recording):
    class Broken(FunctionSubject):
        def run_here(self, plan, continuation):
            raise LookupError("our own fault")

    with pytest.raises(RuntimeError, match="LookupError: our own fault"):
        Broken(ask, recording).run(FaultPlan())


def test_runs_can_be_made_beside_other_threads_and_in_them(recording):
    is_over = threading.Event()
    others = [threading.Thread(target=is_over.wait) for _ in range(3)]
    for each in others:
        each.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        subject = FunctionSubject(patient, recording)
        pool.submit(subject.run, FaultPlan()).result()
        run = pool.submit(subject.run, plan_of("step=s call=1 attempt=1: connection_reset")).result()
    is_over.set()
    assert run.result == "Hello"
    assert run.took_s == 1.0


def test_inside_a_running_loop_runs_can_be_made_too(recording):
    async def explore():
        return FunctionSubject(patient, recording).run(FaultPlan())

    assert asyncio.run(explore()).result == "Hello"


def test_an_interrupt_ends_a_run_at_once(recording, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    def interrupt_the_exploration(_):
        (tmp_path / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGUSR1)
        spin(_)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            FunctionSubject(interrupt_the_exploration, recording).run(FaultPlan())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert _ends(int((tmp_path / "pid").read_text()))


def fork_and_exit(_):
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_and_go_on(_):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    return "the copy" if pid == 0 else "the run"


def fork_by_multiprocessing(_):
    process = multiprocessing.get_context("fork").Process(target=str)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize(
    ("after", "result"), [(fork_and_exit, 3), (fork_and_go_on, "the run"), (fork_by_multiprocessing, 0)]
)
def test_a_process_that_the_agent_forks_ends_without_a_report(faulty_run, after, result):
    run = faulty_run(after)
    assert run.result == result
    assert run.error is None
    assert run.hung == ""


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


def fail_unspeakably(_):
    raise UnspeakableError


def exit_with_an_object(_):
    sys.exit(object())


@pytest.mark.parametrize(
    ("after", "kind", "name", "message"),
    [
        (fail_unspeakably, "gave up", "UnspeakableError", "its text cannot be had: str() raised RuntimeError"),
        (exit_with_an_object, "undeclared", "SystemExit", "it called sys.exit(<object object at 0x…>)"),
    ],
)
def test_whatever_a_run_raises_has_a_text_that_is_the_same_in_every_run(faulty_run, after, kind, name, message):
    assert faulty_run(after).error == RunFailure(kind, name, message)


def test_a_run_that_is_killed_has_not_hung_though_nobody_is_told_of_its_end(faulty_run):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        run = faulty_run(kill_oneself(signal.SIGKILL))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert run.error == RunFailure("undeclared", "ProcessEnded", "the process ended")
    assert run.hung == ""


def test_a_clean_run_may_have_texts_with_half_a_surrogate_pair(recording):
    def odd():
        return "\ud800"

    async def agent(harness):
        harness.tools(odd)["odd"].callable()
        return await ask(harness)

    subject = FunctionSubject(agent, recording)
    assert subject.run(FaultPlan()).tools[0].result == "?"
    assert subject.run(RESET).fired
