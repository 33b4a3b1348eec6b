"""Record every scenario of the booking agent again.

Run it: python examples/booking_record.py [folder]

The model runs on this machine, calls are sequential, and the clock stands still, so the same scenarios give the same
recordings, byte by byte.
"""

import asyncio
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from booking_model import answer
from local_model import serving
from make_recordings import StillClock
from offbook import Provider, RecordingProvider, Request, run
from offbook.config import (
    Config,
    collect_scenarios,
    import_from,
    load_config,
    open_participants,
    plan_run,
    run_rules,
    scenario_files,
)
from offbook.config.recordings import RecordingFolder
from offbook.config.roles import StepNames
from offbook.messages import Reply
from offbook.pipeline import Live
from offbook.scenarios import ScenarioRunner, SuiteResult

PROJECT = Path(__file__).parent / "booking"


class OneByOne(Provider):
    """Makes calls sequentially, in the order of the requests."""

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self._provider, self._turn = provider, asyncio.Lock()

    async def send(self, request: Request) -> Reply:
        async with self._turn:
            return await self._provider.send(request)


async def record(config: Config, folder: Path) -> SuiteResult:
    """Run every conversation, and record the model calls in `folder`."""
    plan = plan_run(config, collect_scenarios(scenario_files(config)))
    names = StepNames((scenario.name, agent) for scenario, agent in plan.pairs)
    async with open_participants(config, plan, Live()) as opened:
        assert opened.participants.provider is not None
        live = OneByOne(opened.participants.provider)
        recorder = RecordingFolder(folder, names, lambda file: RecordingProvider(live, file, clock=StillClock()))
        async with recorder:
            rules = replace(run_rules(config), concurrency=1)
            return await ScenarioRunner(replace(opened.participants, provider=recorder), rules).run(plan.scenarios)


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    config = load_config(PROJECT / "offbook.toml")
    with serving(answer) as base_url, import_from([config.folder]):
        os.environ["OPENAI_BASE_URL"] = base_url
        result = run(record(config, folder))
    for scenario in result.scenarios:
        print(f"{scenario.name}: {'passed' if scenario.passed else 'failed'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "recordings")
