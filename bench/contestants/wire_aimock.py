"""aimock as a server: a mock of several vendors' APIs that runs on Node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from bench.contestants.wire_server import PIECE, Case, WireContestant

PACKAGE = Path(__file__).parents[2] / ".scratch/aimock/node_modules/@copilotkit/aimock"


class AimockServer(WireContestant):
    """Serves fixtures, strictly. It prints nothing for a call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = "aimock"
        if shutil.which("node") is None:
            self.absent = "node is not installed"
        elif not PACKAGE.exists():
            self.absent = "it is not installed: run `make aimock`"
        else:
            self.name += f" {json.loads((PACKAGE / 'package.json').read_text())['version']}"

    def command(self, case: Case) -> list[str]:
        cli = str(PACKAGE / "dist/cli.js")
        return ["node", cli, "--port", "0", "--fixtures", self._fixtures(case), "--strict"]

    def _fixtures(self, case: Case) -> str:
        """The same answers, each to the last that the user said: it is what no two entries have in common."""
        path = self._folder / f"aimock-{case.size}-{case.is_stream}.json"
        calls = [case.call(index) for index in range(case.size)]
        fixtures = [
            {"match": {"userMessage": call.messages[-1]["content"]}, "response": {"content": call.answer}}
            for call in calls
        ]
        chunked = [fixture | {"chunkSize": len(PIECE)} for fixture in fixtures]
        path.write_text(json.dumps({"fixtures": chunked if case.is_stream else fixtures}))
        return str(path)
