"""A forked run of a program is what Python itself makes of it: its `__main__`, its outputs and its exit code."""

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


def forked(command, libraries=None, *, runs=1):
    """The endings of forked runs of a command. Time passes as soon as they wait."""
    program = parse_python_command(command, os.environ)
    server = ForkServer(program, os.environ, libraries)
    try:
        return [run_once(server) for _ in range(runs)], server.why
    finally:
        server.close()


def run_once(server):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clock = threading.Thread(target=let_time_pass, args=[ours])
    clock.start()
    ending = ForkedProgram(server, ("127.0.0.1", 1), os.environ, wants_modules=False).run(lambda: 60.0, theirs)
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
    endings, _ = forked(command, runs=2)
    assert [as_tuple(each) for each in endings] == [expected, expected]
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
    endings, _ = forked(command)
    assert as_tuple(endings[0]) == fresh(command)


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
    endings, why = forked([sys.executable, "agent.py"], Libraries(["colorsys", "no_such_module"]), runs=2)
    assert [each.stdout for each in endings] == ["True\nFalse\n"] * 2
    assert why == ""


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
    assert (server.blamed, server.why) == (["inner", "outer"], f"loading inner {why}")


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


def test_nothing_is_left_when_offbook_is_killed(folder):
    """The server ends when its socket is closed, whoever closes it, and takes the run and its children with it."""
    (folder / "agent.py").write_text(
        "import subprocess, os\nchild = subprocess.Popen(['sleep', '600'])\n"
        "open('pids', 'w').write(f'{os.getppid()} {os.getpid()} {child.pid}')\n"
        "os.rename('pids', 'ready')\nchild.wait()\n"
    )
    (folder / "offbook_like.py").write_text(
        "import os, sys\n"
        "from tests.subjects.program.test_fork_server import forked\n"
        "forked([sys.executable, 'agent.py'])\n"
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


def test_many_runs_leave_neither_memory_nor_files_nor_processes(folder):
    (folder / "agent.py").write_text("print('x' * 100)")
    program = parse_python_command([sys.executable, "agent.py"], os.environ)
    server = ForkServer(program, os.environ)
    try:
        run_once(server)
        before = usage(server.pid)
        for _ in range(200):
            run_once(server)
        after = usage(server.pid)
        assert after["files"] == before["files"]
        assert after["children"] == before["children"] == 0
        assert after["own files"] == before["own files"]
        assert after["kB"] < before["kB"] + 1000
    finally:
        server.close()


def usage(pid: int) -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "own files": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(children),
        "kB": int(status["VmRSS"].split()[0]),
    }
