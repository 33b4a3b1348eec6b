"""The terms on which something is explored: what counts as given up, as too late, and as never recorded."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.divergence import Divergence, OnDivergence
from offbook.explore.performance import USUAL, Deadlines
from offbook.providers.provider import Provider


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How runs of a subject are taken.

    `declared` names the errors that it is said to raise, or of a program its exit codes. `deadline_s` is how long a
    run may take: by its own clock in this process, by the wall's for a program. `side_effects` names tools of which
    running one twice does harm, beside those that say so themselves. Such tools are not run for real, where nothing
    of tools is recorded, unless `runs_tools`.
    """

    on_divergence: OnDivergence = "stop"
    default_response: str = "Mock response"
    declared: tuple[str, ...] = ()
    deadline_s: float | None = None
    side_effects: tuple[str, ...] = ()
    runs_tools: bool = False

    @property
    def arguments(self) -> list[str]:
        """What a command line says of them."""
        told = {
            "--on-divergence": "" if self.on_divergence == "stop" else self.on_divergence,
            "--default-response": "" if self.on_divergence != "default" else self.default_response,
            "--declared": ",".join(self.declared),
            "--deadline": "" if self.deadline_s is None else f"{self.deadline_s:g}",
            "--side-effects": ",".join(self.side_effects),
        }
        options = [word for name, value in told.items() if value for word in (name, value)]
        return [*options, "--run-tools"] if self.runs_tools else options

    @property
    def deadlines(self) -> Deadlines:
        return USUAL if self.deadline_s is None else replace(USUAL, virtual_s=self.deadline_s)

    def divergence(self, live: Provider) -> Divergence:
        """What becomes of a request that was never recorded; `live` is asked if that is wished."""
        return Divergence(self.on_divergence, self.default_response, live)


USUAL_TERMS = Terms()
