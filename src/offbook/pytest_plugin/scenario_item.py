"""Scenarios as items that pytest runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from offbook.clock import run
from offbook.config import open_cast, plan_of, rules_of
from offbook.config.recordings import slug
from offbook.errors import OffbookError
from offbook.providers.provider import Provider
from offbook.pytest_plugin.answers import Answers
from offbook.pytest_plugin.answers_choice import answers_of
from offbook.pytest_plugin.late_provider import LateProvider
from offbook.pytest_plugin.marker import Marker
from offbook.pytest_plugin.outcome import PLAN, TALLY, has_passed
from offbook.pytest_plugin.plan import RecordingPlan, planned
from offbook.pytest_plugin.recording_place import FOLDER
from offbook.pytest_plugin.scenario_text import conversation_text, failure_text
from offbook.pytest_plugin.unused_entries import fail_if_unused
from offbook.report.place import place_of
from offbook.scenarios import Scenario, ScenarioResult, ScenarioRunner
from offbook.session import Live, Replay

if TYPE_CHECKING:
    from offbook.pytest_plugin.scenario_file import ScenarioFile


class ScenarioItem(pytest.Item):
    """A scenario, held with the agent of the nearest config: recorded live, or replayed in virtual time.

    Its recording is in the folder `recordings` beside its file, under the name that `offbook test --record` gives.
    """

    def __init__(self, *, scenario: Scenario, **given: Any) -> None:
        super().__init__(**given)
        self.scenario = scenario
        self._answers: Answers | None = None
        recording = self.path.parent / FOLDER / f"{slug(scenario.name)}.json"
        self.stash[PLAN] = planned(self, Marker(), recording)

    def runtest(self) -> None:
        plan = self.stash[PLAN]
        result = run(self._held(plan), virtual_time=plan.record is None)
        self.add_report_section("call", "conversation", conversation_text(result))
        if not result.passed:
            pytest.fail(failure_text(result), pytrace=False)
        if plan.is_unused_error and self._answers is not None:
            fail_if_unused(self._answers.unused(), plan.location)

    def teardown(self) -> None:
        if self._answers is not None:
            self.stash[TALLY] = self._answers.close(passed=has_passed(self))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, place_of(self.scenario.source).line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        error = excinfo.value
        return str(error) if isinstance(error, OffbookError) else super().repr_failure(excinfo, *style)

    async def _held(self, plan: RecordingPlan) -> ScenarioResult:
        config = cast("ScenarioFile", self.parent).project
        mode = Replay(f"{Path(plan.location).parent}/") if plan.record is None else Live()
        wanted = plan_of(config, [self.scenario])
        async with open_cast(config, wanted, mode) as opened:
            answers = self._answers = answers_of(plan, lambda: cast("Provider", opened.cast.provider))
            provider = LateProvider(lambda: answers.provider, name="offbook")
            runner = ScenarioRunner(replace(opened.cast, provider=provider), rules_of(config))
            held = await runner.run([self.scenario], agents=wanted.agents, repeat=config.run.repeat)
            return held.scenarios[0]
