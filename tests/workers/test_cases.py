"""The process that runs cases for a worker of a cluster, without the cluster."""

import socket
import subprocess
import sys
from itertools import islice

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer, execute
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import DEFAULT_SETTINGS
from offbook.subjects.executors import RayAddress
from offbook.subjects.specs import ProgramSpec, WorkflowSpec, open_subject
from offbook.workers.cases import CasesSpec, decode_results, encode_batch
from offbook.workers.process import receive_frames, send_frame
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
    answers = receive_frames(worker)
    send_frame(worker, 7, CasesSpec(spec, DEFAULT_SETTINGS, str(tmp_path)).to_bytes())
    assert next(answers) == (7, b"")
    send_frame(worker, 8, encode_batch(cases[:1]))
    send_frame(worker, 9, encode_batch(cases[1:]))
    (first, one), (second, others) = next(answers), next(answers)
    assert first == 8
    assert second == 9
    results = decode_results(one, cases[:1]) + decode_results(others, cases[1:])
    assert [each.case for each in results] == cases
    assert [each.runs for each in results] == here
    assert len(here) == 6
    assert here[0][0].fired


def test_what_is_wrong_there_is_an_error_here(spec, worker, tmp_path):
    (tmp_path / "run.json").write_text("[]")
    send_frame(worker, 0, CasesSpec(spec, DEFAULT_SETTINGS, str(tmp_path)).to_bytes())
    send_frame(worker, 1, encode_batch([]))
    _, (number, result) = islice(receive_frames(worker), 2)
    with pytest.raises(InputError, match=r"run\.json"):
        decode_results(result, [])
    assert number == 1


def test_a_program_is_refused_with_what_to_use_instead(spec):
    with (
        pytest.raises(
            InputError, match=r"neither the interpreter nor the packages[\s\S]*--workers N[\s\S]*--shard 1/4"
        ),
        open_ray_executor(
            RayAddress(), ProgramSpec(recording="run.json", command=("python", "a.py")), DEFAULT_SETTINGS
        ),
    ):
        pass


def test_without_ray_it_says_what_to_install(spec, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "")
    with (
        pytest.raises(InputError, match=r"Ray is not installed[\s\S]*pip install .*\[ray\]'"),
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
