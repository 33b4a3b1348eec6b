"""Explorations and suites on Ray: on this machine, on a cluster that runs already, and while workers are killed."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import pytest

from offbook.workers.ray_cluster import LOOPBACK_ONLY
from tests.cli import flows

HAS_RAY = importlib.util.find_spec("ray") is not None
COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 100
pytestmark = [
    pytest.mark.skipif(
        not HAS_RAY and os.environ.get("OFFBOOK_REQUIRE_RAY") != "1", reason="Ray is not installed: make conformance"
    ),
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(400),
]
AGENT = """\
async def handle(messages, ctx):
    return await ctx.provider.complete(messages, "demo", step_id="answer")
"""
SCENARIOS = """\
from offbook import scenario
from offbook.scenarios import Trajectory

for index in range(6):
    books = Trajectory("contains", ["book"] if index == 3 else [])
    scenario(f"asks {index}", turns=["Hi"], assertions=books)
"""
EXPLORE = ["explore", "flow.yaml", "--recording", "run.json"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("flow.yaml").write_text(flows.GREET)
    Path("run.json").write_text(flows.recording(flows.ANSWERS))
    Path(".gitignore").write_text("run.json\n")


def offbook(*arguments, **variables):
    """Run a command, and return its exit code and what it printed."""
    done = subprocess.run(
        [COMMAND, *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def explored(*arguments, **variables):
    """Explore; gives the exit code, what was printed, and the report."""
    done = offbook(*EXPLORE, "--reporter", "json=report.json", *arguments, **variables)
    return *done, Path("report.json").read_bytes()


def merged(count):
    """Explore as so many shards, and merge them."""
    parts = [f"part{number}.json" for number in range(1, count + 1)]
    for number, part in enumerate(parts, 1):
        options = ["--shard", f"{number}/{count}", "--reporter", f"json={part}"]
        subprocess.run([COMMAND, *EXPLORE, *options], capture_output=True, timeout=TIMEOUT_S, check=False)
    return *offbook("merge", *parts, "--reporter", "json=report.json"), Path("report.json").read_bytes()


@contextmanager
def killing(module, count):
    """Kill workers of this folder while the block runs, so many, each as soon as it is there."""
    ended, killed = threading.Event(), set()

    def kill():
        while not ended.wait(0.02) and len(killed) < count:
            for pid in set(_workers_in(Path.cwd(), module)) - killed:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
                    killed.add(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()
    assert len(killed) >= count


def test_one_process_two_ray_ray_with_killed_workers_and_shards_write_the_same_report(project):
    alone = explored("--workers", "1")
    assert len(alone[2]) > 10_000
    assert explored("--workers", "2") == alone
    assert explored("--workers", "ray") == alone
    with killing("offbook.workers.cases", 2):
        assert explored("--workers", "ray") == alone
    assert merged(4) == alone


@pytest.fixture
def suite(project):
    """A suite whose agent asks a model; one of its scenarios fails."""
    Path("my_agent.py").write_text(AGENT)
    Path("offbook.toml").write_text('[agent]\nhandler = "my_agent:handle"\nprovider = "openai"\n')
    Path("sim_asks.py").write_text(SCENARIOS)
    keys = [f"asks {index}/agent/{number}/agent.answer" for index in range(6) for number in range(1, 4)]
    Path("all.json").write_text(flows.recording({key: {"content": "yes", "model": "m"} for key in keys}))


def run_suite(*arguments, **variables):
    options = ["--replay", "all.json", "--repeat", "2", "--reporter", "json=suite.json"]
    done = offbook("test", *options, *arguments, **variables)
    return *done, Path("suite.json").read_bytes()


def test_a_suite_on_ray_gives_the_same_bytes_even_while_workers_are_killed(suite):
    alone = run_suite()
    assert run_suite("--workers", "ray") == alone
    with killing("offbook.workers.suite", 2):
        assert run_suite("--workers", "ray") == alone


@pytest.fixture
def token():
    """The settings of a cluster that only this test knows the token of."""
    return LOOPBACK_ONLY | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}


@pytest.fixture
def head(tmp_path_factory, token):
    """The address of a cluster and of its server for clients. It is started here and stopped at the end."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, client_port = one.getsockname()[1], other.getsockname()[1]
    ray = Path(sys.executable).parent / "ray"
    options = ["--node-ip-address", "127.0.0.1", "--num-cpus", "2", "--include-dashboard", "false", "--block"]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"} | token
    folder = tmp_path_factory.mktemp("head")
    command = [ray, "start", "--head", "--port", str(port), "--ray-client-server-port", str(client_port), *options]
    running = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", client_port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.2)
    yield f"127.0.0.1:{port}", f"ray://127.0.0.1:{client_port}"
    running.terminate()
    running.wait(60)


def test_a_cluster_gets_the_working_directory_and_gives_the_same_bytes(suite, head, token):
    here = explored("--workers", "1"), run_suite()
    assert len(here[0][2]) > 1000
    address, client = head
    there = {"RAY_ADDRESS": address, **token}
    assert (explored("--workers", "ray", **there), run_suite("--workers", "ray", **there)) == here
    assert (explored("--workers", client, **token), run_suite("--workers", client, **token)) == here


def test_ctrl_c_ends_the_workers_and_reports_what_had_ended(project):
    command = [COMMAND, *EXPLORE, "-o", "pairs=true", "--workers", "ray", "--reporter", "json=report.json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not (workers := _workers_in(Path.cwd(), "offbook.workers.cases")):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert workers
    assert "ended early" in out
    assert not _workers_in(Path.cwd(), "offbook.workers.cases")


def _workers_in(folder, module):
    """The ids of the processes of workers that run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if module.encode() in (process / "cmdline").read_bytes() and (process / "cwd").samefile(folder):
                found.append(process.name)
    return found
