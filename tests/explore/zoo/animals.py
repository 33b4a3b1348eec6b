"""All agents of the zoo, and those of their sound twins that differ."""

from __future__ import annotations

from collections.abc import Iterable

from tests.explore.zoo import scenarios, workflows
from tests.explore.zoo.functions import answers, effects, frameworks, loops, orders, outcomes, readings, retries, worlds
from tests.explore.zoo.planted import Planted
from tests.explore.zoo.programs import bureau_rows as bureau
from tests.explore.zoo.programs import rows as programs

MODULES = (
    programs,
    bureau,
    effects,
    outcomes,
    worlds,
    answers,
    readings,
    retries,
    loops,
    orders,
    workflows,
    scenarios,
    frameworks,
)
"""Those that import frameworks come last: a large process takes longer to fork."""
ANIMALS = [planted for module in MODULES for planted in module.PLANTED]


def twins_of(animals: Iterable[Planted]) -> list[list[Planted]]:
    """Return the agents in groups whose sound twins are the same."""
    groups: list[list[Planted]] = []
    for each in animals:
        same = [group for group in groups if group[0].kind == each.kind and group[0].sound_agent == each.sound_agent]
        if same:
            same[0].append(each)
        else:
            groups.append([each])
    return groups
