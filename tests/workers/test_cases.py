"""The process that runs cases for a worker of a cluster, without the cluster."""

import socket
import subprocess
import sys

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer, execute
from offbook.explore.options import ExploreOptions, select_variants
from offbook.subjects.executors import RayAddress
from offbook.subjects.specs import DEFAULT_SETTINGS, WorkflowSpec, open_subject
from offbook.workers.cases import CasesSpec, decode_results, encode_batch, receive_frame, send_frame
from offbook.workers.ray_cluster import open_ray_executor
from tests.cli import flows


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.yaml").write_text(flows.GREET)
    (tmp_path / "run.json").write_text(flows.recording(flows.ANSWERS))
    return WorkflowSpec(recording="run.json", file="flow.yaml")


@pytest.fixture
def worker(tmp_path_factory):
    """A socket to the process, which is started in another folder and ends with it."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "offbook.workers.cases", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=tmp_path_factory.mktemp("elsewhere"))
    theirs.close()
    with ours:
        yield ours
    assert process.wait(60) == 0


def test_cases_run_there_as_they_run_here(spec, worker, tmp_path):
    with open_subject(spec, DEFAULT_SETTINGS) as subject:
        cases = Explorer(subject, ExploreOptions(variants=select_variants("timeout,http_error"))).cases[:6]
        here = [execute(subject, case).runs for case in cases]
    send_frame(worker, CasesSpec(spec, DEFAULT_SETTINGS, str(tmp_path)).to_bytes())
    results = []
    for batch in (cases[:1], cases[1:]):
        send_frame(worker, encode_batch(batch))
        results += decode_results(receive_frame(worker), batch)
    assert [each.case for each in results] == cases
    assert [each.runs for each in results] == here
    assert len(here) == 6
    assert here[0][0].fired


def test_what_is_wrong_there_is_an_error_here(spec, worker, tmp_path):
    (tmp_path / "run.json").write_text("[]")
    send_frame(worker, CasesSpec(spec, DEFAULT_SETTINGS, str(tmp_path)).to_bytes())
    send_frame(worker, encode_batch([]))
    with pytest.raises(InputError, match=r"run\.json"):
        decode_results(receive_frame(worker), [])


def test_without_ray_it_says_what_to_install(spec, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "")
    with (
        pytest.raises(InputError, match=r"Ray is not installed[\s\S]*pip install 'offbook\[ray\]'"),
        open_ray_executor(RayAddress(), spec, DEFAULT_SETTINGS),
    ):
        pass


def test_a_cluster_gets_only_what_is_in_the_working_directory(spec, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    far = WorkflowSpec(recording=str(tmp_path / "run.json"), file="flow.yaml")
    with (
        pytest.raises(InputError, match="it is not in the working directory"),
        open_ray_executor(RayAddress(), far, DEFAULT_SETTINGS),
    ):
        pass
