"""What the options of a command say to the server that it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from offbook.cli.arguments import LatencyModel, RecordMode
from offbook.cli.given_upstreams import given_upstreams
from offbook.errors import InputError
from offbook.faults import FaultPlan, parse_fault
from offbook.wire.log import WireCall, unheard
from offbook.wire.stage import StageOptions
from offbook.wire.upstream_environment import upstream_keys


class WireOptions(Struct, frozen=True, kw_only=True):
    """What a command was told of the calls that it answers or records."""

    replay: str | None = None
    record: str | None = None
    record_mode: RecordMode | None = None
    faults: Sequence[str] = ()
    plan: str | None = None
    upstreams: Sequence[str] = ()
    is_lenient: bool = False
    default_response: str | None = None
    latency_model: LatencyModel = "constant"
    latency_ms: float = 0.0
    retry_after_ms: float | None = None

    @property
    def recording(self) -> str:
        """The recording that answers, or is made."""
        return self.replay or self.record or ""

    @property
    def is_folder(self) -> bool:
        """Whether calls are answered from a folder, in which each session may have a recording of its own."""
        return self.replay is not None and "://" not in self.replay and Path(self.replay).is_dir()

    def fault_plan(self) -> FaultPlan:
        """The faults of the lines, and behind them those of the file.

        Raises:
            InputError: a line or the file cannot be read.
        """
        plan = FaultPlan() if self.plan is None else FaultPlan.load(self.plan)
        return FaultPlan([*map(parse_fault, self.faults), *plan], chaos=plan.chaos)

    def stage_options(
        self,
        environment: Mapping[str, str],
        *,
        has_own_key: bool = False,
        on_call: Callable[[WireCall], None] = unheard,
    ) -> StageOptions:
        """What the server is started with. If it `has_own_key`, the keys for the real APIs are the environment's.

        Raises:
            InputError: options exclude each other or say nothing, or one cannot be read.
        """
        self._check()
        return StageOptions(
            recording=self.replay,
            strict=False if self.is_lenient else None,
            default_response=self.default_response,
            faults=self.fault_plan() if self.faults or self.plan else (),
            latency_model=self.latency_model,
            latency_ms=self.latency_ms,
            retry_after_ms=self.retry_after_ms,
            on_call=on_call,
            record=self.record,
            record_mode=self.record_mode or "append",
            upstreams=None if self.record is None else given_upstreams(self.upstreams, environment),
            upstream_keys=upstream_keys(environment) if has_own_key and self.record is not None else None,
        )

    def _check(self) -> None:
        if (self.replay is None) == (self.record is None):
            told = "--record and --replay exclude each other" if self.record else "there is nothing to answer with"
            hint = "leave one of them out" if self.record else "add --replay PATH, or --record PATH to make a recording"
            raise InputError(told, hint=hint)
        if self.record is None and (self.record_mode is not None or self.upstreams):
            option = "--upstream" if self.upstreams else "--record-mode"
            raise InputError(f"{option} says nothing without --record", hint="add --record PATH")
        if self.replay is None and (self.is_lenient or self.default_response is not None):
            option = "--lenient" if self.is_lenient else "--default-response"
            raise InputError(f"{option} says nothing without --replay", hint="leave it out")
        if self.record is not None and "://" not in self.record and Path(self.record).suffix != ".json":
            hint = f"name it {Path(self.record).with_suffix('.json')}, or sqlite:///path.db: a folder has only those"
            raise InputError("a recording is a file named *.json", source=self.record, hint=hint)


def only(given: Sequence[str], option: str) -> str | None:
    """What an option was given, which may be given once.

    Raises:
        InputError: it was given again.
    """
    if len(given) > 1:
        raise InputError(f"{option} is given {len(given)} times", hint=f"keep one of: {', '.join(given)}")
    return given[0] if given else None
