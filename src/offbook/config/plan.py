"""Which scenarios are run with which agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.config.schema import Config
from offbook.errors import InputError
from offbook.scenarios.scenario import Scenario
from offbook.wording import did_you_mean


class Plan(Struct, frozen=True):
    """Scenarios, and the agents that are asked for in the place of those that the scenarios name."""

    scenarios: tuple[Scenario, ...]
    asked_agents: tuple[str, ...]
    pairs: tuple[tuple[Scenario, str], ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that take part, in order."""
        return tuple(dict.fromkeys(agent for _, agent in self.pairs))


def plan_of(config: Config, scenarios: Sequence[Scenario], *, agents: Iterable[str] = ()) -> Plan:
    """Every scenario with each of `agents`, or with the one that it names, or with the first of the config.

    Raises:
        InputError: there is no such agent, or none at all, or nobody to play the user of a scenario.
    """
    asked = tuple(dict.fromkeys(agents))
    for name in asked:
        _check_agent(config, name, source="--agent", place="")
    pairs = []
    for scenario in scenarios:
        place = f"scenario {scenario.name!r}"
        if not scenario.is_scripted and config.user is None:
            hint = f"write [user] with provider and model into {config.source}, or give the scenario turns"
            raise InputError("there is no model to play its user", source=scenario.source, place=place, hint=hint)
        for name in asked or (scenario.agent or next(iter(config.agents), ""),):
            _check_agent(config, name, source=scenario.source, place=place)
            pairs.append((scenario, name))
    return Plan(tuple(scenarios), asked, tuple(pairs))


def _check_agent(config: Config, name: str, *, source: str, place: str) -> None:
    if not config.agents:
        hint = '[agent]\n    handler = "my_agent:handle"'
        raise InputError("no agent is declared", source=config.source, hint=hint)
    if name not in config.agents:
        hint = did_you_mean(name, config.agents, kind="agents")
        raise InputError(f"there is no agent {name!r}", source=source, place=place, hint=hint)
