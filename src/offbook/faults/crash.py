"""The crash: the process of a run is killed at a call, and started again with what it left behind."""

from typing import ClassVar, Literal, Self

from offbook.faults.fault import DeclaredFault, FaultFamily, FaultVariant


class Crash(DeclaredFault, frozen=True, tag="crash"):
    """Kills the process of a run, and starts it again. Only `explore` can: nothing else starts a run again.

    `before` is before a model is asked, or a tool runs. `after` is when it has answered, or taken effect, and before
    anything is done with that. It fires once in a run.
    """

    family: ClassVar[FaultFamily] = "crash"
    fits_any_call: ClassVar[bool] = True

    when: Literal["before", "after"]

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        """Return both forms. With an answer of a model that nothing was done with, a run is as it was before."""
        after = FaultVariant("crash after", cls("after"), is_optional=True, is_only_for_tools=True, fits_reports=True)
        return FaultVariant("crash before", cls("before"), is_optional=True), after
