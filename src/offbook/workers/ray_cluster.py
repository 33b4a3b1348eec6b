"""A Ray cluster as a place to run cases: this machine, or the cluster at an address.

An actor for each core starts one process (`offbook.workers.cases`) and passes bytes on to it: specs, plans and runs as
JSON and msgpack. Files travel by Ray's runtime environment: the working directory, and this package.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from offbook.errors import InputError, OffbookError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import ExecutedCase
from offbook.subjects.executors import RayAddress
from offbook.subjects.specs import AnySubjectSpec, ExploreSettings, ProgramSpec, ScenarioSpec
from offbook.workers.cases import CasesSpec, decode_results, encode_batch, receive_frame, send_frame

CONNECT_S = 10.0
"""How long a cluster may take to accept a connection."""
BATCH_S = 0.25
"""How long a batch of cases should take: long enough to make its way unimportant, short enough to share them out."""
MAX_BATCH = 64
MAX_ATTEMPTS = 3
"""How many workers may end on a batch before the exploration is given up."""
LOCAL_STORE_BYTES = 100_000_000
LEFT_OUT = [".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"]
"""What is in a working directory, and not sent to a cluster."""
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Lets Ray use 127.0.0.1, as it does on those two systems by default; elsewhere it prefers the network."""


class CaseRelay:
    """The actor: it starts a process for the cases of a subject, passes batches on to it, and ends with it."""

    def __init__(self, spec: bytes) -> None:
        self._connection, theirs = socket.socketpair()
        command = [sys.executable, "-m", "offbook.workers.cases", str(theirs.fileno())]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        theirs.close()
        send_frame(self._connection, spec)

    def pid(self) -> int:
        """Return the id of the process of this actor."""
        return os.getpid()

    def run(self, batch: bytes) -> bytes:
        """Run a batch of cases, and return their runs."""
        result = None
        with suppress(ConnectionError):
            send_frame(self._connection, batch)
            result = receive_frame(self._connection)
        if result is None:
            os._exit(1)  # the process has ended; the exploration replaces both
        return result


class _StartedBatch(Struct):
    """Cases that an actor runs. `reference` is what Ray knows their result by."""

    cases: list[FaultCase]
    worker: int
    actor: Any
    reference: Any
    attempts: int = 1
    results: list[ExecutedCase] | None = None


class RayExecutor:
    """Runs cases on the actors of a cluster. Results come in the order of the cases.

    An actor that ends is replaced, and its cases run again.

    Raises:
        OffbookError: from `run`, if several actors have ended with the same cases.
    """

    def __init__(self, ray: Any, spec: CasesSpec, workers: int) -> None:
        self._ray, self._spec, self.workers = ray, spec.to_bytes(), workers
        self._relay = ray.remote(num_cpus=1, max_restarts=0)(CaseRelay)
        self._actors = [self._relay.remote(self._spec) for _ in range(workers)]
        self._case_s: float | None = None

    def worker_pid(self, number: int) -> int:
        """Return the id of the process of an actor, on its machine."""
        pid: int = self._ray.get(self._actors[number].pid.remote())
        return pid

    def run(self, cases: Iterable[FaultCase]) -> Iterator[ExecutedCase]:
        waiting, started = iter(cases), list[_StartedBatch]()
        while True:
            started += self._start(waiting, started)
            while started and (results := started[0].results) is not None:
                started.pop(0)
                yield from results
            if not started:
                return
            self._wait([batch for batch in started if batch.results is None])

    def _start(self, waiting: Iterator[FaultCase], started: list[_StartedBatch]) -> Iterator[_StartedBatch]:
        """Start batches until each actor has one, and one to go on with."""
        busy = [batch.worker for batch in started if batch.results is None]
        for worker in [*range(self.workers)] * 2:
            if busy.count(worker) < 2 and (cases := list(islice(waiting, self._batch_size()))):
                busy.append(worker)
                actor = self._actors[worker]
                yield _StartedBatch(cases, worker, actor, actor.run.remote(encode_batch(cases)))

    def _batch_size(self) -> int:
        return 1 if self._case_s is None else min(max(int(BATCH_S / max(self._case_s, 1e-6)), 1), MAX_BATCH)

    def _wait(self, batches: list[_StartedBatch]) -> None:
        """Wait until one of the batches has ended, and take all that have."""
        done, _ = self._ray.wait([batch.reference for batch in batches], num_returns=1)
        for batch in batches:
            if batch.reference in done:
                self._take(batch)

    def _take(self, batch: _StartedBatch) -> None:
        try:
            data = self._ray.get(batch.reference)
        except self._ray.exceptions.RayActorError as error:
            self._replace(batch, error)
            return
        batch.results = decode_results(data, batch.cases)
        mean_s = sum(each.real_s for each in batch.results) / len(batch.results)
        self._case_s = mean_s if self._case_s is None else (self._case_s + mean_s) / 2

    def _replace(self, batch: _StartedBatch, error: Exception) -> None:
        """Run a batch again whose actor has ended: on a new one, unless another batch has replaced that already."""
        if batch.attempts == MAX_ATTEMPTS:
            cases = ", ".join(str(case) for case in batch.cases[:3])
            raise OffbookError(f"{MAX_ATTEMPTS} workers ended with the same cases, which begin with {cases}") from error
        batch.attempts += 1
        if self._actors[batch.worker] is batch.actor:
            self._actors[batch.worker] = self._relay.remote(self._spec)
        batch.actor = self._actors[batch.worker]
        batch.reference = batch.actor.run.remote(encode_batch(batch.cases))


@contextmanager
def open_ray_executor(address: RayAddress, spec: AnySubjectSpec, settings: ExploreSettings) -> Iterator[RayExecutor]:
    """Connect to a cluster, or start one on this machine, for a block.

    Raises:
        InputError: Ray is not installed, the cluster cannot be reached, or the subject cannot run there.
    """
    named = address.url or os.environ.get("RAY_ADDRESS", "")
    _check_travels(spec, settings, is_far=bool(named))
    if named:
        _check_reachable(named)
    ray = _import_ray(named)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _connect(ray, named)
        for number, handler in handlers.items():  # Ray has set its own
            signal.signal(number, handler)
        cores = int(ray.cluster_resources().get("CPU", 1))
        yield RayExecutor(ray, CasesSpec(spec, settings, None if named else str(Path.cwd())), max(cores, 1))
    finally:
        ray.shutdown()


def _import_ray(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not address:  # nobody else may join it
        os.environ |= LOOPBACK_ONLY | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}
    os.environ.setdefault("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")  # recordings are often in .gitignore
    try:
        import ray  # noqa: PLC0415 - an optional dependency
        import ray._private.worker  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'offbook[ray]'; on this machine alone, use --workers auto"
        raise InputError("Ray is not installed", source="--workers", hint=hint) from None
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001 - or it prints on our stdout that a worker died
    return ray


def _connect(ray: Any, address: str) -> None:
    """Join the cluster at an address, with the working directory and this package; without one, start a local one."""
    quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    if not address:
        local = {"num_cpus": os.cpu_count() or 1, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        ray.init(address="local", object_store_memory=LOCAL_STORE_BYTES, **local, **quiet)
        return
    package = str(Path(__file__).parent.parent)
    environment = {"working_dir": str(Path.cwd()), "py_modules": [package], "excludes": LEFT_OUT}
    try:
        ray.init(address=address, runtime_env=environment, **({} if "://" in address else quiet))
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = str(error).partition("\n")[0]
        hint = "is the token that Ray uses here the one of the cluster?"
        raise InputError(f"cannot join the cluster: {reason}", source=address, hint=hint) from error


def _check_reachable(address: str) -> None:
    """Raise InputError if nothing listens at an address; `auto` and `local` are Ray's own words."""
    if address in ("auto", "local"):
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise InputError("expected the address of a cluster", source=address, hint="--workers ray://head:10001")
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot reach the cluster: {reason}", source=address, hint="is its head running?") from None


def _check_travels(spec: AnySubjectSpec, settings: ExploreSettings, *, is_far: bool) -> None:
    """Refuse what runs only here: programs, live models, and files outside the working directory."""
    here = "use --workers N on this machine"
    if isinstance(spec, ProgramSpec):
        raise InputError("a program runs on this machine", source="--workers", hint=here)
    if settings.on_divergence == "live":
        reason = "the keys of live models stay on this machine"
        raise InputError(reason, source="--on-divergence", hint=f"use explore, stop or default; or {here}")
    config = spec.config if isinstance(spec, ScenarioSpec) else None
    for file in (spec.recording, spec.file, config) if is_far else ():
        if file is not None and ("://" in file or not _is_inside(file)):
            hint = "a cluster gets the working directory, and its paths are relative to that"
            raise InputError("it is not in the working directory", source=file, hint=hint)


def _is_inside(file: str) -> bool:
    return not Path(file).is_absolute() and Path(file).resolve().is_relative_to(Path.cwd())
