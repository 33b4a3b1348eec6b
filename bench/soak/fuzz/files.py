"""Files that come from a repository or a pull request: recordings, plans, configs, workflows, regressions, runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import orjson

import offbook
from bench.soak.fuzz.target import DefectError, Target, choose, run_command
from offbook import FaultPlan, MockProvider, OffbookError
from offbook.config.file import load_config
from offbook.faults.plan import parse_fault
from offbook.observe.json_lines import read_events
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.subjects.regression import load_regression
from offbook.wire.api import StandIn
from offbook.wire.request import HttpRequest
from offbook.workflow.engine.result import StepResult
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.load import load_workflow, parse_workflow
from offbook.workflow.file.template import Template
from offbook.workflow.runs.store import RunStore

FAULT_TEXTS = (
    b"call=2: http_error 500",
    b"step=answer call=1 attempt=2: timeout after_ms=5000",
    b'call=1: http_error 429 headers={"retry-after": "2"} body="slow down"',
    b"call=3: stream_truncate 2 raise=clean",
    b'tool=look_up call=1: tool_error "not found"',
    b"everywhere: stream_stall 1 for_ms=8000",
    b"tool=search: tool_timeout 300",
    b'call=1: malformed_response "not valid json"',
)
PLANS = (
    b'{"faults": [{"at": {"call": 2}, "fault": {"type": "http_error", "status_code": 503, "headers": {"a": "b"}}}]}',
    (
        b'{"faults": [{"at": {"step_id": "write", "attempt": 1}, "fault": {"type": "stream_stall", "after_chunks": 1,'
        b' "for_ms": 60000}}, {"at": {}, "fault": {"type": "timeout", "after_ms": 5000}}]}'
    ),
    (
        b'{"faults": [], "chaos": {"seed": 7, "rate": 0.5, "faults": [{"type": "slow", "after_ms": 20000},'
        b' {"type": "connection_reset"}, {"type": "partial_response", "content": "half"}]}}'
    ),
    b'{"faults": [{"at": {"tool": "look_up", "call": 1}, "fault": {"type": "tool_error", "error": "no"}}]}',
)
CONFIGS = (
    b'[agent]\nname = "a"\nendpoint = "http://127.0.0.1:9/v1"\nmodel = "m"\nheaders = { "x-key" = "${KEY}" }\n',
    (
        b'[agents.flow]\nworkflow = "flow.yaml"\ninput = "question"\n\n[run]\nrepeat = 3\nconcurrency = 2\n'
        b'answer_timeout_s = 12.5\nscenarios = ["sims/*.py"]\nfail_on = ["high"]\n\n'
        b'[user]\nprovider = "ollama"\nmodel = "m"\ntemperature = 0.7\n'
    ),
)
EXPRESSIONS = (
    b'state.kind == "a" && state.count > 2',
    b"state.items.exists(x, x == 3) ? 1.5 : -2.0",
    b'state.user.name.startsWith("A") || has(state.missing)',
    b"size(state.items) in [1, 2, 3] && !false",
    b'state.items.filter(x, x > 1).all(y, y < 10) && state.user.name.matches("^A.*a$")',
    b"Hello {state.user.name}, you have {state.count} of {state.items[0]} {{escaped}}",
    b"int(state.count) % 2 == 0 && string(state.kind) + 'b' != \"ab\"",
)
OTHER_REGRESSION = (
    b'{\n  "offbook": "regression", "verdict": "hung", "faults": [{"at": {"call": 1}, "fault": {"type": "timeout"}}],'
    b' "subject": {"type": "program", "command": ["python", "agent.py"], "recording": "run.json"}}'
)
ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
WORKFLOWS = EXAMPLES / "workflows"
CALL = HttpRequest(
    "POST", "/v1/chat/completions", "", {}, b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
)


def _contents(*patterns: str, below: Path = EXAMPLES) -> list[bytes]:
    """Return the contents of the files of the examples, small ones, in the order of their names."""
    files = (file for pattern in patterns for file in sorted(below.glob(pattern)))
    return [data for file in files if len(data := file.read_bytes()) < 20_000]


def replay_chain(*options: str) -> None:
    """Replay an example with these options."""
    recording = str(WORKFLOWS / "recordings/chain.json")
    run_command("replay", str(WORKFLOWS / "chain.yaml"), "--recording", recording, *options)


class Recording(Target):
    """A recording as JSON: loaded, replayed, served, and given to the commands."""

    def valid_inputs(self) -> Sequence[bytes]:
        return [*_contents("*.json", "wire/*.json", "workflows/**/*.json"), *_contents("booking/recordings/*.json")[:4]]

    def feed(self, data: bytes) -> None:
        path = self.put("run.json", data)
        other = self.put("other.json", self.corpus[0])
        commands = [
            ("recording", "show", path),
            ("recording", "show", path, "--json"),
            ("recording", "check", path),
            ("recording", "diff", path, other),
            ("recording", "redact", path),
            ("recording", "merge", path, other, "--output", str(self.folder / "merged.json")),
            ("replay", str(WORKFLOWS / "chain.yaml"), "--recording", path),
        ]
        run_command(*choose(data, commands))
        _use_recording(self.put("run.json", data))


class Journal(Target):
    """The journal beside a recording."""

    def valid_inputs(self) -> Sequence[bytes]:
        location = self.folder / "written.json"
        writer = open_store(location).write()
        writer.append("greet", Exchange(content="Hello", latency_ms=3.0))
        writer.append_tool("look_up", ToolExchange(arguments={"a": 1}, result="found"))
        writer.append("greet", Exchange(content="Hello again", model="m"))
        journal = Path(f"{location}.journal").read_bytes()
        writer.close()
        return [journal, journal + journal]

    def feed(self, data: bytes) -> None:
        path = self.put("run.json", b'{"_version": 2, "greet": {"content": "Hi"}}')
        self.put("run.json.journal", data)
        run_command(*choose(data, [("recording", "show", path), ("recording", "check", path)]))
        self.put("run.json.journal", data)
        open_store(path).load()


class Database(Target):
    """A recording in SQLite."""

    def valid_inputs(self) -> Sequence[bytes]:
        path = self.folder / "written.db"
        document = open_store(WORKFLOWS / "recordings/tool_loop.json").load()
        open_store(f"sqlite:///{path}").save(document)
        return [path.read_bytes()]

    def feed(self, data: bytes) -> None:
        for leftover in self.folder.glob("run.db*"):
            leftover.unlink()
        location = f"sqlite:///{self.put('run.db', data)}"
        run_command(*choose(data, [("recording", "show", location), ("recording", "check", location)]))
        _use_recording(location)


def _use_recording(location: str) -> None:
    """Load a recording, ask it as a provider, and serve it."""
    for key in list(open_store(location).load().entries)[:3]:
        offbook.run(_ask(location, key), virtual_time=True)
    with StandIn(location, latency_model="replay") as stand_in:
        stand_in.accept(CALL)


async def _ask(location: str, step_id: str) -> None:
    async with MockProvider(location, strict=False) as provider:
        try:
            await provider.complete([{"role": "user", "content": "Hi"}], "m", step_id=step_id)
        except OffbookError:
            return


class Plan(Target):
    """A plan of faults: loaded, written out again, and replayed."""

    def valid_inputs(self) -> Sequence[bytes]:
        return PLANS

    def feed(self, data: bytes) -> None:
        path = self.put("plan.json", data)
        replay_chain("--plan", path)
        for line in FaultPlan.load(path):
            if parse_fault(str(line)) != line:
                raise DefectError(f"{line} is not what it is parsed as")


class FaultText(Target):
    """A fault as it is written on the command line."""

    def valid_inputs(self) -> Sequence[bytes]:
        return FAULT_TEXTS

    def feed(self, data: bytes) -> None:
        line = parse_fault(data.decode("utf-8", "surrogateescape"))
        if parse_fault(str(line)) != line:
            raise DefectError(f"{line} is not what it is parsed as")


class Config(Target):
    """offbook.toml."""

    def valid_inputs(self) -> Sequence[bytes]:
        return [*_contents("booking/offbook.toml"), *CONFIGS]

    def feed(self, data: bytes) -> None:
        path = self.put("offbook.toml", data)
        run_command(*choose(data, [("prompts", "--config", path), ("test", "--config", path, "--scenario", "none")]))
        load_config(path)


class WorkflowFile(Target):
    """A workflow in YAML: checked and drawn, but not run."""

    def valid_inputs(self) -> Sequence[bytes]:
        shutil.copytree(WORKFLOWS / "parts", self.folder / "parts")
        return _contents("workflows/*.yaml", "workflows/parts/*.yaml")

    def feed(self, data: bytes) -> None:
        path = self.put("flow.yaml", data)
        commands = [("validate", path), *(("graph", path, "--format", form) for form in ("text", "mermaid", "svg"))]
        run_command(*choose(data, commands))
        parse_workflow(data.decode("utf-8", "replace"), folder=self.folder)


class WorkflowExpression(Target):
    """A condition of a workflow, and a template of one, on a small state."""

    def valid_inputs(self) -> Sequence[bytes]:
        return EXPRESSIONS

    def feed(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        scope = {"state": {"kind": "a", "count": 3, "items": [1, 2, 3], "user": {"name": "Ada"}}, "steps": {}}
        try:
            Expression.parse(text).evaluate(scope)
        except OffbookError:
            Template.parse(text).render(scope)


class Regression(Target):
    """A finding that `explore` kept: read, but not run."""

    def valid_inputs(self) -> Sequence[bytes]:
        regressions = self.folder / "written"
        recording = str(WORKFLOWS / "recordings/chain.json")
        flow = str(WORKFLOWS / "chain.yaml")
        run_command(
            "explore",
            flow,
            "--recording",
            recording,
            "-o",
            f"regress={regressions}",
            "--faults",
            "http_error,empty_response",
        )
        return [*(file.read_bytes() for file in sorted(regressions.glob("*.json"))), OTHER_REGRESSION]

    def feed(self, data: bytes) -> None:
        load_regression(self.put("0001.json", data))


class StoredRun(Target):
    """The manifest and the log of a stored run."""

    def valid_inputs(self) -> Sequence[bytes]:
        flow, store = WORKFLOWS / "chain.yaml", RunStore(self.folder / "written")
        with store.start(load_workflow(flow), flow, state={"topic": "tea"}) as run:
            run.checkpoint.save("outline", StepResult(id="outline", type="llm_call", status="done", output="x"))
            run.checkpoint.save("write", StepResult(id="write", type="llm_call", status="failed", error="no"))
            run.end("failed")
        folder = self.folder / "written" / store.ids()[0]
        manifest = orjson.dumps(orjson.loads((folder / "run.json").read_bytes()))
        return [manifest + b"\n" + (folder / "steps.jsonl").read_bytes(), manifest + b"\n"]

    def feed(self, data: bytes) -> None:
        folder = self.folder / "runs/20261115-233012-001"
        folder.mkdir(parents=True, exist_ok=True)
        manifest, _, log = data.partition(b"\n")
        (folder / "run.json").write_bytes(manifest)
        (folder / "steps.jsonl").write_bytes(log)
        run_command("runs", "--runs-dir", str(folder.parent))
        RunStore(folder.parent).summaries()


class Events(Target):
    """Events as lines of JSON, and the state of a run."""

    def valid_inputs(self) -> Sequence[bytes]:
        events = self.folder / "written.jsonl"
        replay_chain("--trace", str(events))
        return [events.read_bytes(), b'{"kind": "a", "user": {"name": "Ada"}}']

    def feed(self, data: bytes) -> None:
        path = self.put("events.jsonl", data)
        replay_chain("--state", path)
        list(read_events(path))
