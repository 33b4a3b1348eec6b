"""Scenario files collected by pytest, with an item for each scenario."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from offbook.clock import run
from offbook.config import (
    Config,
    collect_scenarios,
    find_config,
    import_from,
    mcp_configs,
    open_participants,
    plan_run,
    run_rules,
)
from offbook.config.recordings import slug
from offbook.errors import InputError, OffbookError
from offbook.pipeline import Live, Replay
from offbook.providers.provider import Provider
from offbook.pytest_plugin.backend import OnDemandProvider, RecordingBackend, backend_for, record_again_hint
from offbook.pytest_plugin.markers import OffbookMarker, RecordingPlan, recording_plan
from offbook.pytest_plugin.recordings import FOLDER, fail_if_unused
from offbook.pytest_plugin.summary import PLAN, USAGE, has_passed
from offbook.recording.redact.rules import add_rules_of
from offbook.report.reporter import one_line
from offbook.report.scenarios.figures import failure_notes, parse_location
from offbook.scenarios import ConversationResult, Scenario, ScenarioResult, ScenarioRunner

MAX_LINE_CHARS = 200
MAX_CONVERSATIONS = 3


def failure_text(result: ScenarioResult, *, again: str) -> str:
    """Describe why a scenario did not pass: each reason with its details, and the hint `again` if one is a mismatch."""
    notes = list(failure_notes(result))
    lines = [line for note in notes for line in (note.headline, *(f"  {more}" for more in note.detail))]
    if any(note.failure.kind == "mismatch" for note in notes):
        lines.append(f"  hint: {again}")
    return "\n".join(lines)


def conversation_text(result: ScenarioResult) -> str:
    """Return the first conversations of a scenario as text, failed ones first."""
    order = sorted(result.conversations, key=lambda each: each.passed)
    return "\n".join(line for each in order[:MAX_CONVERSATIONS] for line in _conversation_lines(each))


def _conversation_lines(conversation: ConversationResult) -> Iterator[str]:
    yield f"conversation {conversation.index + 1} with {conversation.agent}: {conversation.ending}"
    for turn in conversation.turns:
        yield f"  user:  {one_line(turn.user, MAX_LINE_CHARS)}"
        for call in turn.calls:
            yield f"  tool:  {one_line(f'{call.tool}({call.args})', MAX_LINE_CHARS)}"
        yield f"  agent: {one_line(turn.agent, MAX_LINE_CHARS)}"


class ScenarioItem(pytest.Item):
    """A scenario with the nearest config's agent, recorded live, or replayed in virtual time.

    Its recording is in the folder `recordings` next to its file, with the name that `offbook test --record` uses.
    """

    def __init__(self, *, scenario: Scenario, **given: Any) -> None:
        super().__init__(**given)
        self.scenario = scenario
        self._backend: RecordingBackend | None = None
        recording = self.path.parent / FOLDER / f"{slug(scenario.name)}.json"
        self.stash[PLAN] = recording_plan(self, OffbookMarker(), recording)

    def runtest(self) -> None:
        plan = self.stash[PLAN]
        has_mcp = bool(mcp_configs(self._project, plan_run(self._project, [self.scenario])))
        if has_mcp and plan.record is not None:
            hint = f"offbook test --record {FOLDER}/ records them; pytest replays"
            raise InputError("MCP servers of scenarios are not recorded by pytest", source=self.name, hint=hint)
        result = run(self._hold(plan), virtual_time=plan.record is None and not has_mcp)
        self.add_report_section("call", "conversation", conversation_text(result))
        if not result.passed:
            pytest.fail(failure_text(result, again=record_again_hint(self.nodeid)), pytrace=False)
        if plan.is_unused_error and self._backend is not None:
            fail_if_unused(self._backend.unused(), plan.location)

    def teardown(self) -> None:
        if self._backend is not None:
            self.stash[USAGE] = self._backend.close(passed=has_passed(self))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, parse_location(self.scenario.source).line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        error = excinfo.value
        return str(error) if isinstance(error, OffbookError) else super().repr_failure(excinfo, *style)

    @property
    def _project(self) -> Config:
        return cast("ScenarioFile", self.parent).project

    async def _hold(self, plan: RecordingPlan) -> ScenarioResult:
        config = self._project
        mode = Replay(f"{Path(plan.location).parent}/") if plan.record is None else Live()
        wanted = plan_run(config, [self.scenario])
        async with open_participants(config, wanted, mode) as opened:
            backend = self._backend = backend_for(plan, lambda: cast("Provider", opened.participants.provider))
            provider = OnDemandProvider(lambda: backend.provider, name="offbook")
            runner = ScenarioRunner(replace(opened.participants, provider=provider), run_rules(config))
            result = await runner.run([self.scenario], agents=wanted.agents, repeat=config.run.repeat)
            return result.scenarios[0]


class ScenarioFile(pytest.File):
    """A file like `sim_booking.py`, with an item for each declared scenario.

    `project` is the nearest config. Scenarios can import modules next to either of them.
    """

    project: Config

    def collect(self) -> Iterator[ScenarioItem]:
        try:
            self.project = find_config(self.path.parent)
            add_rules_of(self.project.source)
            with import_from(self._folders()):
                scenarios = collect_scenarios([self.path])
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for scenario in scenarios:
            yield ScenarioItem.from_parent(self, name=scenario.name, scenario=scenario)

    def setup(self) -> None:
        self._imports = ExitStack()
        self._imports.enter_context(import_from(self._folders()))

    def teardown(self) -> None:
        self._imports.close()

    def _folders(self) -> list[Path]:
        return [self.project.folder, self.path.parent]
