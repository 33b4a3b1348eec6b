"""Shards: the assignment of cases, scenarios and tests to parts of a run, and the check that parts belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import pluralize, shorten

_SHARD = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
MAX_SHOWN_CHARS = 120
MAX_NAMED = 10


class Shard(Struct, frozen=True):
    """One of the `count` shards of a run, counted from 1. The ids of a run are spread over its shards by a hash."""

    number: int
    count: int

    def has(self, id: str) -> bool:
        """Return whether the shard has the case, scenario or test with this id."""
        return shard_of(id, self.count) == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shard_of(id: str, count: int) -> int:
    """Return the shard of an id among `count` shards, from 1.

    That is the BLAKE2b hash of its UTF-8 text, 8 bytes long, as a big-endian number, modulo `count`. It is equal on
    every machine and in every version of Python.
    """
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count + 1


def parse_shard(text: str, *, source: str = "--shard") -> Shard:
    """Return the shard in a text like `3/16`.

    Raises:
        InputError: it is not a shard.
    """
    match = _SHARD.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected NUMBER/COUNT, got {text!r}", source=source, hint=f"the third of 16: {source} 3/16")
    number, count = int(match[1]), int(match[2])
    if count == 0 or not 1 <= number <= count:
        reason = "there are no shards" if count == 0 else f"there is no shard {number} of {count}"
        hint = f"they are counted from 1: {source} 1/{max(1, count)}" + (f" to {count}/{count}" if count > 1 else "")
        raise InputError(reason, source=f"{source} {text}", hint=hint)
    return Shard(number, count)


RunIdentity = Mapping[str, str]
"""The common properties of all shards of a run: `version`, `command`, `options`, `recording`, `cases`."""


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a short digest of texts in order, to recognise an equal recording or equal cases."""
    digest = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class ShardPart(Struct, frozen=True):
    """The identity of a shard's report: its file, its shard, and its run."""

    source: str
    shard: Shard
    run: RunIdentity
    is_complete: bool = True


def check_parts(parts: Sequence[ShardPart]) -> None:
    """Check that the parts are all shards of one run, each of them once and complete.

    Raises:
        InputError: one is foreign, doubled, partial or missing; names it.
    """
    first = parts[0]
    for part in parts[1:]:
        _check_same_run(first, part)
    known: dict[int, ShardPart] = {}
    for part in parts:
        same = known.setdefault(part.shard.number, part)
        if same is not part:
            reason = f"shard {part.shard} appears twice: also in {same.source}"
            raise InputError(reason, source=part.source, hint="name each shard once")
    for part in parts:
        if not part.is_complete:
            hint = f"run it again: --shard {part.shard}"
            raise InputError(
                f"the shard {part.shard} ended early: its report is partial", source=part.source, hint=hint
            )
    missing = [str(Shard(number, first.shard.count)) for number in _numbers(first) if number not in known]
    if missing:
        more = "" if len(missing) <= MAX_NAMED else f" and {len(missing) - MAX_NAMED:,} more"
        named = f"{pluralize(len(missing), 'shard')} missing: {', '.join(missing[:MAX_NAMED])}{more}"
        raise InputError(named, source="merge", hint=f"run the missing ones: --shard {missing[0]}")


def _numbers(part: ShardPart) -> range:
    return range(1, part.shard.count + 1)


def _check_same_run(first: ShardPart, part: ShardPart) -> None:
    if part.shard.count != first.shard.count:
        reason = f"it is shard {part.shard}, and {first.source} is shard {first.shard}"
        raise InputError(reason, source=part.source, hint="merge the shards of one run")
    for name in dict.fromkeys((*first.run, *part.run)):
        ours, theirs = first.run.get(name, ""), part.run.get(name, "")
        if ours != theirs:
            reason = (
                f"it is a shard of another run: its {name} is {_shown(theirs)}, and {_shown(ours)} in {first.source}"
            )
            raise InputError(reason, source=part.source, hint="merge the shards of one run")


def _shown(text: str) -> str:
    return repr(shorten(text, MAX_SHOWN_CHARS))


def check_ids(parts: Sequence[tuple[ShardPart, Sequence[str]]], expected: int, *, noun: str) -> None:
    """Check that the parts have `expected` different ids together.

    Raises:
        InputError: an id is in two of them, or some are missing.
    """
    counts = Counter(each for _, ids in parts for each in ids)
    for part, ids in parts:
        doubled = next((each for each in ids if counts[each] > 1), None)
        if doubled is not None:
            raise InputError(f"the {noun} {doubled!r} appears twice", source=part.source, hint="run the shards again")
    if len(counts) != expected:
        reason = f"there are {pluralize(len(counts), noun)}, and the run has {expected:,}"
        raise InputError(reason, source="merge", hint="the reports were changed: run the shards again")
