"""Subject: how long a replayed call takes, with few entries and with many."""

from __future__ import annotations

import asyncio

import orjson

from bench.contestants.agentloom import AgentLoomReplayer
from bench.contestants.contestant import Replayer
from bench.contestants.floor import HASH_FLOOR, HashFloor
from bench.contestants.litellm import LiteLLMReplayer
from bench.contestants.offbook import OffbookReplayer
from bench.contestants.pydantic_ai import FunctionModelReplayer
from bench.contestants.vcrpy import VcrpyReplayer
from bench.deck import Deck
from bench.findings import Findings, Row, Table, Target, at_least, at_most
from bench.library import Library, Spec
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from bench.workload import By, Conversation, call_at, fields_of

JSON, SQLITE = "offbook, JSON", "offbook, SQLite"
AGENTLOOM = "AgentLoom MockProvider"
REPEATS = (30, 7)
CONVERSATIONS: tuple[Conversation, ...] = ("chat", "long", "tools")
FASTER, FLAT, NEAR_FLOOR = 3.0, 2.0, 2.5


def measure(plan: Plan) -> Findings:
    """Replay by step and by fingerprint, of a conversation with tool calls, and of a step called often."""
    sizes = plan.sizes(10, 1_000, 100_000)
    by_step = _table(plan, "replay by step (ours strict: drift is checked)", "step", "chat", sizes)
    by_hash = _table(plan, "replay by fingerprint (ours strict)", "fingerprint", "chat", sizes)
    long_step = _table(plan, "replay by step, a longer conversation (ours strict)", "step", "long", [10, 1_000])
    long_hash = _table(plan, "replay by fingerprint, a longer conversation", "fingerprint", "long", [10, 1_000])
    tools = _table(plan, "replay by fingerprint, tool calls in the conversation", "fingerprint", "tools", [1_000])
    loop = _table(plan, "replay of one step called over and over", "loop", "chat", plan.sizes(10, 1_000, 10_000))
    targets = _targets(by_step, by_hash) + _flat(loop, JSON) + _flat(loop, SQLITE)
    targets += _faster(long_hash, JSON) + _near(long_step)
    return Findings("replay", [by_step, by_hash, long_step, long_hash, tools, loop], targets, _notes(plan))


def _table(plan: Plan, title: str, by: By, conversation: Conversation, sizes: list[int]) -> Table:
    columns = [asyncio.run(_best(plan, Spec(size, by, conversation), title)) for size in sizes]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [Row(name, [column.get(name) for column in columns]) for name in names]
    return Table(title, "µs a call", [f"{size:,} entries" for size in sizes], rows, base=JSON, is_rate=True)


async def _best(plan: Plan, spec: Spec, title: str) -> dict[str, float]:
    """The best time of a call of each contestant, in µs. They take turns."""
    plan.tell(f"{title}: making recordings of {spec.size:,} entries")
    decks = [(replayer, Deck(replayer, spec)) for replayer in _replayers(plan.library, spec)]
    for _, deck in decks:
        await deck.reopen()
    times: dict[str, list[float]] = {replayer.name: [] for replayer, _ in decks}
    repeats = plan.repeats(*REPEATS)
    with settled():
        for repeat in range(repeats):
            plan.tell(f"{title}: {spec.size:,} entries, repeat {repeat + 1} of {repeats}")
            for replayer, deck in decks:
                if repeat < replayer.repeats:
                    times[replayer.name].append(await _time(replayer, deck))
    for _, deck in decks:
        await deck.close()
    return {name: min(figures) for name, figures in times.items()}


async def _time(replayer: Replayer, deck: Deck) -> float:
    watch = Stopwatch()
    hands = [await deck.deal()]
    with quiet():
        for _ in range(deck.hands_a_repeat):
            calls = hands.pop() if hands else await deck.deal()
            with watch.lap():
                await replayer.replay(calls)
    return watch.total_us / (deck.hand_size * deck.hands_a_repeat)


def _replayers(library: Library, spec: Spec) -> list[Replayer]:
    found: list[Replayer] = [
        OffbookReplayer(JSON, library.json(spec)),
        OffbookReplayer(SQLITE, library.sqlite(spec)),
        HashFloor(),
    ]
    if spec.by == "loop":
        return [_short(replayer) for replayer in found]
    if agentloom := load_peer("agentloom.providers.mock"):
        found.append(AgentLoomReplayer(AGENTLOOM, agentloom, library.agentloom(spec)))
    if spec.conversation == "chat":
        found += _scripted(spec) + _cassettes(library, spec)
    return found


def _short(replayer: Replayer) -> Replayer:
    """The replayer with less to do, where it may be slow."""
    replayer.repeats, replayer.calls_a_repeat = 5, 90
    return replayer


def _scripted(spec: Spec) -> list[Replayer]:
    """Peers that hold no recording: the answers are given to them."""
    found: list[Replayer] = []
    names = {"models": "models", "function": "models.function", "messages": "messages", "usage": "usage"}
    modules = {name: module for name, path in names.items() if (module := load_peer(f"pydantic_ai.{path}"))}
    if len(modules) == len(names):
        found.append(FunctionModelReplayer(modules, spec.calls()))
    if litellm := load_peer("litellm"):
        found.append(LiteLLMReplayer(litellm))
    return found


def _cassettes(library: Library, spec: Spec) -> list[Replayer]:
    if spec.size > VcrpyReplayer.largest or load_peer("vcr") is None:
        return []
    by_step = Spec(spec.size, "step")
    if spec.by == "step":
        return [VcrpyReplayer("vcrpy, in order, body not compared", library.cassette(by_step), ("method", "uri"))]
    return [VcrpyReplayer("vcrpy, body compared", library.cassette(by_step), ("method", "uri", "body"))]


def _targets(by_step: Table, by_hash: Table) -> list[Target]:
    found: list[Target] = []
    found += _faster(by_hash, JSON)
    for table in (by_step, by_hash):
        for store in (JSON, SQLITE):
            found += _flat(table, store)
    return found + _near(by_step)


def _faster(by_hash: Table, store: str) -> list[Target]:
    claim = f"{store}: {by_hash.title.partition(' (')[0]}, at {FASTER:g}x AgentLoom's rate by hash or more"
    return at_least(claim, by_hash.ratios(AGENTLOOM, store), FASTER)


def _flat(table: Table, store: str) -> list[Target]:
    row = table.row(store)
    figures = [] if row is None else [figure for figure in row.figures if figure is not None]
    claim = (
        f"{store}: {table.title.partition(' (')[0]} with {table.columns[-1]} takes at most {FLAT:g}x as long as with 10"
    )
    return at_most(claim, [figures[-1] / figures[0]] if figures else [], FLAT)


def _near(by_step: Table) -> list[Target]:
    """Strict replay by step beats the peer that checks nothing, or is near the price of the check."""
    to_floor, to_peer = by_step.ratios(JSON, HASH_FLOOR), by_step.ratios(JSON, AGENTLOOM)
    is_met = max(to_floor) <= NEAR_FLOOR or (bool(to_peer) and max(to_peer) < 1.0)
    measured = f"{max(to_floor):.2f}x floor" + (f", {max(to_peer):.2f}x AgentLoom" if to_peer else "")
    title = by_step.title.partition(" (")[0]
    claim = f"{JSON}: {title}, strict: faster than AgentLoom's, or within {NEAR_FLOOR:g}x of the floor"
    return [Target(claim, measured, is_met)]


def _notes(plan: Plan) -> list[str]:
    sizes = {name: len(orjson.dumps(fields_of(call_at(0, name)))) for name in CONVERSATIONS}
    return [
        f"request: {sizes['chat']:,} bytes of JSON ({sizes['long']:,} the longer one), another one for each entry",
        f"best of {plan.repeats(*REPEATS)} repeats of 600 calls or so (slow peers and one step: 5 of 9 to 90)",
        "contestants take turns in one process; garbage is collected before each and not during it",
        "calls are drawn from all over the recording; no entry is served twice from one opening",
        "each opening is warmed up by one call that is not timed, whose answer is checked",
        "ours holds request and request_hash too, as the recorder keeps them; AgentLoom's holds the same answers",
        "FunctionModel.request is called without an agent; its function finds the answer by the last text asked",
        "LiteLLM is handed its answer; vcrpy plays back below http.client, with up to 1,000 entries",
    ]
