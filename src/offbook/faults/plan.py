"""Fault plans: which fault fires at which call, from lines of text, a list, a JSON file, or seeded chaos."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from offbook.decoding import convert, decode
from offbook.errors import InputError
from offbook.faults.catalog import (
    FAULT_TYPES,
    PLANNED_FAULT_TYPES,
    AnyFault,
    AnyOrderFault,
    AnyPlannedFault,
    AnyToolFault,
    explain_fault_error,
    fault_example,
    fault_type_hint,
)
from offbook.faults.fault import Crash, Fault, fields_of, join_words, parse_value, split_words
from offbook.faults.order import HeldUntil, OrderFault
from offbook.faults.site import At, PlannedFault, Site, ToolSite
from offbook.faults.tools import ToolFault
from offbook.files import read_file, write_output
from offbook.schema_errors import decode_json, explain_msgspec_error, json_value_at, shape_hint, with_value
from offbook.text import did_you_mean_file

_LINE = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^":]|:(?!\s|$))*):(?:\s+|$)(.*)', re.DOTALL)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
"""Python's representation of command-line bytes that are not UTF-8."""
_EXAMPLES = (
    "a fault is like 'call=3: http_error 500', 'step=answer attempt=1: timeout 5000', 'everywhere: timeout' "
    "or 'tool=refund: tool_lost'"
)


def parse_fault(text: str) -> PlannedFault:
    """Parse a planned fault, like `call=3: http_error 500`.

    Before the colon is the site: `everywhere`, or some of `workflow=`, `step=`, `call=`, `since=`, `from=`, `until=`,
    `attempt=` and `chunk=`; for a tool, `tool=` and optionally `call=`, `since=`, `from=` or `until=`. After it are the
    type of the fault, the value of its first field, and other fields as `name=value`; `headers.Retry-After=30` sets an
    entry of a mapping. Text with
    spaces is in double quotes. `str()` of a planned fault is such a line.

    Raises:
        InputError: the text is not such a line.
    """
    try:
        return _parse_line(text)
    except InputError as error:
        place = "step" if error.place == "step_id" else error.place
        meant = _meant_line(text)
        hint = f"did you mean {meant!r}?" if meant else error.hint
        raise InputError(error.reason, source=repr(text), place=place, hint=hint) from None


def _parse_line(text: str) -> PlannedFault:
    if _HALF_PAIR.search(text) is not None:
        raise InputError("not UTF-8", hint=_EXAMPLES)
    line = _LINE.fullmatch(text)
    if line is None:
        raise InputError("expected where, a colon and a fault", hint=_EXAMPLES)
    at = _parse_at(line[1])
    return at.fail(_parse_declared_fault(line[2], site=str(at)))


_LETTERS = str.maketrans("OoIl", "0011")
_SITE_NAMES = "call|since|from|until|attempt|chunk|step|tool|workflow"
_MAX_MENDED_CHARS = 300


def _slips() -> tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]:
    """Return typing slips and their corrections: spaces around `=`, letters for digits, units, a missing `=`, colon or
    site.
    """
    types = "|".join(sorted(PLANNED_FAULT_TYPES, key=len, reverse=True))
    fields = "|".join(sorted({name for kind in PLANNED_FAULT_TYPES.values() for name in kind.__struct_encode_fields__}))
    return (
        (r"\s*=\s*", "="),
        (rf",\s*(?=({_SITE_NAMES})=)", " "),
        (r"\b(?=[\dOoIl]*\d)[\dOoIl]+\b", lambda found: found[0].translate(_LETTERS)),
        (r"\b(\d+)s\b", r"\g<1>000"),
        (r"\b(\d+)ms\b", r"\1"),
        (rf"\b({_SITE_NAMES})[\s:]+(?=[\w\"])", r"\1="),
        (rf"\b({fields})\s+(?=[\w\"])", r"\1="),
        (r"\bstatus=", "status_code="),
        (r"(^|:\s*)(?:http_?)?([45]\d\d)$", r"\1http_error \2"),
        (r"(^|:\s*)rate_?limit(ed)?\b", r"\1http_error 429"),
        (rf"^([^:]*?)[\s,;:]*\b({types})\b", r"\1: \2"),
    )


def _meant_line(text: str) -> str:
    """Return the probable line: the text with slips corrected one by one until it can be parsed."""
    if len(text) > _MAX_MENDED_CHARS:
        return ""
    line = text.strip()
    for slip, meant in _slips():
        line = re.sub(slip, meant, line)
        for site in ("call=1", "tool=NAME") if line.startswith(":") else ("",):
            with suppress(InputError):
                return str(_parse_line(site + line))
    return ""


def _parse_at(text: str) -> At:
    words = list(split_words(text))
    if words == [("", "everywhere")]:
        return At()
    bare = next((word for name, word in words if not name), None)
    if not words or bare is not None:
        raise InputError(f"expected a site, got {bare or ''!r}", hint=_EXAMPLES)
    fields = _parse_fields([("step_id" if name == "step" else name, word) for name, word in words], At)
    if (empty := next((name for name, value in fields.items() if value == ""), None)) is not None:
        raise InputError("the value is missing", place=empty, hint=_site_example(empty))
    try:
        return convert(fields, At)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        place = path.lstrip(".")
        hint = _site_example(place) if place else shape_hint(reason, path, At).replace("step_id", "step")
        raise InputError(with_value(reason, fields.get(place)), place=place, hint=hint) from None


_SITE_EXAMPLES = {
    "attempt": "call=2 attempt=1: timeout",
    "chunk": "call=2 chunk=3: stream_truncate",
    "tool": "tool=refund: tool_error",
    "step_id": "step=answer: timeout",
    "from": "from=30s until=5m: http_error 503",
    "until": "from=30s until=5m: http_error 503",
    "workflow": "workflow=triage: timeout",
}


def _site_example(field: str) -> str:
    return f"for example '{_SITE_EXAMPLES.get(field, f'{field}=2: timeout')}'"


def _parse_declared_fault(text: str, *, site: str) -> AnyPlannedFault:
    words = list(split_words(text))
    kind, types = join_words(words[:1]), PLANNED_FAULT_TYPES
    if kind not in types:
        if not kind:
            hint = f"put all of it in quotes: '{site}: timeout', '{site}: http_error 503'"
            raise InputError("expected a fault after the colon", hint=hint)
        reason = f"unknown fault type {kind!r}"
        raise InputError(reason, hint=fault_type_hint(kind, types, site=site))
    fields = {"type": kind} | _parse_fields(_name_first_word(words[1:], types[kind], site=site), types[kind])
    try:
        fault = convert(fields, types[kind])
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        reason, hint = explain_fault_error(reason, path, fields, types, site=site)
        raise InputError(reason, place=path.lstrip("."), hint=hint) from None
    return _check_values(fault, site=site)


def _check_values(fault: AnyPlannedFault, *, site: str = "", source: str = "", place: str = "") -> AnyPlannedFault:
    """Return the fault, if its values are meaningful. `place` is its place in a file."""
    try:
        fault.check()
    except InputError as error:
        example = fault_example(type(fault), error.place.partition(".")[0], site=site)
        hint = "; ".join(filter(None, (error.hint, example)))
        raise InputError(error.reason, source=source, place=place + error.place, hint=hint) from None
    return fault


def _name_first_word(words: list[tuple[str, str]], shape: type[AnyPlannedFault], *, site: str) -> list[tuple[str, str]]:
    """Give the first word the name of the first field, if it has none."""
    names = shape.__struct_encode_fields__
    if words and names and not words[0][0]:
        words = [(names[0], words[0][1]), *words[1:]]
    for name, word in words:
        if not name:
            example = fault_example(shape, next(iter(names), ""), site=site)
            hint = f"put text that has spaces in double quotes; {shape_hint('', '', shape)}; {example}"
            raise InputError(f"{word!r} is one word too many", hint=hint)
    return words


def _parse_fields(words: Iterable[tuple[str, str]], shape: type[Struct]) -> dict[str, Any]:
    """Parse the values of words, by the names of their fields."""
    kinds = {info.encode_name: info.type for info in fields_of(shape)}
    fields: dict[str, Any] = {}
    for name, word in words:
        field, _, entry = name.partition(".")
        target, key, kind = fields, name, kinds.get(name)
        if entry and get_origin(kinds.get(field)) is dict:
            target, key, kind = fields.setdefault(field, {}), entry, get_args(kinds[field])[1]
        if not isinstance(target, dict) or key in target:
            raise InputError("given twice", place=name, hint="give it once")
        target[key] = parse_value(word, kind)
    return fields


class Chaos(Struct, frozen=True, forbid_unknown_fields=True):
    """Makes the share `rate` of all attempts fail, each with one of `faults`; `seed` decides which.

    The draw depends on the seed and the site only.
    """

    seed: int
    rate: Annotated[float, Meta(ge=0.0, le=1.0)]
    faults: Annotated[tuple[AnyFault, ...], Meta(min_length=1)]

    def draw(self, site: Site) -> AnyFault | None:
        """Return the fault that fires at `site`, if any."""
        place = (self.seed, site.workflow, site.step_id, site.call, site.attempt)
        generator = random.Random(repr(place))  # noqa: S311 - not a secret
        return generator.choice(self.faults) if generator.random() < self.rate else None

    def __str__(self) -> str:
        return f"chaos seed={self.seed} rate={self.rate!r}: {' | '.join(str(fault) for fault in self.faults)}"


_EXAMPLE = '{"faults": [{"at": {"step_id": "answer", "attempt": 1}, "fault": {"type": "timeout", "after_ms": 5000}}]}'


class FaultPlan:
    """Decides which fault fires at a site: that of the first line that covers the site, else chaos.

    `has_times` if the time decides which fault fires, which only `during` considers. `has_orders` if an answer is held
    until another call has ended, so calls under way matter. `has_lies` if a tool tells what is not true, so its other
    answers matter. Chaos concerns model calls only. A plan is immutable; it can be printed, saved to a file and loaded.

    Raises:
        InputError: a line or the chaos is invalid.
    """

    def __init__(self, faults: Iterable[PlannedFault] = (), *, chaos: Chaos | None = None) -> None:
        declared = _decode(_encode(_PlanFile(tuple(faults), chaos)), source="")
        self.faults, self.chaos = declared.faults, declared.chaos
        self.has_orders = any(isinstance(planned.fault, HeldUntil) for planned in self.faults)
        self.has_times = any(planned.at.has_times for planned in self.faults)
        self.has_lies = any("lies" in planned.fault.traits for planned in self.faults)

    def during(self, elapsed_s: float) -> FaultPlan:
        """Return the plan with only the lines that hold so long after the first call."""
        return FaultPlan([line for line in self.faults if line.at.is_on(elapsed_s)], chaos=self.chaos)

    def fault_at(self, site: Site) -> AnyFault | AnyOrderFault | None:
        """Return the fault that fires at `site`, if any."""
        planned = self.line_at(site)
        if planned is not None and isinstance(planned.fault, Fault | OrderFault):
            return planned.fault
        return None if self.chaos is None else self.chaos.draw(site)

    def tool_fault_at(self, site: ToolSite) -> AnyToolFault | AnyOrderFault | None:
        """Return the fault that fires at the site of a tool call, if any."""
        planned = self.line_at(site)
        if planned is not None and isinstance(planned.fault, ToolFault | OrderFault):
            return planned.fault
        return None

    def crash_at(self, site: Site | ToolSite) -> Crash | None:
        """Return the crash at `site`, or None. No other fault fires there."""
        planned = self.line_at(site)
        return planned.fault if planned is not None and isinstance(planned.fault, Crash) else None

    @property
    def can_crash(self) -> bool:
        """Whether the plan has a crash."""
        return any(isinstance(line.fault, Crash) for line in self.faults)

    def crashes_of(self, lines: Iterable[PlannedFault] | None = None) -> list[PlannedFault]:
        """Return the crashes among these lines of the plan, or all."""
        crashes = [line for line in self.faults if isinstance(line.fault, Crash)]
        return crashes if lines is None else [line for line in lines if line in crashes]

    def without_crashes(self, lines: Iterable[PlannedFault] | None = None) -> FaultPlan:
        """Return the plan for the time after these crashes, or after all."""
        over = self.crashes_of(lines)
        return FaultPlan([line for line in self.faults if line not in over], chaos=self.chaos)

    def line_at(self, site: Site | ToolSite) -> PlannedFault | None:
        """Return the line that covers `site`, if any."""
        return next((planned for planned in self.faults if planned.at.covers(site)), None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a JSON file.

        Raises:
            InputError: the file cannot be written.
        """
        data = _encode(_PlanFile(self.faults, self.chaos))
        try:
            write_output(path, msgspec.json.format(data, indent=2) + b"\n")
        except OSError as error:
            raise InputError(error.strerror or str(error), source=os.fspath(path)) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FaultPlan:
        """Load a plan from a JSON file.

        Raises:
            InputError: the file is not a plan; with the file, the place in it and the reason.
        """
        source = os.fspath(path)
        try:
            data = read_file(path)
        except OSError as error:
            hint = did_you_mean_file(source, "write one with plan.save()")
            raise InputError(error.strerror or str(error), source=source, hint=hint) from None
        declared = _decode(data, source=source)
        return cls(declared.faults, chaos=declared.chaos)

    def __iter__(self) -> Iterator[PlannedFault]:
        return iter(self.faults)

    def __repr__(self) -> str:
        return f"FaultPlan({list(self.faults)!r}, chaos={self.chaos!r})"

    def __str__(self) -> str:
        lines = [str(planned) for planned in self.faults]
        return "\n".join(lines if self.chaos is None else [*lines, str(self.chaos)]) or "no faults"


def chaos(*, seed: int, rate: float, faults: Iterable[AnyFault]) -> FaultPlan:
    """Return a plan in which the share `rate` of all attempts fails, at equal sites for an equal `seed`."""
    return FaultPlan(chaos=Chaos(seed, rate, tuple(faults)))


class _PlanFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    faults: tuple[PlannedFault, ...] = ()
    chaos: Chaos | None = None


def _encode(plan: _PlanFile) -> bytes:
    try:
        return msgspec.json.encode(plan)
    except (TypeError, ValueError) as error:
        raise InputError(f"the plan cannot be written as JSON: {error}", hint=_EXAMPLE) from None


def _decode(data: bytes, *, source: str) -> _PlanFile:
    hint = f"a plan is like {_EXAMPLE}"
    decode_json(data, msgspec.Raw, source=source, hint=hint, allows_repeats=not source)  # syntax comes before shape
    try:
        plan = decode(data, _PlanFile)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _shape_error(data, error, source) from None
    for index, fault in enumerate(() if plan.chaos is None else plan.chaos.faults):
        _check_values(fault, source=source, place=f"chaos.faults[{index}].")
    return _PlanFile(
        tuple(_check_line(planned, index, source) for index, planned in enumerate(plan.faults)), plan.chaos
    )


def _check_line(planned: PlannedFault, index: int, source: str) -> PlannedFault:
    _check_values(planned.fault, source=source, place=f"faults[{index}].fault.")
    try:
        return planned.at.fail(planned.fault)
    except InputError as error:
        place = f"faults[{index}].at.{error.place}"
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from None


def _shape_error(data: bytes, error: Exception, source: str) -> InputError:
    reason, path = explain_msgspec_error(error)
    hint = f"a plan is like {_EXAMPLE}"
    if found := re.match(r"(\.faults\[\d+\]\.fault|\.chaos\.faults\[\d+\])(.*)", path):
        types = FAULT_TYPES if path.startswith(".chaos") else PLANNED_FAULT_TYPES
        reason, hint = explain_fault_error(reason, found[2], json_value_at(data, found[1]), types)
    elif not path and "'_version'" in reason:
        reason = "this is a recording, not a plan"
    elif "unknown field" in reason:
        hint = shape_hint(reason, "", _shape_at(path))
    return InputError(reason, source=source, place=path.removeprefix("."), hint=hint)


def _shape_at(path: str) -> type[Struct]:
    """Return the type of the object at `path`."""
    if path.endswith(".at"):
        return At
    if path.startswith(".faults"):
        return PlannedFault
    return Chaos if path.startswith(".chaos") else _PlanFile
