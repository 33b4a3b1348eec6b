"""How a command wants a workflow to be run."""

from __future__ import annotations

from msgspec import Struct, field

from offbook.faults import FaultPlan
from offbook.messages import JsonObject
from offbook.session import NO_FAULTS, Mode
from offbook.workflow.checkpoint import NO_CHECKPOINT, Checkpoint
from offbook.workflow.run_calls import RunCalls


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a workflow is run, and what is shown of it.

    `is_strict` makes exchanges that a replay left unused a mismatch. `trace` is a file for events.
    `checkpoint` knows what is done, `calls` keeps the calls of models and tools, and answers those made before.
    """

    mode: Mode
    state: JsonObject = field(default_factory=dict)
    faults: FaultPlan = NO_FAULTS
    is_json: bool = False
    is_quiet: bool = False
    is_real_time: bool = False
    is_strict: bool = False
    trace: str | None = None
    checkpoint: Checkpoint = NO_CHECKPOINT
    calls: RunCalls | None = None
