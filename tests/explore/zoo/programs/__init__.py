"""Agents that are programs, in Python, Node and bash. One file a language holds several; each is its first argument."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from msgspec import field
from msgspec.structs import replace

from offbook.explore.settings import ExploreSettings
from offbook.subjects.program.program import ProgramSubject
from tests.explore.zoo.functions.desk import asks_for
from tests.explore.zoo.planted import Planted, Twin, tool_settings, write_recording
from tests.wire.node.driver import SDKS, reason_to_skip

FOLDER = Path(__file__).parent
GAVE_UP = 3
FRESH = "ZOO_FRESH"
"""The variable that lets programs be started anew for every case."""
SOUND_DEADLINE_S = 20.0
TEXT = "It is on its way, and will be there tomorrow."
REFUND = [asks_for(("refund", {"order_id": 42})), {"content": "Order 42 is refunded."}]
STREAM = [{"content": TEXT, "chunks": [[0.0, "It is on its way, "], [0.0, "and will be "], [0.0, "there tomorrow."]]}]
RUNTIMES = {"py": [sys.executable], "mjs": ["node"], "sh": ["bash"]}


class PlantedProgram(Planted, frozen=True, kw_only=True):
    """A defect of a program.

    `agent` is the name of the agent, and `sound` that of its twin if it is another one. `reports` is whether it reports
    its effects, which are otherwise inferred. `answers_by_step` are its answers if it asks several questions at once.
    """

    file: str
    agent: str
    sound: str = ""
    answers: Sequence[Mapping[str, Any]] = tuple(REFUND)
    answers_by_step: Mapping[str, Any] = field(default_factory=dict)
    reports: bool = False
    side_effects: Sequence[str] = ("refund",)
    idempotent: Sequence[str] = ()
    deadline_s: float = 4.0
    env: Mapping[str, str] = field(default_factory=dict)
    errors: Sequence[Any] = (str(GAVE_UP),)

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
        agent = self.sound or self.agent, self.answers, self.reports, "crash" in self.faults
        declared = self.side_effects, self.idempotent, self.undoes, self.invariants, self.declares, self.errors
        return *agent, *declared, self.answers_by_step, self.env

    @property
    def is_slow(self) -> bool:
        return True

    @property
    def needs_declarations(self) -> bool:
        return super().needs_declarations or bool(self.idempotent)

    def bare(self) -> Self:
        return replace(super().bare(), side_effects=(), idempotent=())

    def open(self, twin: Twin, folder: Path) -> ProgramSubject:
        runtime = RUNTIMES[self.file.rsplit(".", 1)[1]]
        agent = self.sound or self.agent if twin == "sound" else self.agent
        options = self.subject_options
        folders = [str(SDKS)] if self.file == "sdk.mjs" else []
        return ProgramSubject(
            [*runtime, str(FOLDER / self.file), agent, twin, *folders],
            replay=write_recording(folder, self.answers_by_step or {"any": list(self.answers)}),
            env=dict(self.env) | ({"ZOO_REPORTS": "1"} if self.reports else {}),
            settings=ExploreSettings(
                declared=tuple(self.errors),
                deadline_s=self.deadline_s if twin == "defect" else SOUND_DEADLINE_S,
                side_effects=tuple(self.side_effects),
                idempotent=tuple(self.idempotent),
                crashes="crash" in self.faults,
                fresh=FRESH in os.environ,
                undoes=tuple(f"{tool}={undone}" for tool, undone in self.undoes.items()),
                tools=tool_settings(options.pop("tools", {})),
                **options,
            ),
        )


MCP_SERVER = [sys.executable, str(FOLDER / "mcp_server.py")]
MAIN = "import sys; from offbook.cli.main import main; sys.exit(main())"
MCP_CALLS = [
    ("find_order", {"order_id": 42}),
    ("refund", {"order_id": 42}),
    ("mail", {"to": "ann@example.org", "about": 42}),
]


@cache
def recorded_server() -> dict[str, Any]:
    """Record the calls of the agents against the real server, and return the recording."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "zoo", "version": "1"}}
    asked = [("initialize", hello), ("tools/list", {})]
    asked += [("tools/call", {"name": tool, "arguments": arguments}) for tool, arguments in MCP_CALLS]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked, 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.json"
        command = [sys.executable, "-c", MAIN, "mcp", "record", "--output", str(path), "--", *MCP_SERVER]
        subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=60)
        return json.loads(path.read_text())


class PlantedMcpProgram(PlantedProgram, frozen=True, kw_only=True):
    """A defect of a program on the side of its tools, which are those of an MCP server, over stdio or HTTP."""

    file: str = "mcp_desk.py"
    transport: str = "stdio"
    side_effects: Sequence[str] = ()
    is_replayed: bool = True

    @property
    def sound_agent(self) -> object:
        return self.sound or self.agent, self.answers, self.transport, self.faults

    def open(self, twin: Twin, folder: Path) -> ProgramSubject:
        agent = self.sound or self.agent if twin == "sound" else self.agent
        is_http = self.transport == "http"
        server = {"type": "http", "url": "http://127.0.0.1:9/mcp"} if is_http else {"command": "no-such-server"}
        config = folder / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"desk": server}}))
        return ProgramSubject(
            [sys.executable, str(FOLDER / self.file), agent, twin, "{mcp}"],
            replay=write_recording(folder, recorded_server() | {"any": list(self.answers)}),
            mcp=str(config),
            settings=ExploreSettings(
                declared=(str(GAVE_UP),),
                deadline_s=self.deadline_s if twin == "defect" else SOUND_DEADLINE_S,
                fresh=FRESH in os.environ,
            ),
        )
