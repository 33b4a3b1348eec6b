"""The exchanges of a recording by key: one that answers every call of its key, or a list that answers in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias, TypeVar


class Recorded(Protocol):
    """What every exchange tells, whatever was called."""

    @property
    def fingerprint(self) -> str | None:
        """What identifies the call that this exchange answers; None if it answers any."""
        ...

    @property
    def recorded_at(self) -> str | None: ...


E = TypeVar("E", bound=Recorded)
Entries: TypeAlias = dict[str, E | list[E]]


def exchanges_of(entries: Mapping[str, E | list[E]], key: str) -> list[E]:
    """The exchanges of a key, in order."""
    entry = entries.get(key, [])
    return entry if isinstance(entry, list) else [entry]


def each(entries: Mapping[str, E | list[E]]) -> Iterator[tuple[str, E]]:
    """Each exchange with its key, in order."""
    return ((key, exchange) for key in entries for exchange in exchanges_of(entries, key))


def add(entries: Entries[E], key: str, exchange: E, *, listed: bool = False) -> None:
    """Put an exchange behind those of its key. The first stands alone, or in a list of one if `listed`."""
    entry = entries.get(key)
    if isinstance(entry, list):
        entry.append(exchange)
    elif entry is not None:
        entries[key] = [entry, exchange]
    else:
        entries[key] = [exchange] if listed else exchange


def rewrite(entries: Entries[E], change: Callable[[E], E]) -> int:
    """Put each exchange through `change`; gives back how many came out as another object."""
    changed = 0
    for key, entry in entries.items():
        new = [change(exchange) for exchange in exchanges_of(entries, key)]
        changed += sum(after is not before for after, before in zip(new, exchanges_of(entries, key), strict=True))
        entries[key] = new if isinstance(entry, list) else new[0]
    return changed


def forget(entries: Entries[E], key: str, *, before: str) -> None:
    """Drop the exchanges of a key that were recorded before a moment; those that do not say when were."""
    entry = entries.pop(key, None)
    if isinstance(entry, list):
        left = [exchange for exchange in entry if (exchange.recorded_at or "") >= before]
        if left:
            entries[key] = left
    elif entry is not None and (entry.recorded_at or "") >= before:
        entries[key] = entry


def forget_all(entries: Entries[E], *, before: str) -> None:
    """The like of `forget` for every key."""
    for key in list(entries):
        forget(entries, key, before=before)
