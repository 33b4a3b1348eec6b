"""Explorations of one agent by every face: of a function, whose harness has the face, or of a program."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

from offbook.explore import Divergence, FunctionSubject
from offbook.faults import FaultPlan, parse_fault
from offbook.settings import ToolSettings
from offbook.subjects.program.program import ProgramSubject
from offbook.subjects.specs import ExploreSettings
from tests.contract import explored_agent
from tests.contract.faces import SERVER, Entry, Outcome, Setup
from tests.contract.live import Live, LiveModel

DEFAULT = "the default"
PROGRAMS = {
    "server": {},
    "websocket": {},
    "program_tools": {},
    "mcp_stdio": {"command": "none"},
    "mcp_http": {"url": "http://127.0.0.1:1/mcp"},
}
"""The faces that programs have, instead of functions, with the configs of their MCP servers."""
BOOK = {"greet": [Entry("one", "a"), Entry("two", "b")]}


class Agent(NamedTuple):
    """What an agent asks, how often it tries again, and what it asks after a call that has no answer.

    One that `streams` asks for streams.
    """

    asks: Sequence[str] = "ab"
    retries: int = 0
    instead: Sequence[str] = ""
    streams: bool = False


class Explored:
    """The runs of one agent on one recording. The clean run has been made.

    An agent may ask by several faces of one harness, or of one program; the recording is that of all of them.
    """

    def __init__(self, faces, agent, *, book, policy, folder):
        self._faces, self._agent, self._policy, self._folder = faces, agent, policy, folder
        self._recording = folder / "run.json"
        document = {}
        for face in faces:
            document |= face.document(book)
        self._recording.write_text(json.dumps(document))

    def __enter__(self):
        self._subject = self._program() if self._faces[0].name in PROGRAMS else self._function()
        self.clean = self.run()
        return self

    def __exit__(self, *raised):
        self._subject.close()

    def run(self, *lines, continuation="stubborn"):
        """Run the agent with a plan of these lines."""
        return ExploredRun(self._subject.run(FaultPlan([parse_fault(line) for line in lines]), continuation))

    def _function(self):
        async def function(harness):
            opened = [face(Setup(), self._folder) for face in self._faces]
            for face in opened:
                face.explore(harness)

            def ask(text, attempt):
                face = explored_agent.asked_by(opened, text)
                if self._agent.streams:
                    return face.stream(text, "greet")
                return face.retry(text, "greet", attempt=attempt)

            # faces run event loops of their own, which a thread may
            return await asyncio.to_thread(explored_agent.converse, self._agent._asdict(), ask)

        divergence = Divergence(self._policy, DEFAULT, LiveModel(Live()))
        return FunctionSubject(function, self._recording, divergence=divergence)

    def _program(self):
        names = [face.name for face in self._faces]
        configs = [PROGRAMS[name] for name in names if PROGRAMS[name]]
        command = [sys.executable, explored_agent.__file__, ",".join(names), json.dumps(self._agent._asdict())]
        mcp = self._folder / "mcp.json"
        for config in configs:
            mcp.write_text(json.dumps({"mcpServers": {SERVER: config}}))
            command.append("{mcp}")
        return ProgramSubject(
            command,
            replay=self._recording,
            mcp=str(mcp) if configs else None,
            settings=ExploreSettings(
                on_divergence=self._policy,
                default_response=DEFAULT,
                deadline_s=30.0,
                tools={"greet": ToolSettings(function="explored_tool:greet")},
            ),
        )


class ExploredRun:
    """A run, and what its calls got."""

    def __init__(self, run):
        self.run = run
        assert run.error is None, run.error
        result = json.loads(run.result["stdout"]) if run.is_program else run.result
        self.outcomes = [Outcome(*each) for each in result]

    @property
    def answers(self):
        """The texts of its answers, and where there is none, `miss` or `error`."""
        return [outcome.text if outcome.kind == "answer" else outcome.kind for outcome in self.outcomes]

    @property
    def numbers(self):
        """The numbers of its calls, with those of their attempts; a tool call has one."""
        calls = [(call.number, call.attempt) for call in self.run.calls]
        return tuple(calls) or tuple((each.call, 1) for each in self.run.tools)
