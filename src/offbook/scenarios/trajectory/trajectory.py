"""Declares the expected tool calls of an agent, their order, and the forbidden ones; also from a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import ArgumentDifference, arguments_text, differences, short_repr, truncate
from offbook.text import did_you_mean

ArgumentMatch = Literal["ignore", "partial", "exact"]


class Expectation(Struct, frozen=True):
    """An expected tool call; see `expected` for the fields."""

    tool: str
    args: Mapping[str, object] = {}
    match: ArgumentMatch = "ignore"
    at_least: int | None = None
    at_most: int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the number of calls is specified."""
        return self.at_least is not None or self.at_most is not None

    def differences(self, call: ToolCall) -> list[ArgumentDifference]:
        """Return the differences of a call's arguments; empty if it matches. The call must be of this tool."""
        if self.match == "ignore":
            return []
        if call.raw_arguments is not None:
            return [ArgumentDifference("arguments", f"expected a JSON object, got {short_repr(call.raw_arguments)}")]
        return list(differences(self.args, call.args, is_partial=self.match == "partial"))

    def fits(self, call: ToolCall) -> bool:
        """Return whether a call matches."""
        return self.tool == call.tool and not self.differences(call)

    def text(self, limit: int = 60) -> str:
        """Return one line such as `search(text='tea', …)`; `…` stands for any other arguments."""
        further = [] if self.match == "exact" else ["…"]
        arguments = ", ".join([arguments_text(self.args), *further] if self.args else further)
        return f"{truncate(f'{self.tool}({arguments})', limit - len(self._count()))}{self._count()}"

    def _count(self) -> str:
        if not self.is_counted:
            return ""
        if self.at_least == self.at_most:
            return f" exactly {self.at_most}"
        if self.at_most is None:
            return f" at least {self.at_least}"
        return f" {self.at_least} to {self.at_most}" if self.at_least else f" at most {self.at_most}"

    def __str__(self) -> str:
        return self.text()


def expected(
    tool: str,
    *,
    args: Mapping[str, object] | None = None,
    match: ArgumentMatch | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
) -> Expectation:
    """Declare an expected call of `tool`.

    Args:
        tool: the name of the tool.
        args: the arguments: values or matchers, at any depth.
        match: `ignore` accepts any arguments, and is the default without `args`. `partial` accepts additional
            arguments, also in nested mappings, and is the default with `args`. `exact` accepts no others.
        at_least: the minimum number of such calls.
        at_most: the maximum number; without `at_least`, no call is required.
        exactly: minimum and maximum in one.

    Raises:
        InputError: an argument has the wrong type, or contradicts another.
    """
    if not isinstance(tool, str) or not tool:
        raise InputError(f"expected the name of a tool, got {tool!r}", source="expected", place="tool")
    how = _argument_match(args, match)
    least, most = _bounds(at_least, at_most, exactly)
    return Expectation(tool, dict(args or {}), match=how, at_least=least, at_most=most)


def _argument_match(args: Mapping[str, object] | None, match: ArgumentMatch | None) -> ArgumentMatch:
    if args is not None and not isinstance(args, Mapping):
        raise InputError(f"expected a dict, got {args!r}", source="expected", place="args", hint='args={"id": 7}')
    if match is None:
        return "ignore" if args is None else "partial"
    if match not in get_args(ArgumentMatch):
        hint = did_you_mean(str(match), get_args(ArgumentMatch), kind="one of")
        raise InputError(f"unknown value {match!r}", source="expected", place="match", hint=hint)
    if match == "ignore" and args is not None:
        raise InputError(
            "args have no effect with match='ignore'", source="expected", place="match", hint="remove one of them"
        )
    if match != "ignore" and args is None:
        hint = "add args; args={} with match='exact' is a call without arguments"
        raise InputError(f"match={match!r} requires args", source="expected", place="match", hint=hint)
    return match


def _bounds(at_least: int | None, at_most: int | None, exactly: int | None) -> tuple[int | None, int | None]:
    for name, count in (("at_least", at_least), ("at_most", at_most), ("exactly", exactly)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise InputError(f"expected an int of at least 0, got {count!r}", source="expected", place=name)
    if exactly is not None:
        if at_least is not None or at_most is not None:
            hint = "remove at_least and at_most"
            raise InputError("exactly excludes at_least and at_most", source="expected", place="exactly", hint=hint)
        return exactly, exactly
    if at_least is not None and at_most is not None and at_least > at_most:
        raise InputError(f"at_least={at_least} is more than at_most={at_most}", source="expected", place="at_least")
    return at_least, at_most


TrajectoryMode = Literal["strict", "unordered", "in_order", "contains", "within"]
ExpectedCall: TypeAlias = Expectation | str
CallOrder: TypeAlias = tuple[Expectation, Expectation]


class Trajectory:
    """The expected tool calls, their order, and the forbidden calls. Immutable.

    Args:
        mode: `strict`: exactly these calls, in this order. `unordered`: exactly these, in any order.
            `in_order`: all of these, in this order, with any others in between. `contains`: all of these, in
            any order, and any others. `within`: only these, each any number of times, including none.
        expected: the calls, each as `expected(…)` or as the name of a tool. Each stands for one call
            (`within`: for any number), unless it specifies the number.
        forbidden: calls that must not be made.
        before: pairs (first, then): `then` must not be called before the first call of `first`. Neither call
            is required.

    Raises:
        InputError: an argument has the wrong type, or contradicts another.
    """

    def __init__(
        self,
        mode: TrajectoryMode,
        expected: Iterable[ExpectedCall] = (),
        *,
        forbidden: Iterable[ExpectedCall] = (),
        before: Iterable[tuple[ExpectedCall, ExpectedCall]] = (),
    ) -> None:
        if mode not in get_args(TrajectoryMode):
            hint = did_you_mean(str(mode), get_args(TrajectoryMode), kind="modes")
            raise InputError(f"unknown mode {mode!r}", source="Trajectory", place="mode", hint=hint)
        self.mode: TrajectoryMode = mode
        self.expected = tuple(_expectations(expected, "expected"))
        self.forbidden = tuple(
            _uncounted(each, f"forbidden[{index}]") for index, each in enumerate(_expectations(forbidden, "forbidden"))
        )
        self.before = tuple(_order(pair, f"before[{index}]") for index, pair in enumerate(_items(before, "before")))

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the calls matters."""
        return self.mode in ("strict", "in_order")

    @property
    def allows_others(self) -> bool:
        """Whether other calls may be made."""
        return self.mode in ("in_order", "contains")

    def __repr__(self) -> str:
        calls = ", ".join(map(str, self.expected))
        return f"Trajectory({self.mode!r}, [{calls}])"


def _items(given: Iterable[object], place: str) -> list[object]:
    if isinstance(given, str | Expectation) or not isinstance(given, Iterable):
        raise InputError(f"expected a list, got {given!r}", source="Trajectory", place=place)
    return list(given)


def _expectations(given: Iterable[object], place: str) -> list[Expectation]:
    return [_expectation(each, f"{place}[{index}]") for index, each in enumerate(_items(given, place))]


def _expectation(given: object, place: str) -> Expectation:
    if isinstance(given, Expectation):
        return given
    if not isinstance(given, str) or not given:
        hint = 'expected("search", args={"text": "tea"}), or "search"'
        raise InputError(f"expected a tool call, got {given!r}", source="Trajectory", place=place, hint=hint)
    return expected(given)


def _uncounted(expectation: Expectation, place: str) -> Expectation:
    if expectation.is_counted:
        raise InputError(f"a count is not allowed here: {expectation}", source="Trajectory", place=place)
    return expectation


def _order(pair: object, place: str) -> CallOrder:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        hint = 'before=[("find_order", "refund")]'
        raise InputError(f"expected a pair of tool calls, got {pair!r}", source="Trajectory", place=place, hint=hint)
    first, then = (_uncounted(_expectation(each, place), place) for each in pair)
    if first == then:
        raise InputError(f"{first} cannot come before itself", source="Trajectory", place=place)
    return first, then


SOURCE = "assertions"
_TOOL_CALLS = {"tool_calls": "tool_calls"}
_TRAJECTORY = {"match_mode": "mode", "mode": "mode", "expected": "expected", "forbidden": "forbidden"}
_CALL = {
    "name": "tool",
    "tool": "tool",
    "args": "args",
    "arg_match_mode": "match",
    "match": "match",
    "at_least": "at_least",
    "at_most": "at_most",
    "exactly": "exactly",
}


def parse_assertions(given: object) -> tuple[Trajectory, ...]:
    """Return declared assertions: a Trajectory, a mapping, or several of them. Keys are in snake_case or camelCase.

    Raises:
        InputError: something is neither, or a key of a mapping is unknown.
    """
    if given is None:
        return ()
    if isinstance(given, Trajectory | Mapping):
        return (_trajectory(given, ""),)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _not_an_assertion(given, "")
    return tuple(_trajectory(each, f"[{index}]") for index, each in enumerate(given))


def _trajectory(given: object, place: str) -> Trajectory:
    if isinstance(given, Trajectory):
        return given
    if not isinstance(given, Mapping):
        raise _not_an_assertion(given, place)
    name = next(iter(given), "toolCalls")
    inner = _fields(given, _TOOL_CALLS, place).get("tool_calls")
    place = f"{place}.{name}".removeprefix(".")
    if not isinstance(inner, Mapping):
        raise InputError(f"expected a dict, got {inner!r}", source=SOURCE, place=place, hint=_EXAMPLE)
    fields = _fields(inner, _TRAJECTORY, place)
    if "mode" not in fields:
        raise InputError("matchMode is missing", source=SOURCE, place=place, hint=_EXAMPLE)
    wanted, forbidden = (_calls(fields.get(key, ()), f"{place}.{key}") for key in ("expected", "forbidden"))
    return _build(lambda: Trajectory(fields["mode"], wanted, forbidden=forbidden), place)


def _calls(given: object, place: str) -> list[Expectation | str]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a list, got {given!r}", source=SOURCE, place=place, hint=_EXAMPLE)
    return [_call(each, f"{place}[{index}]") for index, each in enumerate(given)]


def _call(given: object, place: str) -> Any:
    """Return an expectation. Trajectory itself reports values that are not mappings."""
    if not isinstance(given, Mapping):
        return given
    fields = _fields(given, _CALL, place)
    if fields.get("match") == "ignore":
        fields.pop("args", None)
    return _build(lambda: expected(fields.pop("tool", ""), **fields), place)


def _fields(given: Mapping[str, Any], known: Mapping[str, str], place: str) -> dict[str, Any]:
    """Return the fields under the names of our own arguments."""
    fields = {}
    for key, value in given.items():
        name = known.get(_snake_case(str(key)))
        if name is None:
            hint = did_you_mean(_snake_case(str(key)), known, kind="keys")
            raise InputError(f"unknown key {key!r}", source=SOURCE, place=place, hint=hint)
        fields[name] = value
    return fields


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


T = TypeVar("T")


def _build(make: Callable[[], T], place: str) -> T:
    """Return the result of `make`, and add the place to an InputError."""
    try:
        return make()
    except InputError as error:
        where = f"{place}.{error.place}" if error.place else place
        raise InputError(error.reason, source=SOURCE, place=where, hint=error.hint) from None


_EXAMPLE = '{"toolCalls": {"matchMode": "strict", "expected": [{"name": "search"}]}}'


def _not_an_assertion(given: object, place: str) -> InputError:
    hint = 'Trajectory("strict", ["search"])'
    return InputError(f"expected a Trajectory, got {given!r}", source=SOURCE, place=place, hint=hint)
