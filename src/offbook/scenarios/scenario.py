"""Declares scenarios: tests of an agent in conversation with a simulated or scripted user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, get_args

from msgspec import Struct

from offbook.errors import InputError
from offbook.scenarios.mocks import Mocks
from offbook.scenarios.mocks.mocks import UnmockedPolicy
from offbook.scenarios.mocks.real_tool import GivenSchema
from offbook.scenarios.result import ConversationEnding
from offbook.scenarios.trajectory.trajectory import Trajectory

Assertions: TypeAlias = Trajectory | Iterable[Trajectory]


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
    """Declare a turn of a scripted user, with assertions about the agent's tool calls in it."""
    return ScriptedTurn(says, _as_tuple(assertions))


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
    knowledge: Iterable[str] = (),
    mocks: Mapping[str, object] | None = None,
    schemas: Mapping[str, GivenSchema] | None = None,
    side_effects: Iterable[str] = (),
    assertions: Assertions = (),
    turns: Iterable[ScriptedTurn | str] = (),
    agent: str | None = None,
    conversations: int | None = None,
    max_turns: int | None = None,
    unmocked: UnmockedPolicy | None = None,
    thresholds: Mapping[str, float] | None = None,
    metrics: Iterable[str] | None = None,
    ends: ConversationEnding | Iterable[ConversationEnding] = (),
) -> Scenario:
    """Declare a scenario. `offbook test` runs every scenario of the files it collects.

    Args:
        profile, goal, knowledge: who the simulated user is, what they want, and what they know.
        mocks: the answers to the agent's tool calls, as for Mocks.
        schemas: the real tools, as for Mocks; mocks are checked against them.
        side_effects: tools that must not run twice, in addition to those whose `schemas` say so.
        assertions: the expected tool calls of a whole conversation.
        turns: the messages of a scripted user, instead of a simulated one: `turn(…)` or str.
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
    scripted = tuple(turn(each) if isinstance(each, str) else each for each in turns)
    declared = Scenario(
        name=name,
        profile=profile,
        goal=goal,
        knowledge=tuple(knowledge),
        mocks=dict(mocks or {}),
        schemas=dict(schemas or {}),
        side_effects=(side_effects,) if isinstance(side_effects, str) else tuple(side_effects),
        assertions=_as_tuple(assertions),
        turns=scripted,
        agent=agent,
        conversations=conversations,
        max_turns=max_turns,
        unmocked=unmocked,
        thresholds=dict(thresholds or {}),
        metrics=None if metrics is None else tuple(metrics),
        ends=(ends,) if isinstance(ends, str) else tuple(ends),
        source=_caller_location(inspect.currentframe()),
    )
    _check_scenario(declared)
    for collector in _collectors[-1:]:
        collector.scenarios.append(declared)
    return declared


def _as_tuple(assertions: Assertions) -> tuple[Trajectory, ...]:
    return (assertions,) if isinstance(assertions, Trajectory) else tuple(assertions)


def _caller_location(frame: object) -> str:
    """Return the caller of a frame as `file:line`, relative to the working directory if the file is below it."""
    caller = getattr(frame, "f_back", None)
    if caller is None:
        return ""
    file = Path(caller.f_code.co_filename)
    here = Path.cwd()
    return f"{file.relative_to(here) if file.is_relative_to(here) else file}:{caller.f_lineno}"


def _check_scenario(declared: Scenario) -> None:
    problem = _find_problem(declared)
    if problem is not None:
        raise InputError(problem, source=declared.source, place=f"scenario {declared.name!r}")
    try:
        Mocks(declared.mocks, schemas=declared.schemas)
    except InputError as error:
        place = f"scenario {declared.name!r}: {error.source}.{error.place}"
        raise InputError(error.reason, source=declared.source, place=place, hint=error.hint) from None


def _find_problem(declared: Scenario) -> str | None:
    if not declared.name.strip():
        return "the scenario has no name"
    if not declared.turns and not declared.goal:
        return "the scenario has neither a goal for a simulated user nor turns for a scripted one"
    for ending in declared.ends:
        if ending not in get_args(ConversationEnding):
            return f"unknown ending {ending!r}; one of: {', '.join(get_args(ConversationEnding))}"
    for name in ("conversations", "max_turns"):
        value = getattr(declared, name)
        if value is not None and not value >= 1:
            return f"{name} must be at least 1, not {value!r}"
    unknown = [tool for tool in declared.side_effects if tool not in {*declared.mocks, *declared.schemas}]
    if unknown and declared.unmocked != "passthrough":
        return f"side_effects: {unknown[0]!r} has no mock"
    return None
