"""Options of an exploration: the fault variants to try, invariants, time limits, and the policy for unrecorded
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.results import result_text
from offbook.explore.run import Run
from offbook.explore.settings import DEFAULT_RESPONSE, OnDivergence
from offbook.faults import FAULT_TYPES, TOOL_FAULT_TYPES, AnyPlannedFault, Crash
from offbook.faults.catalog import ORDER_FAULT_TYPES, fault_variants
from offbook.faults.fault import FaultVariant as DeclaredVariant
from offbook.faults.tools import InjectedText
from offbook.messages import Reply, Request, Response, WholeReply
from offbook.providers.provider import Provider
from offbook.shard import Shard
from offbook.text import compile_pattern, did_you_mean, shorten

Invariant: TypeAlias = Callable[[Run], Any]
"""A check that must hold for every run. It fails by raising AssertionError or returning False."""

GaveUp: TypeAlias = Callable[[Any], object]
"""Returns whether a run's result says that it gave up."""


def gave_up_by(declared: str | GaveUp | None) -> GaveUp | None:
    """Return a test for results that say that the run gave up: a function, or a pattern for their text.

    Raises:
        InputError: it is not a pattern.
    """
    if declared is None or callable(declared):
        return declared
    if not isinstance(declared, str):
        hint = "gave_up='not (paid|sent)', or gave_up=lambda outcome: not outcome[\"paid\"]"
        raise InputError(f"expected a pattern or a function, got {declared!r}", source="gave_up", hint=hint)
    pattern = compile_pattern(declared, source="gave_up")
    return lambda result: pattern.is_in(result_text(result))


FaultVariant: TypeAlias = DeclaredVariant[AnyPlannedFault]
"""A fault to try, with the name of its column. The faults declare their variants."""

TOOL_VARIANTS = fault_variants(TOOL_FAULT_TYPES.values())
_INJECTED = tuple(
    replace(variant, is_optional=True, http_only=False) for variant in fault_variants([InjectedText], over_http=True)
)
VARIANTS = (
    fault_variants(FAULT_TYPES.values(), over_http=True)
    + TOOL_VARIANTS
    + fault_variants(ORDER_FAULT_TYPES.values())
    + _INJECTED
)
"""The variants in this process. HTTP-only ones are tried on HTTP clients' calls."""

_WIRE_ORDERS = fault_variants(ORDER_FAULT_TYPES.values(), over_http=True, in_real_time=True)
WIRE_VARIANTS = fault_variants(FAULT_TYPES.values(), over_http=True, in_real_time=True) + tuple(
    variant for variant in _WIRE_ORDERS if not variant.fault.is_for_tools
)
"""The variants for a program over HTTP: without tools, which run inside it, and with waits in real time."""

ORDERS, LIES = "orders", "lies"
"""The names of all faults of order together, and of all lies."""

MCP_VARIANTS = (
    fault_variants(FAULT_TYPES.values(), over_http=True, in_real_time=True)
    + fault_variants(TOOL_FAULT_TYPES.values(), over_http=True, in_real_time=True)
    + _WIRE_ORDERS
)
"""The variants for a program with stand-ins for MCP servers, whose tools can fail."""

PROGRAM_VARIANTS = WIRE_VARIANTS + fault_variants(TOOL_FAULT_TYPES.values(), in_real_time=True)
"""The variants for a program with taken-over function tools."""

CRASH_VARIANTS = fault_variants([Crash])
"""The variants for subjects that can be restarted after a crash."""


def select_variants(names: Iterable[str] | str, among: Sequence[FaultVariant] = VARIANTS) -> list[FaultVariant]:
    """Return the variants of those names, in order.

    A name is a variant's (`http_error 500`), its fault's type, or `all`; commas join several. Optional variants are not
    in `all`: `all,wrong_values` also tries one of them. A named variant is not spread. `orders` are the order faults,
    and `lies` the plausible results that are not true. These are optional.

    Raises:
        InputError: there is no such fault.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    wanted = [name.strip() for each in wanted for name in each.split(",") if name.strip()]
    groups = {
        ORDERS: [variant.name for variant in among if variant.fault.type in ORDER_FAULT_TYPES],
        LIES: [variant.name for variant in among if "lies" in variant.fault.traits],
    }
    wanted = [name for each in wanted for name in groups.get(each) or [each]]
    known = {name for variant in among for name in (variant.name, variant.fault.type)}
    for name in wanted:
        has_tools = any(variant.fault.is_for_tools for variant in among)
        if name != "all" and name not in known and not has_tools and is_of_tools(name):
            hint = "the tools of a program run inside it; those of its MCP servers can fail: --mcp .mcp.json"
            raise InputError(f"{name}: faults of tools cannot fire over HTTP", source="faults", hint=hint)
        if name not in known and any(name in (each.name, each.fault.type) for each in CRASH_VARIANTS):
            hint = "they are a program (-- COMMAND) and a workflow (FLOW.yaml)"
            raise InputError("only what can be started again can crash", source="faults", hint=hint)
        if name != "all" and name not in known:
            hint = did_you_mean(name, sorted(known), kind="faults")
            raise InputError(f"there is no fault {name!r} to try", source="faults", hint=hint)
    return [chosen for variant in among if (chosen := _choose(variant, wanted)) is not None]


def is_of_tools(name: str) -> bool:
    """Return whether a fault of that name is one of tools."""
    known = (variant for variant in MCP_VARIANTS if variant.fault.is_for_tools)
    return any(name in (variant.name, variant.fault.type) for variant in known)


def _choose(variant: FaultVariant, names: Sequence[str]) -> FaultVariant | None:
    """Return the variant as tried for these names, or None."""
    if variant.name in names or variant.fault.type in names:
        return replace(variant, is_spread=False)
    return variant if "all" in names and not variant.is_optional else None


class ExploreOptions(Struct, frozen=True, kw_only=True):
    """The scope of an exploration: faults, pairs, budget, and invariants.

    `budget` is a number of cases, or a time like `5m` in which it should end. `optional` names the steps and tools that
    a run may go on without; `unchecked` ones may be missing from the run. With a `shard`, only its cases run. `gave_up`
    tests whether a result means that the run gave up. It ends when `until_quiet` cases in a row found no new cause. A
    run that needs more than `max_recovery_calls` further calls is a finding.
    """

    variants: Sequence[FaultVariant]
    pairs: bool = False
    budget: int | str | None = None
    invariants: Sequence[Invariant] = ()
    optional: frozenset[str] = frozenset()
    unchecked: frozenset[str] = frozenset()
    shard: Shard | None = None
    gave_up: GaveUp | None = None
    until_quiet: int | None = None
    max_recovery_calls: int | None = None

    def check_optional(self, names: Collection[str]) -> None:
        """Raise InputError if a checked one of `optional` is not among the clean run's steps and tools."""
        for name in sorted(self.optional - self.unchecked - set(names)):
            hint = did_you_mean(name, names, kind="steps and tools")
            raise InputError(f"there is no step or tool {name!r}", source="optional", hint=hint)


ANSWER_WAIT_S = 20.0
"""The default time limit of a program, or of an HTTP client in this process, for one answer."""


class Deadlines(Struct, frozen=True):
    """The time limits of a run: `virtual_s` in virtual time, `real_s` in real time."""

    virtual_s: float = 3600.0
    real_s: float = 30.0

    @property
    def answer_s(self) -> float:
        """The time limit of an HTTP client for one answer: the run's, if that was chosen."""
        return ANSWER_WAIT_S if self.virtual_s == DEFAULT_DEADLINES.virtual_s else self.virtual_s


DEFAULT_DEADLINES: Deadlines = Deadlines()


class Divergence(Struct, frozen=True):
    """The policy for requests without a recorded or hand-written answer.

    `explore` answers along the recording, as different kinds of models would; `stop` ends the run, `default` answers
    with `default_response`, `live` asks a provider. Requests that the real API would refuse are refused, unless
    `lenient_requests`; with `exact`, only equal requests count as recorded.
    """

    policy: OnDivergence = "explore"
    default_response: str = DEFAULT_RESPONSE
    live: Provider | None = None
    lenient_requests: bool = False
    exact: bool = False

    async def answer(self, request: Request) -> Reply:
        """Return the answer to an unrecorded request by the policy `default` or `live`."""
        if self.policy == "live" and self.live is not None:
            return await self.live.send(request)
        return WholeReply(Response(self.default_response, request.model))


EXPLORE_DIVERGENCE: Divergence = Divergence()


def broken_invariants(run: Run, invariants: Sequence[Invariant]) -> list[str]:
    """Describe the violated invariants."""
    broken = []
    for invariant in invariants:
        name = getattr(invariant, "__name__", "invariant")
        try:
            holds = invariant(run)
        except AssertionError as error:
            broken.append(shorten(f"{name}: {error}", 500) if str(error) else name)
            continue
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.fail() and sys.exit() too
            broken.append(f"{name} raised {type(error).__name__}: {error}")
            continue
        if holds is False:
            broken.append(name)
    return broken
