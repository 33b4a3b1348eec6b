"""Forked runs of a program in virtual time: every wait takes its length, and none takes any time."""

import json
import sys
import time

import pytest

from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportInput
from offbook.subjects.executors import executor_of
from offbook.subjects.program.launch import NO_NOTICES
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import plan_of, write_recording
from tests.subjects.programs import ASKS

HELLO = {"content": "Hello"}
LONG_S = 100_000.0


class Heard:
    """Keeps what users are told."""

    def __init__(self):
        self.warnings, self.remarks = [], []
        self.warn, self.remark = self.warnings.append, self.remarks.append


def program(code, folder, *answers, fresh=False, notices=NO_NOTICES, **settings):
    """A Python program in a file, on a recording."""
    (folder / "agent.py").write_text(ASKS + code)
    path = write_recording(folder / "run.json", {"any": list(answers or [HELLO])})
    explore_settings = ExploreSettings(**{"on_divergence": "stop", "fresh": fresh, **settings})
    command = [sys.executable, str(folder / "agent.py")]
    return ProgramSubject(command, replay=path, settings=explore_settings, notices=notices)


def runs(subject, *plans):
    with subject:
        found = [subject.run(FaultPlan()), *(subject.run(plan_of(*plan)) for plan in plans)]
        assert subject.is_forked
    return found


WAITS = {
    "time.sleep": "import time; time.sleep(S)",
    "from time import sleep": "from time import sleep; sleep(S)",
    "asyncio": "import asyncio; asyncio.run(asyncio.sleep(S))",
    "a timeout of asyncio": """
import asyncio
async def main():
    try:
        async with asyncio.timeout(S): await asyncio.Event().wait()
    except TimeoutError: pass
asyncio.run(main())""",
    "a lock": "import threading; lock = threading.Lock(); lock.acquire(); assert not lock.acquire(timeout=S)",
    "an event": "import threading; assert not threading.Event().wait(S)",
    "a queue": """
import queue
try: queue.Queue().get(timeout=S)
except queue.Empty: pass""",
    "a simple queue": """
import queue
try: queue.SimpleQueue().get(timeout=S)
except queue.Empty: pass""",
    "a thread": """
import threading, time
thread = threading.Thread(target=time.sleep, args=[S]); thread.start(); thread.join()""",
    "a thread that is not awaited for so long": """
import threading
ended = threading.Event()
thread = threading.Thread(target=ended.wait); thread.start(); thread.join(S); ended.set(); thread.join()""",
    "a future": """
import concurrent.futures, threading
ended = threading.Event()
with concurrent.futures.ThreadPoolExecutor() as pool:
    future = pool.submit(ended.wait)
    try: future.result(timeout=S)
    except TimeoutError: ended.set()""",
    "a timer": "import threading; timer = threading.Timer(S, int); timer.start(); timer.join()",
    "select": "import select; assert select.select([], [], [], S) == ([], [], [])",
    "poll": "import select, socket; a, b = socket.socketpair(); p = select.poll(); p.register(a, 1); p.poll(S * 1000)",
    "a socket": """
import socket
a, b = socket.socketpair(); a.settimeout(S)
try: a.recv(1)
except TimeoutError: pass""",
    "a loop that looks at the clock": """
import time
due = time.monotonic() + 5
while time.monotonic() < due: pass
time.sleep(S - 5)""",
}


CLOCKS = """
import datetime, time
S = {seconds}

def clocks():
    return time.monotonic(), time.time(), time.perf_counter(), datetime.datetime.now().timestamp(), time.time_ns() / 1e9

def waited(source):
    starts = clocks()
    exec(source, {{"S": S}})
    return [round(end - start) for start, end in zip(starts, clocks())]
"""


def test_a_wait_takes_its_length_on_all_clocks_and_no_time(tmp_path):
    code = (
        CLOCKS.format(seconds=LONG_S)
        + f"""
ask(said("Hi"))
print(json.dumps({{name: waited(source) for name, source in {WAITS}.items()}}))
"""
    )
    started_s = time.monotonic()
    (run,) = runs(program(code, tmp_path, deadline_s=2 * LONG_S * len(WAITS)))
    assert json.loads(run.result["stdout"]) == dict.fromkeys(WAITS, [round(LONG_S)] * 5)
    assert time.monotonic() - started_s < LONG_S / 100


ASK_IN_TIME = """
import time
started = time.monotonic()
body = json.dumps({"model": "m", "messages": [said("Hi")]}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body, {"content-type": "application/json"})
try:
    text = json.load(urllib.request.urlopen(request, timeout=30))["choices"][0]["message"]["content"]
except OSError as error:
    text = type(error).__name__
print(text, round(time.monotonic() - started, 3))
"""


def test_answers_come_after_their_delay_and_timeouts_of_clients_end_before(tmp_path):
    _, slow, silent = runs(
        program(ASK_IN_TIME, tmp_path, deadline_s=100.0),
        ["call=1 attempt=1: slow 12000"],
        ["call=1 attempt=1: timeout 60000"],
    )
    assert slow.result["stdout"] == "Hello 12.0\n"
    assert silent.result["stdout"] == "TimeoutError 30.0\n"


def test_a_program_without_a_timeout_has_hung_after_its_deadline_without_waiting_for_it(tmp_path):
    started_s = time.monotonic()
    _, run = runs(
        program("print(ask(said('Hi'))['content'])", tmp_path, deadline_s=LONG_S), ["call=1 attempt=1: timeout 1e9"]
    )
    assert run.hung.startswith(f"it waited {LONG_S:g} s for the answer to call 1: no timeout is set")
    assert time.monotonic() - started_s < LONG_S / 100


def test_a_program_whose_timeouts_add_up_has_hung_by_its_retries(tmp_path):
    retrying = ASK_IN_TIME.replace("try:", "while True:\n  try:").replace("    text = json", "      text = json")
    retrying = retrying.replace("except OSError as error:", "  except OSError:").replace(
        "    text = type(error).__name__", "      continue\n  break"
    )
    _, run = runs(program(retrying, tmp_path, deadline_s=100.0), ["call=1: timeout 60000"])
    assert run.hung.startswith(
        "it had not ended after 100 s, when it waited for the answer to call 1 again; its waits add up"
    )


def test_a_program_that_waits_for_nothing_has_hung_at_once(tmp_path):
    started_s = time.monotonic()
    code = "ask(said('Hi'))\nimport threading\nthreading.Event().wait()"
    with program(code, tmp_path, deadline_s=LONG_S) as subject:
        run = subject.run(FaultPlan())
    assert run.hung == f"it had not ended {LONG_S:g} s after call 1, and was not waiting for an answer"
    assert time.monotonic() - started_s < LONG_S / 100


def test_a_client_that_obeys_retry_after_is_not_too_soon_and_one_that_does_not_is(tmp_path):
    code = """
import time, urllib.error
for _ in range(2):
    try:
        print(ask(said("Hi"))["content"])
        break
    except urllib.error.HTTPError as error:
        time.sleep(float(error.headers["retry-after"]) * {share})
"""
    plan = ["call=1 attempt=1: http_error 429 headers.retry-after=3000"]
    for share, is_too_soon in ((1, False), (0.5, True)):
        _, run = runs(program(code.format(share=share), tmp_path, deadline_s=LONG_S), plan)
        assert [call.is_too_soon for call in run.calls] == [False, is_too_soon]


BOTO3 = """
import time
import boto3, botocore.config, botocore.exceptions

settings = botocore.config.Config(read_timeout=30, retries={"total_max_attempts": 2})
client = boto3.client("bedrock-runtime", config=settings)
started_s = time.monotonic()
try:
    answer = client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "Hi"}]}])
    deltas = [event["contentBlockDelta"]["delta"] for event in answer["stream"] if "contentBlockDelta" in event]
    print("".join(delta["text"] for delta in deltas))
except Exception as error:
    print(type(error).__name__)
print(int(time.monotonic() - started_s))
"""


def test_boto3_waits_and_retries_in_virtual_time_and_needs_no_login(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    clean, late, silent, busy, broken = runs(
        program(BOTO3, tmp_path, deadline_s=1000.0),
        ["call=1 attempt=1: slow 12000"],
        ["everywhere: timeout 600000"],
        ["call=1 attempt=1: http_error 429 headers.Retry-After=4"],
        ["call=1 attempt=1: stream_truncate 1 raise=error_event"],
    )
    assert clean.result["stdout"] == "Hello\n0\n"
    assert late.result["stdout"] == "Hello\n12\n"
    assert silent.result["stdout"] == "ReadTimeoutError\n60\n"
    assert busy.result["stdout"] == "Hello\n4\n"
    assert [call.is_too_soon for call in busy.calls] == [False, False]
    assert broken.result["stdout"] == "EventStreamError\n0\n"


def test_a_child_process_is_waited_for_in_real_time(tmp_path):
    code = """
import subprocess, time
child = subprocess.Popen(["sleep", "0.3"])
polls = 0
while child.poll() is None and polls < 1000:
    polls += 1
    time.sleep(0.01)
print(child.returncode, ask(said("Hi"))["content"])
"""
    (run,) = runs(program(code, tmp_path))
    assert run.result["stdout"] == "0 Hello\n"


def test_the_libraries_of_the_clean_run_are_there_in_the_others_and_its_own_modules_are_not(tmp_path):
    (tmp_path / "mine.py").write_text("")
    code = """
print("colorsys" in sys.modules, "mine" in sys.modules)
import colorsys, mine
ask(said("Hi"))
"""
    clean, other = runs(program(code, tmp_path), ["call=2: http_error 500"])
    assert clean.result["stdout"] == "False False\n"
    assert other.result["stdout"] == "True False\n"


OPENAI = """
import re, openai
from openai._utils._transform import get_type_hints
print(get_type_hints.cache_info().currsize > 0, openai.types.chat.ChatCompletion.__dict__["__pydantic_complete__"])
re.compile("refund of [0-9]+")
client = openai.OpenAI(max_retries=0)
said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
print(said.choices[0].message.content, len(said.model_dump()) > 0, file=sys.stderr)
"""


def test_what_an_sdk_builds_on_its_first_call_is_there_when_a_run_starts_and_no_call_is_counted_for_it(tmp_path):
    clean, other = runs(program(OPENAI, tmp_path), ["call=1: http_error 500"])
    assert [clean.result["stdout"], other.result["stdout"]] == ["False False\n", "True True\n"]
    assert [len(run.calls) for run in (clean, other)] == [1, 1]
    assert other.fired == ("call=1 attempt=1: http_error 500",)


def test_requests_that_are_too_long_for_a_message_warm_nothing_up(tmp_path):
    code = OPENAI.replace('"Hi"', '"Hi" * 200_000')
    clean, other = runs(program(code, tmp_path), ["call=1: http_error 500"])
    assert clean.result["exit"] == 0
    assert other.result["exit"] == 1


def test_a_library_that_starts_threads_is_loaded_in_every_run(tmp_path, monkeypatch):
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    (libraries / "threaded.py").write_text(
        "import threading, queue\nwork = queue.SimpleQueue()\nseen = []\n"
        "threading.Thread(target=lambda: seen.append(work.get()), daemon=True).start()\n"
    )
    code = """
import threaded, time
threaded.work.put(ask(said("Hi"))["content"])
while not threaded.seen: time.sleep(0.001)
print(threaded.seen)
"""
    clean, other = runs(program(code, tmp_path), ["call=2: http_error 500"])
    assert clean.result == other.result == {"exit": 0, "stdout": "['Hello']\n"}


STUBBORN = """
import time, urllib.error
for attempt in range(4):
    try:
        print(ask(said("Hi"))["content"])
        break
    except OSError:
        time.sleep(0.02 * 2 ** attempt)
else:
    sys.exit("no model")
"""


QUICK_FAULTS = "http_error 429,http_error 500,connection_reset,empty_response"
"""Those that let no client wait: a program that is started anew would do so in real time."""


IS_FORKED_EARLY = "kept = open(__file__)\n"
"""A file that is open cannot be shared by runs."""


def report_of(folder, *, workers, fresh=False, faults=QUICK_FAULTS, start=""):
    with program(start + STUBBORN, folder, fresh=fresh, on_divergence="explore") as subject:
        options = ExploreOptions(variants=select_variants(faults, subject.variants))
        exploration = Explorer(subject, options, executor=executor_of(subject, workers)).explore()
        assert subject.is_forked == (not fresh)
    return exploration_json(ReportInput(exploration=exploration, reproduce=str))


def test_the_report_is_the_same_twice_with_any_number_of_workers_forked_late_or_early_or_fresh(tmp_path):
    first = report_of(tmp_path, workers=1)
    assert first == report_of(tmp_path, workers=2)
    assert first == report_of(tmp_path, workers=2, start=IS_FORKED_EARLY)
    assert first == report_of(tmp_path, workers=2, fresh=True)


def test_what_a_program_prints_before_its_first_call_and_writes_is_there_once_a_run(tmp_path):
    code = """
import uuid
from pathlib import Path
print("starting", flush=True); print("ready", end=" ")
has_log = Path("LOG").exists()
Path("LOG").open("a").write(f"{uuid.uuid4()}\\n")
print(ask(said("Hi"))["content"], has_log, len(Path("LOG").read_text().split()))
""".replace("LOG", str(tmp_path / "log"))
    found = runs(program(code, tmp_path), ["call=2: http_error 500"], ["call=2: http_error 500"])
    printed = [f"starting\nready Hello {number > 1} {number}\n" for number in (1, 2, 3)]
    assert [run.result["stdout"] for run in found] == printed
    assert len(set((tmp_path / "log").read_text().split())) == len(found)


@pytest.mark.parametrize(
    ("code", "reasons"), [("", []), ("held = open(__file__)", ["it has opened a file or a connection"])]
)
def test_why_runs_do_not_begin_at_the_first_call_is_said_once(code, reasons, tmp_path):
    notices = Heard()
    subject = program(f"{code}\nask(said('Hi'))", tmp_path, notices=notices)
    runs(subject, *[["call=2: http_error 500"]] * 2)
    assert [remark.rpartition(": ")[2] for remark in notices.remarks] == reasons


def test_if_a_forked_case_differs_from_a_fresh_one_all_cases_are_started_anew_and_that_is_said(tmp_path):
    code = (
        """
import sys
if "_offbook_guest.server" in sys.modules and os.path.exists("armed"): sys.exit(9)
"""
        + STUBBORN
    )
    code = code.replace('"armed"', repr(str(tmp_path / "armed")))
    notices = Heard()
    with program(code, tmp_path, on_divergence="explore", notices=notices) as subject:
        options = ExploreOptions(variants=select_variants(f"{QUICK_FAULTS},http_error", subject.variants))
        explorer = Explorer(subject, options, executor=executor_of(subject, 2))
        assert explorer.clean.error is None
        (tmp_path / "armed").write_text("")
        exploration = explorer.explore(explorer.cases[:12])
    assert not subject.is_forked
    assert len(notices.warnings) == 1
    assert "when started anew" in notices.warnings[0]
    assert exploration.counts.get("recovered")


def test_a_program_that_sleeps_for_too_long_before_it_tries_again_is_told_for_how_long(tmp_path):
    retrying = """
import time
try: ask(said("Hi"))
except OSError: time.sleep(5000); ask(said("Hi"))
"""
    _, run = runs(program(retrying, tmp_path, deadline_s=100.0), ["call=1 attempt=1: http_error 500"])
    assert run.hung.startswith("it sleeps for 5000 s after call 1, longer than 100 s")


MANY_MODULES = """
import types
for number in range(4000):
    module = types.ModuleType("one_of_many_" + "x" * 60 + str(number))
    module.__file__ = "/elsewhere/module.py"
    sys.modules[module.__name__] = module
print(ask(said("Hi"))["content"])
"""


def test_a_program_that_loads_more_than_a_message_can_name_is_forked(tmp_path):
    for run in runs(program(MANY_MODULES, tmp_path), ["call=1 attempt=1: http_error 500"]):
        assert run.result["exit"] == (0 if not run.fired else 1)
