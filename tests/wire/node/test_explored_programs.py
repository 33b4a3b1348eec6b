"""Node programs in virtual time: how they end, when they hang, and that their verdicts are those of real time."""

import time
from pathlib import Path

import pytest

from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportInput
from offbook.subjects.executors import executor_of
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import plan_of, write_recording
from tests.subjects.node_programs import LONG_S, program, require_node
from tests.wire.node.driver import SDKS, require

pytestmark = pytest.mark.xdist_group("node_programs")
AGENTS = Path(__file__).parents[3] / "bench" / "programs"


@pytest.fixture(autouse=True)
def node():
    require_node()


def test_a_program_that_waits_for_too_long_has_hung_without_waiting(tmp_path):
    started_s = time.monotonic()
    with program("console.log(await ask()); setInterval(() => {}, S * 100);", tmp_path, deadline_s=LONG_S) as endless:
        run = endless.run(FaultPlan())
    assert run.hung == f"it had not ended {LONG_S:g} s after call 1, and was not waiting for an answer"
    with program("console.log(await ask());", tmp_path, deadline_s=250.0) as patient:
        patient.run(FaultPlan())
        run = patient.run(plan_of("call=1 attempt=1: timeout 1e9"))
    assert run.hung.startswith("it waited 250 s for the answer to call 1: no timeout is set")
    assert time.monotonic() - started_s < LONG_S / 100


def test_a_client_that_obeys_retry_after_is_not_too_soon_and_one_that_does_not_is(tmp_path):
    code = """
import { setTimeout } from "node:timers/promises";
for (let answer = await request(); !answer.ok; answer = await request()) {
  await setTimeout(Number(answer.headers.get("retry-after")) * 1000 * SHARE);
}
"""
    plan = plan_of("call=1 attempt=1: http_error 429 headers.retry-after=3000")
    for share, is_too_soon in (("1", False), ("0.5", True)):
        with program(code.replace("SHARE", share), tmp_path) as subject:
            subject.run(FaultPlan())
            assert [call.is_too_soon for call in subject.run(plan).calls] == [False, is_too_soon]


ENDINGS = {
    "an exit code": ("await ask(); process.exitCode = 3;", {"exit": 3, "stdout": ""}),
    "an error": ("await ask(); throw new Error('no');", {"exit": 1, "stdout": ""}),
    "an await that nothing ends": ("await ask(); await new Promise(() => {});", {"exit": 13, "stdout": ""}),
    "more to do at the end": (
        """
let times = 0;
process.on("beforeExit", () => ++times < 3 && setTimeout(() => console.log(times), S * 500));
await ask();
""",
        {"exit": 0, "stdout": "1\n2\n"},
    ),
    "an environment of its own": (
        """
import { execFileSync } from "node:child_process";
const own = (text) => text.replace(/--require "[^"]*node_tools.cjs"/, "tools");
const code = `console.log([(${own})(process.env.NODE_OPTIONS), process.env.NODE_COMPILE_CACHE])`;
console.log(own(process.env.NODE_OPTIONS), Object.keys(process.env).filter((name) => name.includes("CLOCK")));
console.log(execFileSync(process.execPath, ["-e", code]).toString(), process.execArgv, await ask());
""",
        {"exit": 0, "stdout": "tools []\n[ 'tools', undefined ]\n [] Hello\n"},
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_it_does_without_us(name, tmp_path, monkeypatch):
    monkeypatch.delenv("NODE_OPTIONS", raising=False)
    code, expected = ENDINGS[name]
    with program(code, tmp_path) as subject:
        assert subject.run(FaultPlan()).result == expected
        assert subject.is_forked


def report_of(subject, *, is_virtual, faults):
    with subject:
        options = ExploreOptions(variants=select_variants(faults, subject.variants))
        exploration = Explorer(subject, options, executor=executor_of(subject, 2)).explore()
        assert subject.is_forked == is_virtual
    return exploration_json(ReportInput(exploration=exploration, reproduce=str))


@pytest.fixture
def project(tmp_path):
    """A folder with the packages of the agents, and a recording."""
    require()
    (tmp_path / "node_modules").symlink_to(SDKS / "node_modules")
    call = {"tool_calls": [{"id": "call_0", "name": "find", "arguments": {"order": 0}}]}
    write_recording(tmp_path / "run.json", {"any": [call, {"content": "Lost."}]})
    return tmp_path


@pytest.mark.parametrize("agent", ["openai_sdk.mjs", "ai_sdk.mjs"])
def test_the_report_of_an_agent_is_the_same_in_virtual_and_in_real_time(agent, project):
    (project / agent).write_text((AGENTS / agent).read_text())
    faults = "http_error 500,invalid_tool_args"
    reports = []
    for is_fresh in (False, True):
        settings = ExploreSettings(runs_tools=True, fresh=is_fresh)
        subject = ProgramSubject(["node", str(project / agent), "6"], replay=project / "run.json", settings=settings)
        reports.append(report_of(subject, is_virtual=not is_fresh, faults=faults))
    assert reports[0] == reports[1]
