"""The side effects of tools: reports, and tools' declarations."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import orjson
from msgspec import Struct

from offbook.decoding import convert
from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.schema_errors import explain_msgspec_error
from offbook.text import common_start, compile_pattern, did_you_mean, shorten

if TYPE_CHECKING:
    from offbook.settings import ToolSettings

EffectOutcome: TypeAlias = Literal["done", "refused", "failed", "unknown", "reached"]
EffectSource: TypeAlias = Literal["observed", "shown", "inferred"]


class Effect(Struct, frozen=True, kw_only=True):
    """One call of a tool that may change something outside the run.

    `outcome` is its result, or `reached` for a place that the run has reached, which is no effect. `source` is the
    origin of that knowledge: observed where it happened, or inferred from the conversation. A call is `shown` if one
    request has its result and those of equal ones.
    """

    tool: str
    arguments: JsonObject = {}
    outcome: EffectOutcome = "done"
    source: EffectSource = "observed"

    def __str__(self) -> str:
        return self.beside(())

    def beside(self, others: Iterable[Effect]) -> str:
        """Return the call as text. A long argument is cut to the part that differs from the others."""
        alike = [other.arguments for other in others if other.tool == self.tool]
        shown = [
            f"{name}={_shown(value, [each[name] for each in alike if name in each])}"
            for name, value in self.arguments.items()
        ]
        return f"{self.tool}({', '.join(shown)})"


EFFECTS_VARIABLE = "OFFBOOK_EFFECTS"
"""The environment variable with the file for a program's effect reports, one JSON object a line."""

EFFECTS_URL_VARIABLE = "OFFBOOK_EFFECTS_URL"
"""The environment variable with the URL for reports instead, if the program must wait until they are noted."""

_collections: list[list[Effect]] = []


def effect(tool: str, outcome: EffectOutcome = "done", /, **arguments: Any) -> None:
    """Report a side effect to the surrounding run: `effect("refund", order=42)`. Does nothing outside a run.

    Inside `offbook explore` and `offbook exec` it adds a line to the file that OFFBOOK_EFFECTS names; inside an
    exploration in this process it notes the effect of the case. Where `explore --crash` may kill the program right
    after an effect, it returns when the effect is noted. Arguments without JSON are reported as text, and sets as
    sorted lists.

    Args:
        tool: the tool's name for its model.
        outcome: `done`, `refused`, `failed` or `unknown`.
        arguments: the arguments of the tool.
    """
    if _collections or os.environ.get(EFFECTS_VARIABLE) or os.environ.get(EFFECTS_URL_VARIABLE):
        values = {_text_of(name): _json_form(value) for name, value in arguments.items()}
        _report(Effect(tool=_text_of(tool), arguments=values, outcome=outcome))


def reached(name: str) -> None:
    """Report that the run has reached a place, for `must_reach` of an exploration. Does nothing outside a run."""
    effect(name, "reached")


def split_reached(reports: Iterable[Effect]) -> tuple[list[Effect], list[str]]:
    """Return the effects among the reports of a run, and the names of the places that it has reached."""
    reports = list(reports)
    effects = [each for each in reports if each.outcome != "reached"]
    return effects, [each.tool for each in reports if each.outcome == "reached"]


def _report(reported: Effect) -> None:
    path, url = os.environ.get(EFFECTS_VARIABLE, ""), os.environ.get(EFFECTS_URL_VARIABLE, "")
    if _collections:
        _collections[-1].append(reported)
    elif url:
        _post(url, msgspec.json.encode(_EffectReport.of(reported)))
    else:
        # One write a line: otherwise processes that report at once would mix theirs.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, msgspec.json.encode(_EffectReport.of(reported)) + b"\n")
        finally:
            os.close(file)


def _json_form(value: object) -> Any:
    """Return a value as JSON, or as text without a JSON form, such as an integer beyond 64 bits. Never raises."""
    try:
        return orjson.loads(orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS))
    except (TypeError, ValueError):
        return _text_of(value)


def _plain(value: object) -> object:
    """Return a value of a type unknown to orjson as one that it knows."""
    if isinstance(value, Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda each: str(_json_form(each)))
    return _text_of(value)


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _text_of(value: object) -> str:
    """Return a value by `str` without addresses in memory and half surrogate pairs, or its type if that fails."""
    try:
        return _ADDRESS.sub("", str(value)).encode(errors="replace").decode()
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _post(url: str, body: bytes) -> None:
    """Report an effect to a server on this machine, and wait for the answer."""
    from http.client import HTTPConnection  # noqa: PLC0415 - few runs need it
    from urllib.parse import urlsplit  # noqa: PLC0415

    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port)
    try:
        connection.request("POST", parts.path, body)
        connection.getresponse().read()
    finally:
        connection.close()


@contextmanager
def collect_effects() -> Iterator[list[Effect]]:
    """Collect the reports of `effect` inside the block, from any thread."""
    collected: list[Effect] = []
    _collections.append(collected)
    try:
        yield collected
    finally:
        _collections[:] = [each for each in _collections if each is not collected]


def count_collected() -> int:
    """Return the number of effects reported so far, inside `collect_effects`."""
    return len(split_reached(_collections[-1])[0]) if _collections else 0


class _EffectReport(Struct, frozen=True, omit_defaults=True):
    """A reported effect."""

    tool: str
    arguments: JsonObject = {}
    outcome: EffectOutcome = "done"

    @classmethod
    def of(cls, effect: Effect) -> _EffectReport:
        return cls(effect.tool, effect.arguments, effect.outcome)

    def effect(self) -> Effect:
        return Effect(tool=self.tool, arguments=self.arguments, outcome=self.outcome)


_REPORT_EXAMPLE = 'an effect is like {"tool": "refund", "arguments": {"order": 42}}'
_OTHER_NAMES = {"args": "arguments", "name": "tool", "input": "arguments", "status": "outcome"}


def parse_effects(data: bytes, *, source: str, place: str = "") -> list[Effect]:
    """Parse reported effects: one JSON object, or a list of them. Further fields are ignored.

    Raises:
        InputError: it is neither.
    """
    try:
        decoded = msgspec.json.decode(data)
        objects = decoded if isinstance(decoded, list) else [decoded]
        reports = convert(objects, list[_EffectReport])
    except msgspec.ValidationError as error:
        reason, field = explain_msgspec_error(error)
        raise InputError(reason, source=source, place=place or field, hint=_REPORT_EXAMPLE) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("it is not JSON", source=source, place=place, hint=_REPORT_EXAMPLE) from None
    for each in objects:
        _check_fields(each, source=source, place=place)
    return [report.effect() for report in reports]


def _check_fields(report: JsonObject, *, source: str, place: str) -> None:
    """Refuse a field that is probably a misspelt one, because its value would be lost."""
    known = _EffectReport.__struct_fields__
    for name in (each for each in report if each not in known):
        other = _OTHER_NAMES.get(name)
        hint = did_you_mean(name, known) if other in (None, *report) else f"did you mean {other!r}?"
        if hint:
            raise InputError(f"unknown field {name!r}", source=source, place=place, hint=hint)


def read_effect_lines(data: bytes, *, source: str, is_cut_off: bool = False, first_line: int = 1) -> list[Effect]:
    """Parse a file of effects, one a line. Empty lines are ignored, and a broken last one if it `is_cut_off`.

    Raises:
        InputError: a line is not an effect; it is named by its number.
    """
    lines = data.split(b"\n")
    effects: list[Effect] = []
    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        try:
            effects += parse_effects(line, source=source, place=f"line {number}")
        except InputError:
            if is_cut_off and number == first_line + len(lines) - 1:
                break
            raise
    return effects


def prefer_reported(
    reported: Sequence[Effect], others: Iterable[Effect], *, reporting: Collection[str] = ()
) -> tuple[Effect, ...]:
    """Return all effects, with a tool's reports in place of other knowledge of it.

    `reporting` are further tools whose effects are always reported.
    """
    tools = {effect.tool for effect in reported} | set(reporting)
    return (*(effect for effect in others if effect.tool not in tools), *reported)


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """The declared effect of a tool: a side effect, none, a repeatable one, or one that undoes another.

    `idempotent` is True if a repeated call with the same arguments changes nothing, or the name of the idempotency key
    among its arguments. An effect that `may_remain` need not be undone by a run that gives up. A result that matches
    the pattern `failed` means that the tool failed.
    """

    side_effect: bool = False
    read_only: bool = False
    idempotent: bool | str = False
    undoes: str | None = None
    may_remain: bool = False
    failed: str | None = None

    @property
    def has_effect(self) -> bool:
        """Whether the tool is declared to change something."""
        return self.side_effect or bool(self.idempotent) or self.undoes is not None or self.may_remain

    def check(self, tool: str) -> None:
        """Raise InputError if the declarations of that tool contradict each other."""
        if self.read_only and (self.side_effect or self.undoes is not None):
            other = "side_effect" if self.side_effect else f"undoes={self.undoes!r}"
            reason = f"read_only contradicts {other}: a tool that only reads changes nothing"
            raise InputError(reason, source=tool, place="read_only", hint="use only one of them")
        if self.undoes == tool:
            raise InputError("it cannot undo itself", source=tool, place="undoes", hint="name the other tool")
        if self.failed is not None:
            compile_pattern(self.failed, source=tool, place="failed")


UNDECLARED = ToolDeclaration()


def declared_tools(settings: Mapping[str, ToolSettings]) -> dict[str, ToolDeclaration]:
    """Return the declarations in `[tools.NAME]` of a config, by tool.

    Raises:
        InputError: two declarations of a tool contradict each other.
    """
    declared = {
        name: ToolDeclaration(
            side_effect=tool.effect,
            read_only=tool.read_only,
            idempotent=tool.idempotent,
            undoes=tool.undoes,
            may_remain=tool.may_remain,
            failed=tool.failed,
        )
        for name, tool in settings.items()
    }
    for name, declaration in declared.items():
        declaration.check(name)
    return declared


_SHOWN_CHARS = 40


def _shown(value: Any, others: Iterable[Any]) -> str:
    """Return a value as JSON, cut to 40 characters: the first ones, or those that differ from the others."""
    text = msgspec.json.encode(value).decode()
    places = [common_start(text, msgspec.json.encode(other).decode()) for other in others if other != value]
    start = min(places, default=0) - _SHOWN_CHARS // 2
    if len(text) <= _SHOWN_CHARS or start <= 0:
        return shorten(text, _SHOWN_CHARS)
    return f"…{shorten(text[start:], _SHOWN_CHARS - 1)}"
