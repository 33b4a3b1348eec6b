"""Explorations on Ray: on this machine, on a cluster that was started before, and while workers are killed."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
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
FOUR_REPORTS = """
import os, signal
from pathlib import Path
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportOptions
from offbook.subjects.executors import RayAddress, executor_of
from offbook.subjects.specs import DEFAULT_SETTINGS, WorkflowSpec, open_subject
from offbook.workers.ray_cluster import open_ray_executor

spec = WorkflowSpec(recording="run.json", file="flow.yaml")
killed = []

def report(executor, on_case=lambda _: None):
    options = ExploreOptions(variants=select_variants("all"), pairs=True)
    found = Explorer(subject, options, executor=executor, on_case=on_case).explore()
    return exploration_json(ReportOptions(str).report_input(found))

def kill_two(result):
    if len(killed) < 2:
        killed.append(executor.worker_pid(len(killed)))
        children = Path(f"/proc/{killed[-1]}/task/{killed[-1]}/children").read_text().split()
        os.kill(killed[0] if len(killed) == 1 else int(children[0]), signal.SIGKILL)

with open_subject(spec, DEFAULT_SETTINGS) as subject:
    reports = [report(executor_of(subject, workers)) for workers in (1, 2)]
    with open_ray_executor(RayAddress(), spec, DEFAULT_SETTINGS) as executor:
        reports += [report(executor), report(executor, kill_two)]
        after = [executor.worker_pid(number) for number in range(2)]
print(len(reports), len(set(reports)), len(reports[0]) > 10_000, len(killed), set(killed) & set(after))
"""
"""Explores serially, with two processes, with Ray, and with Ray while two workers are killed."""
EXPLORE = ["explore", "flow.yaml", "--recording", "run.json"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("flow.yaml").write_text(flows.GREET)
    Path("run.json").write_text(flows.recording(flows.ANSWERS))
    Path(".gitignore").write_text("run.json\n")


def explored(*arguments, **variables):
    """Run the command; gives its exit code, what it printed, and its report."""
    command = [COMMAND, *EXPLORE, "--reporter", "json=report.json", *arguments]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    return done.returncode, done.stdout, Path("report.json").read_bytes()


def test_all_executors_write_the_same_report_even_while_workers_are_killed(project):
    command = [sys.executable, "-c", FOUR_REPORTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "4 1 True 2 set()\n", done.stderr[-3000:]


@pytest.fixture
def token():
    """The settings of a cluster that only this test knows the token of."""
    return LOOPBACK_ONLY | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}


@pytest.fixture
def head(tmp_path_factory, token):
    """The address of a cluster, which is started here and stopped at the end."""
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
    yield f"127.0.0.1:{port}"
    running.terminate()
    running.wait(60)


def test_a_cluster_gets_the_working_directory_and_gives_the_same_bytes(project, head, token):
    here = explored("--workers", "1")
    assert len(here[2]) > 1000
    assert explored("--workers", "ray", RAY_ADDRESS=head, **token) == here


def test_ctrl_c_ends_the_workers_and_reports_what_had_ended(project):
    command = [COMMAND, *EXPLORE, "--pairs", "--workers", "ray", "--reporter", "json=report.json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not (workers := _workers_in(Path.cwd())):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, "Traceback" in err, bool(workers)) == (130, False, True)
    assert "interrupted" in out
    assert not _workers_in(Path.cwd())


def _workers_in(folder):
    """The ids of the processes of workers that run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"offbook.workers.cases" in (process / "cmdline").read_bytes() and (process / "cwd").samefile(folder):
                found.append(process.name)
    return found
