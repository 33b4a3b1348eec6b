"""Agents that are handlers of a scenario, with a mocked tool and an assertion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offbook.explore.explorer import Subject
from offbook.explore.settings import ExploreSettings
from offbook.subjects.specs import ScenarioSpec, open_subject
from tests.explore.zoo.planted import Planted, Twin, write_recording

SIM = Path(__file__).with_name("sim_refunds.py")


class PlantedScenario(Planted, frozen=True, kw_only=True):
    """A defect of a handler, by the name of that."""

    agent: str
    scenario: str = "refunds"
    errors: Sequence[Any] = ("GaveUpError",)

    @property
    def kind(self) -> str:
        return "scenario"

    @property
    def sound_agent(self) -> object:
        return self.agent, self.faults, self.declares, self.errors

    @contextmanager
    def open(self, twin: Twin, folder: Path) -> Iterator[Subject]:
        name = f"{self.agent}_{twin}"
        config = folder / "offbook.toml"
        config.write_text(f'[agent]\nname = "{name}"\nhandler = "tests.explore.zoo.scenarios.agents:{name}"\n')
        steps = {"plan": "yes", "say": "It is paid."}
        answers = {f"{self.scenario}/{name}/1/agent.{step}": [{"content": text}] for step, text in steps.items()}
        spec = ScenarioSpec(
            recording=str(write_recording(folder, answers)),
            file=str(SIM),
            scenario=self.scenario,
            agent=name,
            config=str(config),
        )
        with open_subject(spec, ExploreSettings(declared=tuple(self.errors), **self.subject_options)) as subject:
            yield subject


PLANTED = [
    PlantedScenario(
        name="says done",
        agent="says_done",
        verdict="missing effect",
        at="tool=refund call=1: tool_error",
        evidence="refund",
        also=["undetected (broken data)", "undetected (went on without)", "undetected (failed check)"],
    ),
    PlantedScenario(
        name="refunds until it hears of it",
        agent="refunds_until_it_hears_of_it",
        verdict="repeated effect",
        at="tool=refund call=1: tool_lost",
        evidence="refund(order=42",
    ),
    PlantedScenario(
        name="refunds less",
        agent="refunds_less",
        verdict="wrong effect",
        at="tool=refund call=1: tool_lost",
        evidence="amount=15",
    ),
    PlantedScenario(
        name="writes None",
        agent="writes_none",
        verdict="undetected (broken data)",
        at="step=agent.say call=1 attempt=1: empty_response",
        evidence="None",
    ),
    PlantedScenario(
        name="says the error",
        agent="says_the_error",
        verdict="undetected (broken data)",
        at="step=agent.say call=1: http_error 500",
        also=["undetected (went on without)"],
    ),
    PlantedScenario(
        name="never gives up",
        agent="never_gives_up",
        verdict="hung",
        at="step=agent.plan call=1: http_error 500",
        also=["bad retry (in vain)", "bad retry (storm)"],
    ),
    PlantedScenario(
        name="reads a result blindly",
        agent="reads_a_result_blindly",
        verdict="crashed",
        at="tool=refund call=1: tool_error",
        evidence="KeyError",
        also=["undetected (broken data)"],
    ),
    PlantedScenario(
        name="claims a refund in French",
        agent="hands_over_in_french",
        faults="http_error 500,tool_error",
        verdict="missing effect",
        at="tool=refund call=1: tool_error",
        evidence="refund(order=42",
        also=["undetected (went on without)", "undetected (failed check)"],
        twin_is=["different outcome"],
    ),
    PlantedScenario(
        name="says that nothing was charged",
        agent="says_that_nothing_was_charged",
        scenario="sales",
        faults="http_error 500,tool_error",
        declares={"gave_up": "Sorry"},
        verdict="left behind",
        at="tool=ship call=1: tool_error",
        evidence="charge(order=7)",
        twin_is=["failed partway"],
    ),
    PlantedScenario(
        name="says in Japanese that it is sent",
        agent="says_in_japanese_that_it_is_sent",
        scenario="sales",
        faults="http_error 500,tool_error",
        verdict="missing effect",
        at="tool=ship call=1: tool_error",
        evidence="ship(order=7) did not run",
        also=["undetected (went on without)"],
        twin_is=["different outcome"],
    ),
]
