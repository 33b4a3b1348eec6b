"""Reads what evidence says about effects, and holds it against a ledger."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator

from msgspec import Struct

from tests.explore.zoo.ledger import Entry

_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_ARGUMENT = re.compile(r"(?:, )?(\w+)=")
_PREDICATE = re.compile(
    r" (?:(?:ran|had run) (\d+) times|(ran once)|(did not run)|(stands?)\b"
    r"|(ran and was undone by)|(?:had run|has run|ran)(?![\w ]))"
)
_RANDOM = re.compile(r"\\u2026|[0-9a-f]{8}-[0-9a-f]{4}-")
_DECODER = json.JSONDecoder()


class Claim(Struct, frozen=True):
    """What a sentence says about a call: that it ran, so many times or not at all, was undone, or stands."""

    call: Entry
    says: str
    times: int = 0

    def contradiction(self, done: Counter[Entry], wanted: Counter[Entry], left: Counter[Entry]) -> str:
        """Say what speaks against the claim, where `done` was done, `left` is what was not undone of it, and `wanted`
        is done without the fault."""
        count = done[self.call]
        holds = {
            "ran": count > 0,
            "ran times": count == self.times,
            "stands": left[self.call] > 0,
            "was undone": count > left[self.call],
            "did not run": count < max(1, wanted[self.call]),
        }
        return "" if holds[self.says] else f"{self.call} {self.says} {self.times or ''}: the ledger has {count}"


def claims(evidence: str) -> Iterator[Claim]:
    """Yield what a text says about calls: `pay(bill=7) and pay(bill=8) ran 2 times instead of once`."""
    said: list[Entry] = []
    place = 0
    while found := _CALL.search(evidence, place):
        if said and evidence[place : found.start()] not in (", ", " and ", ", and "):
            said = []
        call, place = _call_at(evidence, found)
        said += [] if call is None else [call]
        predicate = _PREDICATE.match(evidence, place)
        if predicate is not None:
            yield from _claims_of(said, predicate)
            said = []


def _claims_of(said: list[Entry], predicate: re.Match[str]) -> Iterator[Claim]:
    names = ("ran times", "ran times", "did not run", "stands", "was undone")
    says = next((name for name, told in zip(names, predicate.groups(), strict=True) if told), "ran")
    for call in said:
        yield Claim(call, says, int(predicate[1] or 1) if says == "ran times" else 0)


def _call_at(evidence: str, found: re.Match[str]) -> tuple[Entry | None, int]:
    """Return the call that begins there, and where it ends; none if its arguments are cut or random."""
    arguments, place = {}, found.end()
    while argument := _ARGUMENT.match(evidence, place):
        try:
            arguments[argument[1]], place = _DECODER.raw_decode(evidence, argument.end())
        except ValueError:
            return None, argument.end()
    if not evidence.startswith(")", place):
        return None, place
    text = json.dumps(arguments, sort_keys=True)
    return (None if _RANDOM.search(text) else (found[1], text)), place + 1


def contradictions(
    evidence: str, done: Counter[Entry], wanted: Counter[Entry], *, left: Counter[Entry], known: Collection[str]
) -> Iterator[str]:
    """Yield what the ledger has against evidence about the tools that keep one."""
    for claim in claims(evidence):
        if claim.call[0] in known and (against := claim.contradiction(done, wanted, left)):
            yield against
