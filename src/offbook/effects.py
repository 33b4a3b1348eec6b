"""The side effects of a run, what tools declare about theirs, and how two runs differ in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.text import shorten

EffectOutcome: TypeAlias = Literal["done", "refused", "failed", "unknown"]
EffectSource: TypeAlias = Literal["observed", "inferred"]


class Effect(Struct, frozen=True, kw_only=True):
    """One call of a tool that may change something outside the run.

    `outcome` is what became of it, and `source` how that is known: observed where it happened, or inferred from what
    the agent and its model said to each other.
    """

    tool: str
    arguments: JsonObject = {}
    outcome: EffectOutcome = "done"
    source: EffectSource = "observed"

    def __str__(self) -> str:
        return f"{self.tool}({', '.join(f'{name}={_shown(value)}' for name, value in self.arguments.items())})"


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """What a tool declares: whether it has a side effect, none, one that may happen again, or one that undoes another.

    `idempotent` is True if a repeated call with the same arguments changes nothing, or the name of the argument that is
    the idempotency key.
    """

    side_effect: bool = False
    read_only: bool = False
    idempotent: bool | str = False
    undoes: str | None = None

    @property
    def has_effect(self) -> bool:
        """Whether the tool changes something, as far as it is declared."""
        return self.side_effect or bool(self.idempotent) or self.undoes is not None

    def check(self, tool: str) -> None:
        """Raise InputError if the declarations of that tool contradict each other."""
        if self.read_only and (self.side_effect or self.undoes is not None):
            other = "side_effect" if self.side_effect else f"undoes={self.undoes!r}"
            reason = f"read_only contradicts {other}: a tool that only reads changes nothing"
            raise InputError(reason, source=tool, place="read_only", hint="leave one of them out")
        if self.undoes == tool:
            raise InputError("it cannot undo itself", source=tool, place="undoes", hint="name the other tool")


UNDECLARED = ToolDeclaration()


class EffectDifference(Struct, frozen=True, kw_only=True):
    """How the effects of a run differ from those of the clean run.

    `repeated` are effects of the clean run that happened again, with how often they happened in all and in the clean
    run. `other` are those that the clean run has not, `missing` those that did not happen.
    """

    repeated: tuple[tuple[Effect, int, int], ...] = ()
    other: tuple[Effect, ...] = ()
    missing: tuple[Effect, ...] = ()


def compare_effects(
    effects: Sequence[Effect], clean: Sequence[Effect], declarations: Mapping[str, ToolDeclaration]
) -> EffectDifference:
    """Compare the net effects of two runs as multisets of tools with their arguments.

    Values that differ in every run, such as UUIDs and times, count as equal.
    """
    net, expected = net_effects(effects, declarations), net_effects(clean, declarations)
    counts, wanted = Counter(map(_identity, net)), Counter(map(_identity, expected))
    by_identity = {_identity(effect): effect for effect in [*expected, *net]}
    extra = [identity for identity in by_identity if counts[identity] > wanted[identity]]
    return EffectDifference(
        repeated=tuple((by_identity[each], counts[each], wanted[each]) for each in extra if wanted[each]),
        other=tuple(by_identity[each] for each in extra if not wanted[each]),
        missing=tuple(by_identity[each] for each in by_identity if counts[each] < wanted[each]),
    )


def net_effects(effects: Iterable[Effect], declarations: Mapping[str, ToolDeclaration]) -> list[Effect]:
    """Return the effects that are left: done or perhaps done, idempotent ones once, without what was undone."""
    net: list[Effect] = []
    seen = set[bytes]()
    for effect in effects:
        declared = declarations.get(effect.tool, UNDECLARED)
        if declared.read_only or effect.outcome in ("refused", "failed"):
            continue
        if declared.idempotent:
            key = _idempotency_key(effect, declared.idempotent)
            if key in seen:
                continue
            seen.add(key)
        undone = _undone(effect, declared.undoes, net)
        if undone is None:
            net.append(effect)
        else:
            del net[undone]
    return net


def _undone(effect: Effect, undoes: str | None, net: Sequence[Effect]) -> int | None:
    """Return the place of the effect that this one undoes: the latest of that tool, by common arguments if it can."""
    places = [place for place, each in enumerate(net) if each.tool == undoes]
    fitting = [place for place in places if _agree(effect.arguments, net[place].arguments)]
    return (fitting or places or [None])[-1]


def _agree(arguments: JsonObject, others: JsonObject) -> bool:
    return all(arguments[name] == others[name] for name in arguments.keys() & others.keys())


def _idempotency_key(effect: Effect, declared: bool | str) -> bytes:
    arguments = effect.arguments if declared is True else effect.arguments.get(str(declared), effect.arguments)
    return msgspec.json.encode([effect.tool, arguments], order="sorted")


_VOLATILE = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)


def _identity(effect: Effect) -> str:
    """Return what makes two effects the same: the tool and its arguments, without UUIDs and times."""
    return _VOLATILE.sub("…", msgspec.json.encode([effect.tool, effect.arguments], order="sorted").decode())


def _shown(value: Any) -> str:
    return shorten(msgspec.json.encode(value).decode(), 40)
