"""Files of scenarios, collected by pytest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from offbook.config import Config, collect_scenarios, find_config, modules_of
from offbook.errors import InputError
from offbook.pytest_plugin.scenario_item import ScenarioItem


class ScenarioFile(pytest.File):
    """A file like `sim_booking.py`, with an item for each scenario that it declares.

    `project` is the config nearest to it; modules beside it and beside that can be imported while scenarios run.
    """

    project: Config

    def collect(self) -> Iterator[ScenarioItem]:
        try:
            self.project = find_config(self.path.parent)
            with modules_of(self._folders()):
                scenarios = collect_scenarios([self.path])
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for scenario in scenarios:
            yield ScenarioItem.from_parent(self, name=scenario.name, scenario=scenario)

    def setup(self) -> None:
        self._opened = ExitStack()
        self._opened.enter_context(modules_of(self._folders()))

    def teardown(self) -> None:
        self._opened.close()

    def _folders(self) -> list[Path]:
        return [self.project.folder, self.path.parent]
