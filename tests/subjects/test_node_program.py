"""Runs of Node programs whose waits are skipped: every wait takes its length, and none takes any time."""

import os
import shutil
import socket
import threading
import time

import pytest

from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.faults import FaultPlan
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportInput
from offbook.subjects.executors import executor_of
from offbook.subjects.node_program import is_node_command
from offbook.subjects.program import ProgramSubject
from offbook.subjects.specs import ExploreSettings
from tests.explore.runs import plan_of, write_recording

LONG_S = 100_000
HELLO = {"content": "Hello"}
ASKS = (
    """
const url = process.env.OPENAI_BASE_URL + "/chat/completions";
async function request(options = {}) {
  const body = JSON.stringify({model: "m", messages: [{role: "user", content: "Hi"}]});
  return fetch(url, {method: "POST", headers: {"content-type": "application/json"}, body, ...options});
}
async function ask(options) {
  const answer = await request(options);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return (await answer.json()).choices[0].message.content;
}
const S = %d;
"""
    % LONG_S
)  # noqa: UP031


@pytest.fixture(autouse=True)
def node():
    if shutil.which("node") is None:
        if os.environ.get("OFFBOOK_REQUIRE_NODE") == "1":
            pytest.fail("node is not installed")
        pytest.skip("node is not installed")


def program(code, folder, *answers, fresh=False, **settings):
    """A Node program in a file, on a recording."""
    (folder / "agent.mjs").write_text(ASKS + code)
    path = write_recording(folder / "run.json", {"any": list(answers or [HELLO])})
    explore_settings = ExploreSettings(
        **{"on_divergence": "stop", "fresh": fresh, "deadline_s": 2.0 * LONG_S, **settings}
    )
    return ProgramSubject(["node", str(folder / "agent.mjs")], replay=path, settings=explore_settings)


def outputs(subject, *plans):
    """What each run prints, the clean one first."""
    with subject:
        found = [subject.run(FaultPlan()), *(subject.run(plan_of(*plan)) for plan in plans)]
        assert subject.is_forked
    return [run.result["stdout"] for run in found]


WAITS = """
import events from "node:events";
import timers from "node:timers";
import promises from "node:timers/promises";

const waits = {
  setTimeout: () => new Promise((end) => setTimeout(end, S * 1000)),
  "timers.setTimeout": () => new Promise((end) => timers.setTimeout(end, S * 1000)),
  setInterval: () => new Promise((end) => {
    let ticks = 0;
    const interval = setInterval(() => ++ticks === 4 && end(clearInterval(interval)), S * 250);
  }),
  refresh: () => new Promise((end) => {
    const timer = setTimeout(end, S * 500);
    setTimeout(() => timer.refresh(), S * 500 - 1000);
    setTimeout(() => clearTimeout(timer), S * 1000);
    setTimeout(end, S * 1000);
  }),
  "an unreferenced timer": () => new Promise((end) => {
    setTimeout(end, S * 1000).unref();
    setTimeout(() => {}, S * 1001);
  }),
  "timers/promises": () => promises.setTimeout(S * 1000),
  "scheduler.wait": () => promises.scheduler.wait(S * 1000),
  "AbortSignal.timeout": async () => {
    const signal = AbortSignal.timeout(S * 1000);
    const alive = setTimeout(() => {}, S * 1001);
    await events.once(signal, "abort");
    clearTimeout(alive);
  },
  "one after the other": async () => { for (let i = 0; i < 5; i++) await promises.setTimeout(S * 200); },
  "at once": () => Promise.all([0.25, 1, 0.5].map((share) => promises.setTimeout(S * 1000 * share))),
};
const clocks = () => [
  Date.now(), +new Date(), Date.parse(Date()), performance.now(),
  Number(process.hrtime.bigint()) / 1e6, process.hrtime()[0] * 1000, process.uptime() * 1000,
];
for (const [name, wait] of Object.entries(waits)) {
  const starts = clocks();
  await wait();
  const took = clocks().map((end, i) => Math.abs(end - starts[i] - S * 1000) < 60_000);
  console.log(name, took.every(Boolean) ? "ok" : clocks().map((end, i) => end - starts[i]));
}
console.log(await ask());
"""


def test_a_wait_takes_its_length_on_all_clocks_and_no_time(tmp_path):
    started_s = time.monotonic()
    (output,) = outputs(program(WAITS, tmp_path, deadline_s=100.0 * LONG_S))
    assert [line for line in output.splitlines() if not line.endswith(" ok")] == ["Hello"]
    assert time.monotonic() - started_s < LONG_S / 100


IN_TIME = """
import http from "node:http";
import { text } from "node:stream/consumers";
const started = performance.now();
const clients = {
  fetch: () => ask({signal: AbortSignal.timeout(30_000)}),
  http: () => new Promise((end, fail) => {
    const sent = http.request(url, {method: "POST", timeout: 30_000, headers: {"content-type": "application/json"}});
    sent.on("timeout", () => sent.destroy(new Error("no answer"))).on("error", fail);
    sent.on("response", async (answer) => end(JSON.parse(await text(answer)).choices[0].message.content));
    sent.end(JSON.stringify({model: "m", messages: [{role: "user", content: "Hi"}]}));
  }),
};
for (const [name, client] of Object.entries(clients)) {
  const started = performance.now();
  const said = await client().catch((error) => error.message);
  console.log(name, said, Math.round((performance.now() - started) / 5000) * 5);
}
"""


def test_answers_come_after_their_delay_and_timeouts_of_clients_end_before(tmp_path):
    both = [HELLO, HELLO]
    clean, slow, silent = outputs(
        program(IN_TIME, tmp_path, *both), ["everywhere: slow 20000"], ["everywhere: timeout 600000"]
    )
    assert clean == "fetch Hello 0\nhttp Hello 0\n"
    assert slow == "fetch Hello 20\nhttp Hello 20\n"
    assert silent == "fetch The operation was aborted due to timeout 30\nhttp no answer 30\n"


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


WORK = """
import { spawn } from "node:child_process";
import { createHash, scrypt, subtle } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import net from "node:net";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { gzip } from "node:zlib";

const bytes = Buffer.alloc(3_000_000, "work");
const works = {
  "a child process": () => once(spawn("sleep", ["0.2"]), "exit"),
  "a worker": () => once(new Worker("for (let i = 0; i < 1e7; i++) ;", {eval: true}), "exit"),
  "a message of a worker": () => once(new Worker(
    'setTimeout(() => require("worker_threads").parentPort.postMessage(1), 50)', {eval: true}), "message"),
  "a file": () => readFile(process.execPath),
  "a hash": () => subtle.digest("SHA-512", bytes),
  "a key": () => promisify(scrypt)("secret", "salt", 64),
  "a compression": () => promisify(gzip)(bytes),
  "a module": () => WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])),
  "a module of JavaScript": () => import("node:sqlite").catch(() => import("node:repl")),
  "another server": async () => once(net.connect(Number(process.env.OTHER_PORT), "127.0.0.1"), "data"),
};
for (const [name, work] of Object.entries(works)) {
  let timer;
  const late = new Promise((end) => (timer = setTimeout(end, S * 1000, "late")));
  console.log(name, (await Promise.race([work(), late])) === "late" ? "late" : "ok");
  clearTimeout(timer);
}
console.log(await ask());
process.exit();
"""


@pytest.fixture
def other_server():
    """A server that sends something once to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"here")
                connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


def test_time_is_real_while_anything_else_is_under_way(tmp_path, monkeypatch, other_server):
    monkeypatch.setenv("OTHER_PORT", str(other_server))
    (output,) = outputs(program(WORK, tmp_path))
    assert [line for line in output.splitlines() if not line.endswith(" ok")] == ["Hello"]


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
const code = "console.log([process.env.NODE_OPTIONS, process.env.NODE_COMPILE_CACHE])";
console.log(process.env.NODE_OPTIONS, Object.keys(process.env).filter((name) => name.includes("CLOCK")));
console.log(execFileSync(process.execPath, ["-e", code]).toString(), process.execArgv, await ask());
""",
        {"exit": 0, "stdout": "undefined []\n[ undefined, undefined ]\n [] Hello\n"},
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_it_does_without_us(name, tmp_path, monkeypatch):
    monkeypatch.delenv("NODE_OPTIONS", raising=False)
    code, expected = ENDINGS[name]
    with program(code, tmp_path) as subject:
        assert subject.run(FaultPlan()).result == expected
        assert subject.is_forked


STUBBORN = """
for (let attempt = 0; ; attempt++) {
  try {
    console.log(await ask({signal: AbortSignal.timeout(5000)}));
    break;
  } catch (error) {
    if (attempt === 3) throw error;
    await new Promise((end) => setTimeout(end, 20 * 2 ** attempt));
  }
}
"""


def report_of(folder, *, workers, fresh=False):
    with program(STUBBORN, folder, fresh=fresh, on_divergence="explore", deadline_s=None) as subject:
        options = ExploreOptions(variants=select_variants("http_error,connection_reset", subject.variants))
        exploration = Explorer(subject, options, executor=executor_of(subject, workers)).explore()
        assert subject.is_forked == (not fresh)
    return exploration_json(ReportInput(exploration=exploration, reproduce=str))


def test_the_report_is_the_same_with_waits_and_without_them(tmp_path):
    assert report_of(tmp_path, workers=2) == report_of(tmp_path, workers=2, fresh=True)


def test_node_is_recognised_by_its_name_and_by_the_first_line_of_a_script(tmp_path):
    script = tmp_path / "agent"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    for command, expected in ((["node", "a.mjs"], True), ([str(script)], True), (["bash", "-c", "node"], False)):
        assert is_node_command(command, os.environ) is expected
