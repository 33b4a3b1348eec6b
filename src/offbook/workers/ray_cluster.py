"""A Ray cluster as a place to run cases and conversations: this machine, or the cluster at an address.

An actor for each core starts one process (`offbook.workers.cases` or `.suite`) and passes bytes on to it: specs, plans
and results as JSON and msgpack. Files travel by Ray's runtime environment: the working directory, and this package.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError, OffbookError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import ExecutedCase
from offbook.explore.schedule import NO_DEADLINE, BudgetDeadline
from offbook.explore.settings import ExploreSettings
from offbook.subjects.executors import RayAddress
from offbook.subjects.specs import AnySubjectSpec, ProgramSpec, ScenarioSpec
from offbook.workers.cases import CasesSpec, decode_results, encode_batch
from offbook.workers.process import WorkerEndedError, WorkerProcess, spawn_worker
from offbook.workers.suite import SuiteSpec

CONNECT_S = 10.0
"""The seconds for a cluster to accept a connection."""
BATCH_S = 0.25
"""The target duration of a batch of cases: long compared with its transport, and short enough to balance the load."""
MAX_BATCH = 64
MAX_ATTEMPTS = 3
"""The number of workers that may end on a batch before the exploration fails."""
LOCAL_STORE_BYTES = 100_000_000
LEFT_OUT = [".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"]
"""Parts of a working directory that are not sent to a cluster."""
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Lets Ray use 127.0.0.1, as by default on Windows and macOS; elsewhere it prefers the network."""


class Relay:
    """The actor: it starts a process that runs a module of ours, passes jobs on to it, and ends with it."""

    def __init__(self, module: str, spec: bytes) -> None:
        self._module, self._spec = module, spec
        self._started: asyncio.Task[WorkerProcess] | None = None

    def pid(self) -> int:
        """Return the id of the process of this actor."""
        return os.getpid()

    async def run(self, job: bytes) -> bytes:
        """Handle a job, and return its result."""
        if self._started is None:
            self._started = asyncio.create_task(self._start())
        try:
            process = await self._started
            return await process.run(job, name="a job")
        except WorkerEndedError:
            os._exit(1)  # the process has ended; both are replaced

    async def _start(self) -> WorkerProcess:
        process = spawn_worker(self._module)
        await process.run(self._spec, name="the start")
        return process


class _Actors:
    """The actors of a run, by number. One that ends is replaced."""

    def __init__(self, ray: Any, module: str, spec: bytes, *, count: int) -> None:
        self._module, self._spec = module, spec
        self._relay = ray.remote(num_cpus=1, max_restarts=0)(Relay)
        self._actors = [self._new() for _ in range(count)]

    def __getitem__(self, number: int) -> Any:
        return self._actors[number]

    def replace(self, number: int, ended: Any) -> Any:
        """Return the replacement of an actor that ended: a new one, unless it exists already."""
        if self._actors[number] is ended:
            self._actors[number] = self._new()
        return self._actors[number]

    def _new(self) -> Any:
        return self._relay.remote(self._module, self._spec)


class RayPool:
    """Workers of a cluster that handle jobs; see WorkerPool."""

    def __init__(self, ray: Any, spec: SuiteSpec, workers: int) -> None:
        self._ended_error: type[Exception] = ray.exceptions.RayActorError
        self.workers, self._jobs = workers, [0] * workers
        self._actors = _Actors(ray, "offbook.workers.suite", spec.to_bytes(), count=workers)

    async def run(self, job: bytes, *, name: str) -> bytes:
        """Handle a job on the actor that has the fewest."""
        worker = min(range(self.workers), key=self._jobs.__getitem__)
        actor = self._actors[worker]
        self._jobs[worker] += 1
        try:
            result: bytes = await asyncio.wrap_future(actor.run.remote(job).future())
        except self._ended_error as error:
            self._actors.replace(worker, actor)
            raise WorkerEndedError(f"a worker of the cluster ended during {name}") from error
        finally:
            self._jobs[worker] -= 1
        return result


class _StartedBatch(Struct):
    """Cases that an actor runs. `reference` is Ray's name of their result."""

    cases: list[FaultCase]
    worker: int
    actor: Any
    reference: Any
    attempts: int = 1
    results: list[ExecutedCase] | None = None


class RayExecutor:
    """Runs cases on the actors of a cluster. Results arrive in the order of the cases.

    An actor that ends is replaced, and its cases run again.

    Raises:
        OffbookError: from `run`, if several actors ended with the same cases.
    """

    def __init__(self, ray: Any, spec: CasesSpec, workers: int) -> None:
        self._ray, self.workers = ray, workers
        self._actors = _Actors(ray, "offbook.workers.cases", spec.to_bytes(), count=workers)
        self._case_s: float | None = None

    def worker_pid(self, number: int) -> int:
        """Return the id of the process of an actor, on its machine."""
        pid: int = self._ray.get(self._actors[number].pid.remote())
        return pid

    def run(self, cases: Iterable[FaultCase], deadline: BudgetDeadline = NO_DEADLINE) -> Iterator[ExecutedCase]:
        waiting, started = iter(cases), list[_StartedBatch]()
        while True:
            started += self._start(waiting, started)
            while started and (results := started[0].results) is not None:
                started.pop(0)
                yield from results
            if not started:
                return
            if not self._wait([batch for batch in started if batch.results is None], deadline):
                yield from (each for batch in started for each in batch.results or ())
                return

    def _start(self, waiting: Iterator[FaultCase], started: list[_StartedBatch]) -> Iterator[_StartedBatch]:
        """Start batches until each actor has one running and one waiting."""
        busy = [batch.worker for batch in started if batch.results is None]
        for worker in [*range(self.workers)] * 2:
            if busy.count(worker) < 2 and (cases := list(islice(waiting, self._batch_size()))):
                busy.append(worker)
                actor = self._actors[worker]
                yield _StartedBatch(cases, worker, actor, actor.run.remote(encode_batch(cases)))

    def _batch_size(self) -> int:
        return 1 if self._case_s is None else min(max(int(BATCH_S / max(self._case_s, 1e-6)), 1), MAX_BATCH)

    def _wait(self, batches: list[_StartedBatch], deadline: BudgetDeadline) -> bool:
        """Wait until a batch has ended, and collect all ended ones. Return whether one ended in time."""
        done, _ = self._ray.wait([batch.reference for batch in batches], num_returns=1, timeout=deadline.left_s)
        for batch in batches:
            if batch.reference in done:
                self._take(batch)
        return bool(done)

    def _take(self, batch: _StartedBatch) -> None:
        try:
            data = self._ray.get(batch.reference)
        except self._ray.exceptions.RayActorError as error:
            # Run a batch again whose actor has ended: on a new one, unless another batch has replaced that already.
            if batch.attempts == MAX_ATTEMPTS:
                cases = ", ".join(str(case) for case in batch.cases[:3])
                raise OffbookError(
                    f"{MAX_ATTEMPTS} workers ended with the same cases, which begin with {cases}"
                ) from error
            batch.attempts += 1
            batch.actor = self._actors.replace(batch.worker, batch.actor)
            batch.reference = batch.actor.run.remote(encode_batch(batch.cases))
            return
        batch.results = decode_results(data, batch.cases)
        mean_s = sum(each.real_s for each in batch.results) / len(batch.results)
        self._case_s = mean_s if self._case_s is None else (self._case_s + mean_s) / 2


@contextmanager
def open_ray_executor(address: RayAddress, spec: AnySubjectSpec, settings: ExploreSettings) -> Iterator[RayExecutor]:
    """Connect to a cluster, or start one on this machine, for a block.

    Raises:
        InputError: Ray is not installed, the cluster cannot be reached, or the subject cannot run there.
    """
    named = _address(address)
    _check_travels(spec, settings, is_far=bool(named))
    with _connected(named) as (ray, cores):
        yield RayExecutor(ray, CasesSpec(spec, settings, None if named else str(Path.cwd())), cores)


@contextmanager
def open_ray_pool(address: RayAddress, spec: SuiteSpec) -> Iterator[RayPool]:
    """Connect to a cluster, or start one on this machine, for a block.

    Raises:
        InputError: Ray is not installed, the cluster cannot be reached, or the suite cannot run there.
    """
    named = _address(address)
    if named:
        spec = replace(spec, config=os.path.relpath(spec.config), folder=None)
        _check_inside(spec.config, *spec.paths, *filter(None, [spec.replay]))
    with _connected(named) as (ray, cores):
        yield RayPool(ray, spec, cores)


def _address(address: RayAddress) -> str:
    """Return where the cluster is; empty for one on this machine."""
    return address.url or os.environ.get("RAY_ADDRESS", "")


@contextmanager
def _connected(address: str) -> Iterator[tuple[Any, int]]:
    """Yield Ray, connected, and the number of cores."""
    if address:
        _check_reachable(address)
    ray = _import_ray(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _connect(ray, address)
        for number, handler in handlers.items():  # Ray has set its own
            signal.signal(number, handler)
        yield ray, max(int(ray.cluster_resources().get("CPU", 1)), 1)
    finally:
        ray.shutdown()


def _import_ray(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if not address:  # no other user may join it
        os.environ |= LOOPBACK_ONLY | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}
    os.environ.setdefault("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")  # recordings are often in .gitignore
    try:
        import ray  # noqa: PLC0415 - an optional dependency
        import ray._private.worker  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError:
        from offbook.installed import install_hint  # noqa: PLC0415

        hint = f"{install_hint('ray')}; on this machine alone, use --workers auto"
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
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = lines[-1] if lines[0].endswith(":") else lines[0]  # what follows the colon is a traceback of the head
        hint = "is the token that Ray uses here the one of the cluster, and has its head a core to spare?"
        raise InputError(f"cannot join the cluster: {reason}", source=address, hint=hint) from error


def _check_reachable(address: str) -> None:
    """Raise InputError if nothing listens at an address. `auto` and `local` are Ray's own words."""
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
    """Refuse subjects that run only here: programs, live models, and files outside the working directory."""
    here = "use --workers N on this machine"
    if isinstance(spec, ProgramSpec):
        reason = "a cluster has neither the interpreter nor the packages and the environment of a program"
        raise InputError(reason, source="--workers", hint=f"{here}, or --shard 1/4 on several, and offbook merge")
    if settings.on_divergence == "live":
        reason = "the keys of live models stay on this machine"
        raise InputError(reason, source="on_divergence", hint=f"use explore, stop or default; or {here}")
    config = spec.config if isinstance(spec, ScenarioSpec) else None
    if is_far:
        _check_inside(*filter(None, (spec.recording, spec.file, config)))


def _check_inside(*files: str) -> None:
    """Refuse files that a cluster does not get. It reaches a Redis itself."""
    for file in files:
        if file.startswith(("redis://", "rediss://")):
            continue
        if "://" in file or Path(file).is_absolute() or not Path(file).resolve().is_relative_to(Path.cwd()):
            hint = "a cluster gets the working directory, and its paths are relative to that"
            raise InputError("it is not in the working directory", source=file, hint=hint)
