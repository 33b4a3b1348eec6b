"""The net side effects of a run, and their differences from the clean run's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.tools.effects import UNDECLARED, Effect, ToolDeclaration


class EffectDifference(Struct, frozen=True, kw_only=True):
    """The differences of a run's effects from the clean run's.

    `repeated` are effects of the clean run that happened again, with their total number and the clean run's. `other`
    are those that the clean run lacks, `missing` those that did not happen.
    """

    repeated: tuple[tuple[Effect, int, int], ...] = ()
    other: tuple[Effect, ...] = ()
    missing: tuple[Effect, ...] = ()


def compare_effects(
    effects: Sequence[Effect],
    clean: Sequence[Effect],
    declarations: Mapping[str, ToolDeclaration],
    *,
    stable: Collection[str] = (),
) -> EffectDifference:
    """Compare the net effects of two runs as multisets of tools with their arguments.

    UUIDs, random hexadecimal ids and times in only one of the runs count as equal, because they may differ in every
    run, unless they are among the `stable` ones. Repeated effects have `…` in their place.
    """
    net, expected = net_effects(effects, declarations), net_effects(clean, declarations)
    known = {*stable, *(volatile_values(list(map(_key, net))) & volatile_values(list(map(_key, expected))))}
    counts = Counter(_identity(effect, known) for effect in net)
    wanted = Counter(_identity(effect, known) for effect in expected)
    by_identity = {_identity(effect, known): effect for effect in [*expected, *net]}
    extra = [identity for identity in by_identity if counts[identity] > wanted[identity]]
    return EffectDifference(
        repeated=tuple(
            (without_volatile(by_identity[each], known), counts[each], wanted[each]) for each in extra if wanted[each]
        ),
        other=tuple(by_identity[each] for each in extra if not wanted[each]),
        missing=tuple(by_identity[each] for each in by_identity if counts[each] < wanted[each]),
    )


def net_effects(effects: Iterable[Effect], declarations: Mapping[str, ToolDeclaration]) -> list[Effect]:
    """Return the remaining effects: done or possibly done, idempotent ones once, without undone ones.

    Undoing a failed call is no effect, because its caller cannot know whether it changed something.
    """
    return _settle(effects, declarations)[0]


def undone_effects(
    effects: Iterable[Effect], declarations: Mapping[str, ToolDeclaration]
) -> list[tuple[Effect, Effect]]:
    """Return the undone effects, each with the effect that undid it."""
    return _settle(effects, declarations)[1]


def _settle(
    effects: Iterable[Effect], declarations: Mapping[str, ToolDeclaration]
) -> tuple[list[Effect], list[tuple[Effect, Effect]]]:
    """Return the remaining effects, and the undone ones."""
    net: list[Effect] = []
    failed: list[Effect] = []
    undone: list[tuple[Effect, Effect]] = []
    seen = set[bytes]()
    for effect in effects:
        declared = declarations.get(effect.tool, UNDECLARED)
        if effect.outcome == "failed":
            failed.append(effect)
        if declared.read_only or effect.outcome in ("refused", "failed"):
            continue
        key = _idempotency_key(effect, declared.idempotent)
        if key is not None and key in seen:
            continue
        seen.update(() if key is None else (key,))
        before = _take_undone(effect, declared.undoes, net)
        if before is not None:
            undone.append((before, effect))
            seen.discard(_idempotency_key(before, declarations.get(before.tool, UNDECLARED).idempotent) or b"")
        elif _take_undone(effect, declared.undoes, failed) is None:
            net.append(effect)
    return net, undone


def _take_undone(effect: Effect, undoes: str | None, effects: list[Effect]) -> Effect | None:
    """Remove and return the effect that this one undoes: that tool's latest with equal common arguments."""
    for place in reversed(range(len(effects))):
        common = effect.arguments.keys() & effects[place].arguments.keys()
        is_same = all(effect.arguments[name] == effects[place].arguments[name] for name in common)
        if effects[place].tool == undoes and is_same:
            return effects.pop(place)
    return None


def _idempotency_key(effect: Effect, declared: bool | str) -> bytes | None:
    """Return what identifies a harmless repetition: the arguments, or the key; None if a repetition does harm, or lacks
    the key.
    """
    if not declared or (isinstance(declared, str) and declared not in effect.arguments):
        return None
    arguments = effect.arguments[declared] if isinstance(declared, str) else effect.arguments
    return msgspec.json.encode([effect.tool, arguments], order="sorted")


_VOLATILE = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    r"|\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{16,64}\b"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)


def volatile_values(value: object) -> set[str]:
    """Return the UUIDs, hexadecimal ids and times in a value that has a JSON form."""
    return set(_VOLATILE.findall(msgspec.json.encode(value).decode()))


def mask_volatile(text: str) -> str:
    """Return a text with `…` in place of UUIDs, hexadecimal ids and times."""
    return _VOLATILE.sub("…", text)


def without_volatile(effect: Effect, known: Collection[str]) -> Effect:
    """Return the effect with `…` in place of volatile values, so that reports of it are equal."""
    text = _mask(msgspec.json.encode(effect.arguments).decode(), known)
    return replace(effect, arguments=msgspec.json.decode(text))


def is_idempotent(effect: Effect, others: Iterable[Effect], declared: ToolDeclaration) -> bool:
    """Return whether another call is a harmless repetition by its arguments or its key."""
    key = _idempotency_key(effect, declared.idempotent)
    return key is not None and any(_idempotency_key(each, declared.idempotent) == key for each in others)


def used_keys(effects: Iterable[Effect], tool: str, declared: ToolDeclaration) -> int:
    """Return the number of idempotency keys of a tool's calls, or 0 if it declares none."""
    name = declared.idempotent
    if not isinstance(name, str):
        return 0
    calls = [each for each in effects if each.tool == tool and name in each.arguments]
    return len({_idempotency_key(each, name) for each in calls})


def _identity(effect: Effect, known: Collection[str]) -> str:
    """Return the identity of an effect: the tool and its arguments, without unknown UUIDs and times."""
    return _mask(_key(effect), known)


def _mask(text: str, known: Collection[str]) -> str:
    return _VOLATILE.sub(lambda match: match.group() if match.group() in known else "…", text)


def _key(effect: Effect) -> str:
    return msgspec.json.encode([effect.tool, effect.arguments], order="sorted").decode()
