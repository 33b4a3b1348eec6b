"""Agents that are programs, in Python, Node and bash. One file a language holds several; each is its first argument."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offbook.subjects.program import ProgramSubject
from offbook.subjects.specs import ExploreSettings
from tests.explore.zoo.functions.desk import asks_for
from tests.explore.zoo.planted import Planted, Twin, write_recording
from tests.wire.node.driver import SDKS, reason_to_skip

FOLDER = Path(__file__).parent
GAVE_UP = 3
SOUND_DEADLINE_S = 20.0
TEXT = "It is on its way, and will be there tomorrow."
REFUND = [asks_for(("refund", {"order_id": 42})), {"content": "Order 42 is refunded."}]
STREAM = [{"content": TEXT, "chunks": [[0.0, "It is on its way, "], [0.0, "and will be "], [0.0, "there tomorrow."]]}]
RUNTIMES = {"py": [sys.executable], "mjs": ["node"], "sh": ["bash"]}


class PlantedProgram(Planted, frozen=True, kw_only=True):
    """A defect of a program.

    `agent` is the name of the agent, and `sound` that of its twin if it is another one. `reports` is whether it reports
    its effects, which are otherwise inferred.
    """

    file: str
    agent: str
    sound: str = ""
    answers: Sequence[Mapping[str, Any]] = tuple(REFUND)
    reports: bool = False
    side_effects: Sequence[str] = ("refund",)
    deadline_s: float = 4.0

    @property
    def kind(self) -> str:
        return self.file

    @property
    def missing(self) -> str:
        if self.file == "sdk.mjs":
            return reason_to_skip()
        tools = {"py": [], "mjs": ["node"], "sh": ["bash", "curl", "jq"]}[self.file.rsplit(".", 1)[1]]
        return "".join(f"{tool} is not installed" for tool in tools if shutil.which(tool) is None)

    @property
    def sound_agent(self) -> object:
        return self.sound or self.agent, self.answers, self.reports, self.side_effects, self.undoes, self.invariants

    @property
    def is_slow(self) -> bool:
        return True

    def open(self, twin: Twin, folder: Path) -> ProgramSubject:
        runtime = RUNTIMES[self.file.rsplit(".", 1)[1]]
        agent = self.sound or self.agent if twin == "sound" else self.agent
        folders = [str(SDKS)] if self.file == "sdk.mjs" else []
        return ProgramSubject(
            [*runtime, str(FOLDER / self.file), agent, twin, *folders],
            replay=write_recording(folder, {"any": list(self.answers)}),
            env={"ZOO_REPORTS": "1"} if self.reports else {},
            settings=ExploreSettings(
                declared=(str(GAVE_UP),),
                deadline_s=self.deadline_s if twin == "defect" else SOUND_DEADLINE_S,
                side_effects=tuple(self.side_effects),
                undoes=tuple(f"{tool}={undone}" for tool, undone in self.undoes.items()),
            ),
        )
