"""Declares scenarios: tests of an agent in conversation with a simulated or scripted user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

from msgspec import Struct

from offbook.errors import InputError
from offbook.scenarios.mocks import Mocks, UnmockedPolicy, mocks_by_tool
from offbook.scenarios.real_tool import GivenSchema
from offbook.scenarios.result import ConversationEnding
from offbook.scenarios.trajectory.trajectory import Trajectory, parse_assertions
from offbook.text import did_you_mean, shown_path, suggestion

Assertion: TypeAlias = Trajectory | Mapping[str, Any]
Assertions: TypeAlias = Assertion | Iterable[Assertion]
Knowledge: TypeAlias = str | Mapping[str, str]


class ScriptedTurn(Struct, frozen=True):
    """A message of a scripted user, with assertions about the tool calls that the agent makes before it answers."""

    says: str
    assertions: tuple[Trajectory, ...] = ()


class Scenario(Struct, frozen=True):
    """A test of an agent. `source` is where it is declared, as `file:line`.

    With `turns` the user follows a script; otherwise a model plays the user from `profile`, `goal` and `knowledge`.
    The config decides where a field is None.
    """

    name: str
    profile: str = ""
    goal: str = ""
    knowledge: tuple[str, ...] = ()
    mocks: Mapping[str, object] = {}
    schemas: Mapping[str, GivenSchema] = {}
    side_effects: tuple[str, ...] = ()
    assertions: tuple[Trajectory, ...] = ()
    turns: tuple[ScriptedTurn, ...] = ()
    agent: str | None = None
    conversations: int | None = None
    max_turns: int | None = None
    unmocked: UnmockedPolicy | None = None
    thresholds: Mapping[str, float] = {}
    metrics: tuple[str, ...] | None = None
    ends: tuple[ConversationEnding, ...] = ()
    source: str = ""

    @property
    def is_scripted(self) -> bool:
        return bool(self.turns)


def turn(says: str, *, assertions: Assertions = ()) -> ScriptedTurn:
    """Declare a turn of a scripted user, with assertions about the agent's tool calls in it.

    Raises:
        InputError: `says` is not a str, or an assertion is invalid.
    """
    if not isinstance(says, str):
        raise InputError(f"expected what the user says, got {says!r}", source="turn", hint='turn("Where is order 42?")')
    return ScriptedTurn(says, parse_assertions(assertions))


class Collector:
    """Holds the scenarios that are declared while it is active."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []


_collectors: list[Collector] = []


def collect_declared(load: Callable[[], object]) -> list[Scenario]:
    """Return the scenarios that are declared while `load` runs, in order."""
    collector = Collector()
    _collectors.append(collector)
    try:
        load()
    finally:
        _collectors.pop()
    return collector.scenarios


def scenario(  # noqa: PLR0913 - each is a part of a scenario that users write down
    name: str,
    *,
    profile: str = "",
    goal: str = "",
    knowledge: Knowledge | Iterable[Knowledge] = (),
    mocks: Mapping[str, object] | None = None,
    schemas: Mapping[str, GivenSchema] | None = None,
    side_effects: str | Iterable[str] = (),
    assertions: Assertions = (),
    turns: ScriptedTurn | str | Iterable[ScriptedTurn | str] = (),
    agent: str | None = None,
    conversations: int | None = None,
    max_turns: int | None = None,
    unmocked: UnmockedPolicy | None = None,
    thresholds: Mapping[str, float] | None = None,
    metrics: str | Iterable[str] | None = None,
    ends: ConversationEnding | Iterable[ConversationEnding] = (),
) -> Scenario:
    """Declare a scenario. `offbook test` runs every scenario of the files it collects.

    Args:
        profile, goal, knowledge: who the simulated user is, what they want, and what they know: facts, each as a str
            or as `{"content": …}`.
        mocks: the answers to the agent's tool calls, as for Mocks: by tool, or as `{"tools": {…}}`.
        schemas: the real tools, as for Mocks; mocks are checked against them.
        side_effects: tools that must not run twice, in addition to those whose `schemas` say so.
        assertions: the expected tool calls of a whole conversation: `Trajectory(…)`, or `{"toolCalls": {…}}`.
        turns: the messages of a scripted user, instead of a simulated one: `turn(…)` or str, or a list of them.
        agent: the name of the agent to test; by default the first one of the config.
        conversations: the number of conversations; each must pass.
        max_turns: the limit of turns in a conversation.
        unmocked: how calls of tools without a mock are handled: `error` or `passthrough`.
        thresholds: the minimum for the mean of a metric, by metric.
        metrics: the metrics of the config's judge to use; by default all, and none for an empty list.
        ends: how the conversation must end, such as `goal_reached`; by default any ending passes.

    Raises:
        InputError: the declaration is invalid; the error names the scenario.
    """
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    source = "" if caller is None else f"{shown_path(Path(caller.f_code.co_filename))}:{caller.f_lineno}"
    try:
        declared = Scenario(
            name=name,
            profile=profile,
            goal=goal,
            knowledge=tuple(map(_fact, _items(knowledge, "knowledge"))),
            mocks=dict(mocks_by_tool(mocks or {})),
            schemas=_mapping(schemas, "schemas"),
            side_effects=tuple(_items(side_effects, "side_effects")),
            assertions=parse_assertions(assertions),
            turns=tuple(map(_scripted_turn, _items(turns, "turns"))),
            agent=agent,
            conversations=conversations,
            max_turns=max_turns,
            unmocked=unmocked,
            thresholds=_mapping(thresholds, "thresholds"),
            metrics=None if metrics is None else tuple(_items(metrics, "metrics")),
            ends=tuple(_items(ends, "ends")),
            source=source,
        )
        _check_scenario(declared)
    except InputError as error:
        place = ": ".join(part for part in (f"scenario {name!r}", _place_of(error)) if part)
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from None
    for collector in _collectors[-1:]:
        collector.scenarios.append(declared)
    return declared


def _place_of(error: InputError) -> str:
    joint = "" if error.place.startswith("[") else "."
    return joint.join(part for part in (error.source, error.place) if part)


def _items(given: Any, place: str) -> list[Any]:
    """Return several items as a list, and a single one as a list of itself."""
    if isinstance(given, str | Mapping | ScriptedTurn):
        return [given]
    if not isinstance(given, Iterable):
        raise InputError(f"expected a list, got {given!r}", source=place)
    return list(given)


def _mapping(given: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"expected a dict, got {given!r}", source=place)
    return dict(given or {})


def _fact(given: object) -> str:
    if isinstance(given, Mapping) and given.keys() == {"content"}:
        given = given["content"]
    if not isinstance(given, str):
        hint = 'knowledge=["Your order is 42."]'
        raise InputError(f"expected a fact as a str, got {given!r}", source="knowledge", hint=hint)
    return given


def _scripted_turn(given: object) -> ScriptedTurn:
    if isinstance(given, ScriptedTurn):
        return given
    if not isinstance(given, str):
        raise InputError(f"expected turn(…) or a str, got {given!r}", source="turns", hint='turns=["Where is 42?"]')
    return ScriptedTurn(given)


def _check_scenario(declared: Scenario) -> None:
    if not isinstance(declared.name, str) or not declared.name.strip():
        raise InputError("the scenario has no name")
    for name in ("profile", "goal", "agent"):
        value = getattr(declared, name)
        if value is not None and not isinstance(value, str):
            raise InputError(f"expected a str, got {value!r}", source=name)
    if not declared.turns and not declared.goal:
        raise InputError("the scenario has neither a goal for a simulated user nor turns for a scripted one")
    _check_numbers(declared)
    known: tuple[str, ...] = get_args(ConversationEnding)
    for ending in declared.ends:
        if ending not in known:
            raise InputError(f"unknown ending {ending!r}", hint=suggestion(ending, known, kind="endings"))
    Mocks(declared.mocks, schemas=declared.schemas, unmocked=declared.unmocked or "error")
    unknown = [tool for tool in declared.side_effects if tool not in {*declared.mocks, *declared.schemas}]
    if unknown and declared.unmocked != "passthrough":
        hint = did_you_mean(unknown[0], {*declared.mocks, *declared.schemas}, kind="mocks")
        raise InputError(f"side_effects: {unknown[0]!r} has no mock", hint=hint)


def _check_numbers(declared: Scenario) -> None:
    for name in ("conversations", "max_turns"):
        value = getattr(declared, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be at least 1, not {value!r}")
    for metric, least in declared.thresholds.items():
        if isinstance(least, bool) or not isinstance(least, int | float):
            raise InputError(f"expected a number, got {least!r}", source="thresholds", place=metric)
