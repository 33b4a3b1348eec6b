"""Subject: what a call through the gateway costs over a call to the provider behind it."""

from __future__ import annotations

import offbook
from bench.contestants.agentloom_gateway import agentloom_gateway
from bench.contestants.gateway import CHUNKS, Asking, Case, Contender, offbook_gateways
from bench.findings import Findings, Row, Table, Target
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled

OURS = "offbook"
CASES = [Case(stream=stream, retries=retries) for stream in (False, True) for retries in (0, 1, 2)]
CALLS, REPEATS = 500, (30, 7)
CHEAP_US = 25.0


def measure(plan: Plan) -> Findings:
    """Whole and streamed calls that are answered at once, or fail once or twice before that."""
    columns = [offbook.run(_best(plan, case), virtual_time=True) for case in CASES]
    names = list(columns[0])
    rows = [Row(name, [column.get(name) for column in columns]) for name in names]
    title = "overhead of the gateway, over the bare provider"
    table = Table(title, "µs a call", [str(case) for case in CASES], rows, base=OURS)
    return Findings("gateway", [table], _targets(table), _notes(plan))


async def _best(plan: Plan, case: Case) -> dict[str, float]:
    """The least overhead of each gateway, in µs. They take turns, and so do bare calls and calls through it."""
    contenders = _contenders(case)
    bare: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    through: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    repeats = plan.repeats(*REPEATS)
    with settled():
        for repeat in range(repeats):
            plan.tell(f"gateway: {case}, repeat {repeat + 1} of {repeats}")
            for contender in contenders:
                bare[contender.name].append(await _time(contender.bare))
                through[contender.name].append(await _time(contender.through))
    return {name: min(through[name]) - min(bare[name]) for name in through}


def _contenders(case: Case) -> list[Contender]:
    found = offbook_gateways(case)
    module, base = load_peer("agentloom.providers.gateway"), load_peer("agentloom.providers.base")
    if module and base and not case.retries:
        found.append(agentloom_gateway(module, base, case))
    return found


async def _time(asking: Asking) -> float:
    watch = Stopwatch()
    with quiet(), watch.lap():
        await asking(CALLS)
    return watch.total_us / CALLS


def _targets(table: Table) -> list[Target]:
    row = table.row(OURS)
    found = []
    for case, figure in zip(CASES, row.figures if row else [], strict=True):
        if figure is not None and not case.retries:
            claim = f"the gateway costs at most {CHEAP_US:g} µs a call over the bare provider ({case})"
            found.append(Target(claim, f"{figure:.1f} µs, {figure / CHEAP_US:.2f}x", figure <= CHEAP_US))
    return found


def _notes(plan: Plan) -> list[str]:
    return [
        f"best of {plan.repeats(*REPEATS)} repeats of {CALLS} calls each; gateways take turns, bare and through",
        f"the provider answers at once, a stream in {CHUNKS} pieces; the bare provider never fails",
        "waits between tries pass in virtual time; what is left of them is the event loop's own work",
        "AgentLoom's gateway always limits the rate, and leaves retries to its engine",
    ]
