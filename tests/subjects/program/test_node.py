"""Node programs in virtual time: every wait takes its length, and none takes any time."""

import os
import socket
import threading
import time

import pytest

from offbook.subjects.program.launch import is_node_command
from tests.subjects.node_programs import HELLO, LONG_S, outputs, program, require_node


@pytest.fixture(autouse=True)
def node():
    require_node()


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
  "a loop of immediates": () => new Promise((end) => {
    const timer = setTimeout(() => {}, 20);
    (function look() { timer._destroyed ? end() : setImmediate(look); })();
  }),
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


def test_a_worker_that_the_program_does_not_wait_for_does_not_stop_its_time(tmp_path):
    code = """
    import { Worker } from "node:worker_threads";
    new Worker("setInterval(() => {}, 1000)", {eval: true}).unref();
    await new Promise((end) => setTimeout(end, S * 1000));
    console.log(await ask());
    process.exit();
    """
    assert outputs(program(code, tmp_path)) == ["Hello\n"]


def test_node_is_recognised_by_its_name_and_by_the_first_line_of_a_script(tmp_path):
    script = tmp_path / "agent"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    for command, expected in ((["node", "a.mjs"], True), ([str(script)], True), (["bash", "-c", "node"], False)):
        assert is_node_command(command, os.environ) is expected
