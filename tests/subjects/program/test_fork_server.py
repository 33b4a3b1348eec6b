"""A forked run of a program is what Python itself makes of it: its `__main__`, its outputs and its exit code."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from offbook.subjects.program.fork_server import ForkedProgram, ForkServer, Libraries, UnfitProgramError
from offbook.subjects.program.python_command import parse_python_command
from offbook.wire.server.session_clock import MESSAGE
from tests.subjects.programs import wait_until

PROGRAMS = {
    "its arguments and its path": """
import sys
print(sys.argv, sys.path[0], sys.orig_argv, sys.flags.optimize, sys.executable)
""",
    "its names": """
import sys
hidden = ("__builtins__", "__loader__", "__annotations__")
print({name: value for name, value in globals().items() if name not in hidden and name != "hidden"})
print(type(__loader__).__name__, __builtins__.__name__, sys.modules["__main__"].__dict__ is globals())
""",
    "a module beside it": "import beside; print(beside.VALUE, __name__)",
    "an error": """
def fail(): raise KeyError("lost")
try: fail()
except KeyError as error: raise RuntimeError("no way") from error
""",
    "a syntax error": "def broken(:\n    pass",
    "exit code 3": "import sys; sys.exit(3)",
    "exit with a text": "import sys; print('out'); sys.exit('no model')",
    "exit with None": "import sys; sys.exit()",
    "an end without clean-up": "import os; print('never shown', end=''); os._exit(7)",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "an interrupt": "raise KeyboardInterrupt",
    "exit hooks after threads": """
import atexit, threading
atexit.register(print, "first registered, last run")
atexit.register(print, "last registered")
ended = threading.Event()
threading.Thread(target=lambda: (ended.wait(), print("a thread"))).start()
print("main has ended")
ended.set()
""",
    "an error in a thread": """
import threading
def fail(): raise ValueError("in a thread")
thread = threading.Thread(target=fail, name="worker")
thread.start()
thread.join()
""",
    "an error in an exit hook": """
import atexit
@atexit.register
def fail(): raise ValueError("in a hook")
""",
    "a hook for errors": """
import sys
sys.excepthook = lambda kind, error, trace: print("hooked", kind.__name__, error, trace.tb_lineno)
raise ValueError("x")
""",
    "output without a newline": "import sys; sys.stdout.write('half'); sys.stderr.write('other')",
    "an open file": "file = open('written.txt', 'w'); file.write('all of it'); print(1)",
    "its input": "import sys; print(repr(sys.stdin.read()))",
    "a closed output": "import sys; sys.stdout.close()",
    "asyncio and a pool": """
import asyncio
from concurrent.futures import ThreadPoolExecutor
async def main(): return await asyncio.to_thread(lambda: 42)
with ThreadPoolExecutor(2) as pool: print(asyncio.run(main()), list(pool.map(str, range(3))))
""",
    "a process of its own": "import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)",
    "processes": """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-1, -2]))
""",
    "a pickle of its class": """
import pickle
class Order: pass
print(type(pickle.loads(pickle.dumps(Order()))) is Order, Order.__module__)
""",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("VALUE = 'found'")
    return tmp_path


ADDRESS = ("127.0.0.1", 1)


def forked(command, libraries=None, *, runs=1, late_runs=0):
    """The endings of forked runs of a command, the last ones forked late. Time passes as soon as they wait."""
    program = parse_python_command(command, os.environ)
    server = ForkServer(program, os.environ, libraries)
    try:
        endings = [run_once(server) for _ in range(runs)]
        if late_runs:
            server.hold(ADDRESS)
        return endings + [run_once(server) for _ in range(late_runs)], server
    finally:
        server.close()


def run_once(server, now_s=0.0, **changes):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clock = threading.Thread(target=let_time_pass, args=[ours])
    clock.start()
    run = ForkedProgram(server, ADDRESS, {**os.environ, **changes}, wants_modules=False)
    ending = run.run(lambda: 60.0, theirs, now_s)
    clock.join()
    return ending


def let_time_pass(link):
    """Answer a program that waits with the moment that it waits for, until it has ended."""
    with link:
        while message := link.recv(MESSAGE.size):
            link.send(MESSAGE.pack(b"t", MESSAGE.unpack(message)[1]))


def fresh(command):
    ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return ran.returncode, ran.stdout, without_addresses(ran.stderr)


def as_tuple(ending):
    return ending.code, ending.stdout, without_addresses(ending.stderr)


def without_addresses(text):
    return re.sub("0x[0-9a-f]+", "0x…", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_forked_run_ends_like_one_that_is_started(name, folder):
    (folder / "agent.py").write_text(PROGRAMS[name])
    command = [sys.executable, "agent.py", "one", "--two"]
    expected = fresh(command)
    written = (folder / "written.txt").read_text() if (folder / "written.txt").exists() else ""
    (folder / "written.txt").unlink(missing_ok=True)
    endings, _ = forked(command, runs=1, late_runs=2)
    assert [as_tuple(each) for each in endings] == [expected] * 3
    assert ((folder / "written.txt").read_text() if written else "") == written


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            ["-m", "package.tool", "one"],
            "import sys; print(sys.argv, __name__, __package__, __spec__.name, sys.path[0])",
        ),
        (["-m", "package", "one"], ""),
        (["-m", "package.tool"], "raise ValueError('lost')"),
        (["-m", "no.such.module"], ""),
        (["-O", "-W", "error", "-m", "package.tool"], "import sys; print(sys.flags.optimize, sys.warnoptions)"),
        (["-c", "import sys; print(sys.argv, __name__, sys.path[0]); raise ValueError(1)", "one"], ""),
        (["-P", "package/tool.py"], "import sys; print(sys.path[0] == '' or sys.path[0].endswith('package'))"),
        (["-u", "link.py"], "import sys; print(sys.path[0], __file__, sys.argv)"),
    ],
)
def test_modules_code_flags_and_links_are_run_like_python_does(words, code, folder):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__main__.py").write_text("import sys; print(sys.argv, __name__, __package__)")
    (folder / "package" / "tool.py").write_text(code)
    (folder / "link.py").symlink_to(folder / "package" / "tool.py")
    command = [sys.executable, *words]
    endings, _ = forked(command, late_runs=1)
    assert [as_tuple(each) for each in endings] == [fresh(command)] * 2


def test_a_console_script_is_run_by_the_python_of_its_first_line(folder):
    script = folder / "my-agent"
    script.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv, __file__)\nsys.exit(4)\n")
    script.chmod(0o755)
    endings, _ = forked([str(script), "one"])
    assert as_tuple(endings[0]) == fresh([str(script), "one"])


def test_what_is_loaded_before_is_there_and_nothing_that_a_run_changes_is_there_in_the_next(folder):
    (folder / "agent.py").write_text(
        "import sys; print('colorsys' in sys.modules)\n"
        "import colorsys; print(hasattr(colorsys, 'mark')); colorsys.mark = 1"
    )
    endings, server = forked([sys.executable, "agent.py"], Libraries(["colorsys", "no_such_module"]), runs=2)
    assert [each.stdout for each in endings] == ["True\nFalse\n"] * 2
    assert server.why == ""


FAKE_SDK = """
sent = []
class OpenAI:
    def __init__(self, **options): self.chat = self.completions = self
    def create(self, **body): sent.append(body["number"])
"""


def test_requests_are_sent_once_more_in_as_many_messages_as_they_need_and_one_that_fits_into_none_is_not(
    folder, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(folder / "libraries"))
    (folder / "libraries" / "openai").mkdir(parents=True)
    (folder / "libraries" / "openai" / "__init__.py").write_text(FAKE_SDK)
    (folder / "agent.py").write_text("import openai; print(openai.sent)")
    sizes = [60_000] * 5 + [300_000, 10]
    bodies = [json.dumps({"number": number, "text": "x" * size}) for number, size in enumerate(sizes)]
    libraries = Libraries(["openai"], requests=[("/v1/chat/completions", body) for body in bodies])
    (ending,), _ = forked([sys.executable, "agent.py"], libraries)
    assert ending.stdout == "[0, 1, 2, 3, 4, 6]\n"


UNFIT = {
    "starts a thread": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "opens a connection": "import socket; kept = socket.socketpair()",
    "prints something": "print('welcome')",
}


@pytest.mark.parametrize("why", UNFIT)
def test_a_library_that_cannot_be_loaded_before_a_fork_is_blamed_with_those_that_load_it(why, folder, monkeypatch):
    libraries = folder / "libraries"
    libraries.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    (libraries / "inner.py").write_text(UNFIT[why])
    (libraries / "outer.py").write_text("import inner")
    (folder / "agent.py").write_text("import outer")
    program = parse_python_command([sys.executable, "agent.py"], os.environ)
    server = ForkServer(program, os.environ, Libraries(["colorsys", "outer", "inner"]))
    server.close()
    assert server.blamed == ["inner", "outer"]
    assert server.why == f"loading inner {why}"


def test_an_interpreter_that_cannot_fork_so_is_refused(folder):
    (folder / "agent.py").write_text("")
    (folder / "python").write_text("#!/bin/sh\nexit 78\n")
    (folder / "python").chmod(0o755)
    program = parse_python_command([str(folder / "python"), "agent.py"], os.environ)
    with pytest.raises(UnfitProgramError, match=r"not CPython 3\.11 or later"):
        ForkServer(program, os.environ)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("late_runs", [0, 1])
def test_nothing_is_left_when_offbook_is_killed(late_runs, folder):
    """The server ends when its socket is closed, whoever closes it, and takes the run and its children with it."""
    (folder / "agent.py").write_text(
        "import subprocess, os\nchild = subprocess.Popen(['sleep', '600'])\n"
        "open('pids', 'w').write(f'{os.getppid()} {os.getpid()} {child.pid}')\n"
        "os.rename('pids', 'ready')\nchild.wait()\n"
    )
    (folder / "offbook_like.py").write_text(
        "import os, sys\n"
        "from tests.subjects.program.test_fork_server import forked\n"
        f"forked([sys.executable, 'agent.py'], runs={1 - late_runs}, late_runs={late_runs})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    parent = subprocess.Popen([sys.executable, "offbook_like.py"], env=environment)
    try:
        wait_until((folder / "ready").exists)
        pids = [int(pid) for pid in (folder / "ready").read_text().split()]
        assert all(map(alive, pids))
        parent.kill()
        wait_until(lambda: not any(map(alive, pids)))
    finally:
        parent.kill()
        parent.wait()


class HastyForkServer(ForkServer):
    """Leaves before it has read that a run has started."""

    def _expect(self, *names):
        if "pid" in names:
            wait_until(Path("ready").exists)
            raise InterruptedError
        return super()._expect(*names)


def test_what_a_run_has_started_ends_with_it_if_offbook_leaves_before_it_knows_of_the_run(folder):
    (folder / "agent.py").write_text(
        "import subprocess, os\nchild = subprocess.Popen(['sleep', '600'])\n"
        "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\nos.rename('pids', 'ready')\nchild.wait()\n"
    )
    server = HastyForkServer(parse_python_command([sys.executable, "agent.py"], os.environ), os.environ)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, pytest.raises(InterruptedError):
        ForkedProgram(server, ADDRESS, dict(os.environ), wants_modules=False).run(lambda: 60.0, theirs, 0.0)
    server.close()
    pids = [int(pid) for pid in (folder / "ready").read_text().split()]
    wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize("is_late", [False, True])
def test_many_runs_leave_neither_memory_nor_files_nor_processes(is_late, folder):
    (folder / "agent.py").write_text("import asyncio\n" + CALL.replace("CALL", "print('x' * 100)"))
    program = parse_python_command([sys.executable, "agent.py"], os.environ)
    server = ForkServer(program, os.environ)
    try:
        if is_late:
            server.hold(ADDRESS)
        forking = int(children(server.pid)[0]) if is_late else server.pid
        for _ in range(3):
            run_once(server)
        before = usage(forking)
        for _ in range(50):
            run_once(server)
        after = usage(forking)
        assert after["files"] == before["files"]
        assert after["children"] == before["children"] == 0
        assert after["own files"] == before["own files"]
        assert after["kB"] < before["kB"] + 500
    finally:
        server.close()


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def usage(pid: int) -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "own files": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(children(pid)),
        "kB": int(status["VmRSS"].split()[0]),
    }


CALL = """
import asyncio, socket
async def main():
    socket.socket().close()
    CALL
asyncio.run(main())
"""
"""The loop runs when the program reaches the place where it is forked."""

WHICH_PROCESS = """
import sys; sys.path.append("site-packages")
from which_process import number
own = number()
"""
"""Reads the number of the process as libraries do, which may be before the program is forked."""


@pytest.fixture
def which_process(folder):
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "which_process.py").write_text("import os, uuid\ndef number(): return os.getpid()\n")
    (folder / "site-packages" / "unique.py").write_text("import uuid\ndef unique(): return uuid.uuid4()\n")


FIRST_ACTIONS = {
    "it looks up a name": "socket.getaddrinfo('127.0.0.1', 1)",
    "a loop opens a connection": "asyncio.run(connect())",
    "it writes a file": "open('written', 'a').write('x')",
    "it makes a folder": "os.makedirs('made', exist_ok=True)",
    "it starts a process": "subprocess.run(['true'])",
    "it starts a thread": "threading.Thread(target=int).start()",
    "it waits": "time.sleep(5)",
    "it waits in a loop": "asyncio.run(asyncio.sleep(5))",
    "it opens a database": "sqlite3.connect('data')",
    "it wants to be unique": "uuid.uuid4()",
    "it wants a secret": "secrets.token_hex()",
    "it asks which process it is": "assert os.getpid() == int(os.readlink('/proc/self'))",
    "it reads what the system knows of it": "open('/proc/self/stat').read()",
}


@pytest.mark.parametrize("action", FIRST_ACTIONS)
@pytest.mark.usefixtures("which_process")
def test_runs_are_forked_before_the_program_first_does_more_than_work_in_memory(action, folder):
    (folder / "agent.py").write_text(
        "import asyncio, os, secrets, socket, sqlite3, subprocess, sys, threading, time, uuid\n"
        "async def connect(): socket.socket().close()\n"
        f"{WHICH_PROCESS}print('said before', file=sys.stderr); print(own)\n"
        f"{FIRST_ACTIONS[action]}\n"
        "print(own != number())"
    )
    endings, server = forked([sys.executable, "agent.py"], runs=0, late_runs=2)
    assert server.is_held
    assert server.why_early == ""
    outputs = [each.stdout.split() for each in endings]
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == "True"
    assert [each.stderr for each in endings] == ["said before\n"] * 2
    if action == "it writes a file":
        assert (folder / "written").read_text() == "xx"


HARMLESS = f"""
import logging, os, sys, random, socket, threading, time
{WHICH_PROCESS}
from unique import unique
open(__file__).read(), os.path.exists("no such file"), os.listdir(), random.random(), time.time(), unique()
os.environ["SET"] = "here"
logging.warning("starting")
real = threading.Thread.start
def start(self): return real(self)
threading.Thread.start = start
made = socket.socket(); made.close()
socket.getaddrinfo('127.0.0.1', 1)
print(own, random.random(), time.monotonic() > 0, os.environ["SET"], threading.Thread.start is start, os.stat)
"""


@pytest.mark.usefixtures("which_process")
def test_what_only_reads_or_works_in_memory_is_done_once(folder):
    (folder / "agent.py").write_text(HARMLESS)
    endings, server = forked([sys.executable, "agent.py"], late_runs=2)
    assert server.is_held
    early, first, second = (each.stdout.split() for each in endings)
    assert first == second
    assert first[1:] == early[1:]
    assert first[0] != early[0]
    assert first[4:] == ["True", "<built-in", "function", "stat>"]
    assert {each.stderr for each in endings} == {"WARNING:root:starting\n"}


SHARED = {
    "it has opened a file or a connection": [
        "kept = open(__file__)",
        "import os; kept = os.dup(1)",
        "kept = socket.socketpair()",
        "import select; kept = select.epoll()",
        "import os; os.close(0); os.open(__file__, os.O_RDONLY)",
    ],
    "what it has cannot be seen: [Errno 9] Bad file descriptor": ["import os; os.close(2)"],
    "it has a timer": ["import signal; signal.alarm(3600)"],
    "it has written something": ["import os; os.write(0, b'x')"],
    "it shares memory": ["import _multiprocessing; kept = _multiprocessing.SemLock(1, 1, 1, f'/offbook-{own}', True)"],
    "its event loop has something to do": [
        "import asyncio; loop = asyncio.new_event_loop(); loop.call_soon_threadsafe(int)"
    ],
    "it has a thread": ["import _thread, time; _thread.start_new_thread(time.sleep, (60,))"],
    "it sends a signal": ["import os; os.kill(own, 0)"],
    "it ends before it calls anybody": ["raise SystemExit"],
}


@pytest.mark.parametrize(("why", "code"), [(why, code) for why, codes in SHARED.items() for code in codes])
@pytest.mark.usefixtures("which_process")
def test_a_program_that_has_what_its_runs_would_share_or_miss_is_forked_early(why, code, folder):
    (folder / "agent.py").write_text(
        f"import socket\n{WHICH_PROCESS}\n{code}\nsocket.getaddrinfo('127.0.0.1', 1)\nprint(own == number())"
    )
    (ending,), server = forked([sys.executable, "agent.py"], runs=0, late_runs=1)
    # with Python 3.12, starting a thread is an event
    if sys.version_info < (3, 12) or why != "it has a thread":
        assert not server.is_held
        assert server.why_early == why
        assert ending.stdout == ("" if "SystemExit" in code else "True\n")


@pytest.mark.parametrize(
    "read",
    [
        "open('state').read() if os.path.exists('state') else ''",
        "str(os.path.isfile('state'))",
        "str([each.name for each in pathlib.Path('.').iterdir() if each.name == 'state'])",
    ],
)
def test_runs_are_forked_early_once_a_run_has_changed_what_the_program_has_read_before(read, folder):
    (folder / "agent.py").write_text(
        f"import os, pathlib, socket\nfound = {read}\nsocket.getaddrinfo('127.0.0.1', 1)\n"
        "print(found); open('state', 'a').write('x')"
    )
    command = [sys.executable, "agent.py"]
    expected = [fresh(command), fresh(command), fresh(command)]
    (folder / "state").unlink()
    endings, server = forked(command, runs=0, late_runs=3)
    assert [as_tuple(each) for each in endings] == expected
    assert not server.is_held


@pytest.mark.parametrize("start", [{"now_s": 5.0}, {"MORE": "1"}])
@pytest.mark.usefixtures("which_process")
def test_a_run_that_starts_otherwise_is_forked_early(start, folder):
    (folder / "agent.py").write_text(
        f"import os, socket\nmore = os.environ.get('MORE', ''){WHICH_PROCESS}\n"
        "socket.getaddrinfo('127.0.0.1', 1); print(own == number(), more)"
    )
    program = parse_python_command([sys.executable, "agent.py"], os.environ)
    server = ForkServer(program, os.environ)
    try:
        server.hold(ADDRESS)
        outputs = [run_once(server).stdout, run_once(server, **start).stdout]
        assert outputs == ["False \n", f"True {start.get('MORE', '')}\n"]
        assert not server.is_held
    finally:
        server.close()


def test_a_loop_that_runs_at_the_fork_wakes_waits_and_ends_as_ever_in_each_run(folder):
    """A run that ends with its loop woken, or is full of connections, leaves nothing to the next one."""
    (folder / "agent.py").write_text(
        CALL.replace(
            "CALL",
            """
    loop = asyncio.get_running_loop()
    print(await asyncio.to_thread(lambda: 42), asyncio.current_task() is not None)
    loop.add_signal_handler(10, print, "a signal")
    os.kill(os.getpid(), 10)
    await asyncio.sleep(1000)
    started = loop.time()
    try: await asyncio.wait_for(asyncio.Event().wait(), 100_000)
    except TimeoutError: print(round(loop.time() - started))
    kept = socket.socketpair(); kept[0].send(b"x"); loop.add_reader(kept[1], int)
    loop.call_soon_threadsafe(int)
    os._exit(0) if not sys.stdout.flush() else None
""",
        ).replace("import asyncio", "import asyncio, os, sys")
    )
    endings, server = forked([sys.executable, "agent.py"], late_runs=3)
    assert server.is_held
    assert {as_tuple(each) for each in endings} == {(0, "42 True\na signal\n100000\n", "")}
