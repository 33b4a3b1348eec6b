"""What of a command line a kept run must know to be gone on with."""

from __future__ import annotations

from msgspec import Struct

from offbook.faults import FaultPlan
from offbook.faults.chaos import Chaos
from offbook.faults.site import PlannedFault
from offbook.recording.record_mode import RecordMode
from offbook.recording.stores.locate import open_store
from offbook.session import Live, Mode, Record
from offbook.workflow.config_definition import ProviderName


class KeptOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Options of `offbook run`, as a kept run goes on with them."""

    provider: ProviderName | None = None
    model: str | None = None
    record: str | None = None
    record_mode: RecordMode = "append"
    faults: tuple[PlannedFault, ...] = ()
    chaos: Chaos | None = None

    @property
    def mode(self) -> Mode:
        return Live() if self.record is None else Record(self.record, self.record_mode)

    @property
    def plan(self) -> FaultPlan:
        return FaultPlan(self.faults, chaos=self.chaos)


def kept_options(mode: Mode, faults: FaultPlan, *, provider: ProviderName | None, model: str | None) -> KeptOptions:
    """The options of a run that starts now."""
    record = mode.path if isinstance(mode, Record) else None
    return KeptOptions(
        provider=provider,
        model=model,
        record=record,
        record_mode=_further(mode) if isinstance(mode, Record) else "append",
        faults=faults.faults,
        chaos=faults.chaos,
    )


def _further(mode: Record) -> RecordMode:
    """How to go on recording, without replacing or refusing what the run has recorded so far."""
    is_kept_to = mode.record == "new" or (mode.record == "once" and open_store(mode.path).exists())
    return mode.record if is_kept_to else "append"
