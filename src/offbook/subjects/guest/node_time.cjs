// Lets a Node program skip its waits, in step with the server: see wire/server/session_clock.py.
//
// Node preloads this file. All timers of Node, its own (sockets, fetch, AbortSignal) as well as the program's, are in
// lists, one for each duration. To skip time is to make every timer in them earlier by the same amount, and to set all
// clocks forward; then Node itself runs what is due, in its own order. While the program works, time passes as always.
//
// A turn of the event loop in which nothing happened is noticed by an immediate, which keeps the loop from waiting. If
// all that the program waits for are timers and answers of the server, it says so over the link, and is told how much
// time has been skipped so far. Where anything else may happen (a child process, a file, another host, a worker), the
// loop waits as it always does.

"use strict";

const fs = require("node:fs");
const net = require("node:net");
const { performance, Performance } = require("node:perf_hooks");
const { isMainThread } = require("node:worker_threads");

const CLOCK = "OFFBOOK_NODE_CLOCK";
const TASKS = "/proc/self/task";
const MESSAGE_BYTES = 9;
const IDLE = "i".charCodeAt(0);
const SHORT_MS = 1; // a wait that takes less time than to skip it
const NAP_MS = 0.2;
const PROBE_MS = 2147483646; // a timer that is never due, and knows Node's time

const { setImmediate, clearImmediate, setTimeout, clearTimeout } = globalThis;
const activeHandles = process._getActiveHandles?.bind(process);
const activeRequests = process._getActiveRequests?.bind(process);
const activeResources = process.getActiveResourcesInfo?.bind(process);
const { readFileSync, readdirSync, readSync, writeSync } = fs;
const exitNow = process.reallyExit.bind(process);

/** The lists of timers that Node has, by duration: each timer is told the list that it is put into. */
class TimerLists {
  #lists = new Map();
  #probe;

  constructor() {
    const lists = this.#lists;
    const previous = Symbol("previous");
    const timer = setTimeout(() => {}, 1);
    clearTimeout(timer);
    Object.defineProperty(Object.getPrototypeOf(timer), "_idlePrev", {
      configurable: true,
      get() {
        return this[previous];
      },
      set(value) {
        if (value?.msecs !== undefined) lists.set(value.msecs, value);
        Object.defineProperty(this, previous, { value, writable: true, configurable: true });
      },
    });
    this.#probe = setTimeout(() => {}, PROBE_MS).unref();
  }

  /** Return whether this version of Node keeps its timers as we know it. */
  areKnown() {
    const timer = this.#probe;
    const list = this.#lists.get(PROBE_MS);
    return (
      list !== undefined &&
      list.expiry === timer._idleStart + PROBE_MS &&
      list._idlePrev === timer &&
      timer._idlePrev === list
    );
  }

  /** Return in how many milliseconds the next timer is due. */
  leftMs() {
    const nowMs = this.#probe.refresh()._idleStart;
    let leftMs = Infinity;
    for (const list of this.#lists.values()) {
      if (list._idleNext !== list && list.msecs !== PROBE_MS) leftMs = Math.min(leftMs, list.expiry - nowMs);
    }
    return leftMs;
  }

  /** Make every timer earlier. Lists that are empty stay in the order of the others. */
  skip(milliseconds) {
    for (const list of this.#lists.values()) {
      list.expiry -= milliseconds;
      for (let timer = list._idlePrev; timer !== list; timer = timer._idlePrev) timer._idleStart -= milliseconds;
    }
    setTimeout(() => {}, 1).unref(); // Node looks at its lists when this is due
  }
}

/** Sets all clocks of JavaScript and of Node forward. */
class Clocks {
  skippedMs = 0;

  constructor() {
    const clocks = this;
    const now = Date.now;
    const RealDate = Date;
    RealDate.now = function () {
      return now() + clocks.skippedMs;
    };
    globalThis.Date = new Proxy(RealDate, {
      apply: () => new RealDate(RealDate.now()).toString(),
      construct: (target, given, newTarget) =>
        Reflect.construct(target, given.length ? given : [RealDate.now()], newTarget),
    });
    RealDate.prototype.constructor = globalThis.Date;
    this.#add(Performance.prototype, "now", (value) => value + clocks.skippedMs);
    this.#add(process, "uptime", (value) => value + clocks.skippedMs / 1000);
    this.#replaceHrtime();
  }

  #add(owner, name, later) {
    const real = owner[name];
    owner[name] = function (...given) {
      return later(real.apply(this, given));
    };
  }

  #replaceHrtime() {
    const { hrtime } = process;
    const clocks = this;
    process.hrtime = function (since) {
      const [seconds, nanoseconds] = hrtime(since);
      const total = nanoseconds + (clocks.skippedMs % 1000) * 1e6;
      return [seconds + Math.floor(clocks.skippedMs / 1000) + Math.floor(total / 1e9), total % 1e9];
    };
    process.hrtime.bigint = () => hrtime.bigint() + BigInt(clocks.skippedMs) * 1000000n;
  }
}

/** What the program waits for. */
class Awaited {
  #address;
  #port;
  #arrived = "";

  constructor(address, port) {
    this.#address = address;
    this.#port = port;
  }

  /** Return whether there is nothing at all: the loop ends. */
  isNothing() {
    return activeRequests().length === 0 && !activeHandles().some(isActive) && !activeResources().some(isTimed);
  }

  /** Return whether only a timer or an answer of the server can be next. */
  isOurs() {
    return activeRequests().length === 0 && activeHandles().filter(isActive).every((handle) => this.#isQuiet(handle));
  }

  /** Return whether something that was sent has not arrived yet. */
  isInTransit() {
    const sockets = activeHandles().filter((handle) => handle instanceof net.Socket);
    const sent = sockets.map((socket) => `${socket.localPort}:${socket.bytesWritten}`).join();
    if (sent === this.#arrived) return false;
    const ports = new Set(sockets.map((socket) => socket.localPort));
    const isUnsent = this.#connections().some(([port, unsentBytes]) => ports.has(port) && unsentBytes !== 0);
    if (!isUnsent) this.#arrived = sent;
    return isUnsent;
  }

  #isQuiet(handle) {
    if (handle instanceof net.Server) return true;
    if (!(handle instanceof net.Socket)) return false;
    const isToServer = handle.remotePort === this.#port && handle.remoteAddress === this.#address;
    return isToServer && !handle.connecting && handle.writableLength === 0;
  }

  /** Return the port and the number of unsent bytes of each connection to the server. */
  #connections() {
    const name = net.isIPv6(this.#address) ? "tcp6" : "tcp";
    const port = `:${this.#port.toString(16).toUpperCase().padStart(4, "0")}`;
    const rows = readFileSync(`/proc/self/net/${name}`, "latin1").split("\n");
    return rows
      .filter((row) => row.includes(port))
      .map((row) => row.trim().split(/\s+/, 5))
      .filter(([, , remote]) => remote?.endsWith(port))
      .map(([, local, , , queues]) => [parseInt(local.split(":")[1], 16), parseInt(queues.split(":")[0], 16)]);
  }
}

/** Return whether a handle keeps the loop alive. The outputs are handles that do not. */
function isActive(handle) {
  return !(handle instanceof net.Socket) || handle.connecting || Boolean(handle._handle?.reading);
}

function isTimed(resource) {
  return resource === "Timeout" || resource === "Immediate";
}

/** The work that other threads do for the program. V8's own threads compile and collect garbage, which changes nothing. */
class Threads {
  #ownTasks = new Set(readdirSync(TASKS));
  #compilations = 0;

  constructor() {
    for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming"]) {
      const real = globalThis.WebAssembly?.[name];
      if (real !== undefined) WebAssembly[name] = (...given) => this.#follow(real.apply(WebAssembly, given));
    }
  }

  areWorking() {
    return this.#compilations > 0 || readdirSync(TASKS).some((task) => !this.#ownTasks.has(task) && isRunning(task));
  }

  #follow(compilation) {
    this.#compilations += 1;
    const end = () => {
      this.#compilations -= 1;
    };
    compilation.then(end, end);
    return compilation;
  }
}

function isRunning(task) {
  try {
    const status = readFileSync(`${TASKS}/${task}/stat`, "latin1");
    return "RD".includes(status[status.lastIndexOf(")") + 2]);
  } catch {
    return true; // it has just ended
  }
}

/** Notices when nothing is left to do, and asks the server to skip the wait. */
class Idleness {
  #link;
  #lists;
  #clocks;
  #awaited;
  #threads;
  #next = undefined;
  #quietTurns = 0;
  #events = -1;
  #message = Buffer.alloc(MESSAGE_BYTES);
  #cell = new Int32Array(new SharedArrayBuffer(4));

  constructor(link, lists, clocks, awaited, threads) {
    this.#link = link;
    this.#lists = lists;
    this.#clocks = clocks;
    this.#awaited = awaited;
    this.#threads = threads;
  }

  /** Look at the loop from now on. */
  watch() {
    // when nothing keeps the loop alive, a listener of the program may give it more to do
    process.on("beforeExit", () => process.nextTick(() => this.#awaited.isNothing() || this.#again()));
    this.#again();
  }

  #again() {
    clearImmediate(this.#next);
    this.#next = setImmediate(() => this.#look());
  }

  /** Let the loop wait for what happens next, or end. */
  #wait() {
    this.#quietTurns = 0;
    this.#again();
    this.#next.unref();
  }

  #look() {
    const events = performance.nodeTiming.uvMetricsInfo?.events ?? 0;
    const isNew = events !== this.#events || activeResources().includes("Immediate");
    this.#events = events;
    if (this.#awaited.isNothing()) {
      this.#wait();
    } else if (isNew || this.#lists.leftMs() <= 0) {
      this.#quietTurns = 0;
      this.#again();
    } else if (!this.#awaited.isOurs() || this.#skipsIfQuiet()) {
      this.#wait();
    } else {
      this.#again();
    }
  }

  /** Ask if nobody had anything to do before the last turn, in which nothing happened. Returns whether time has passed. */
  #skipsIfQuiet() {
    const leftMs = this.#lists.leftMs();
    if (leftMs <= SHORT_MS || this.#threads.areWorking() || this.#awaited.isInTransit()) {
      this.#quietTurns = 0;
      Atomics.wait(this.#cell, 0, 0, NAP_MS);
    } else if (this.#quietTurns++ > 0) {
      this.#quietTurns = 0;
      return this.#skip(this.#ask(leftMs));
    }
    return false;
  }

  /** Say in how many milliseconds something happens here, and return how many have been skipped so far. */
  #ask(leftMs) {
    this.#message[0] = IDLE;
    this.#message.writeDoubleLE(leftMs / 1000, 1);
    writeSync(this.#link, this.#message);
    if (readSync(this.#link, this.#message) < MESSAGE_BYTES) exitNow(1); // nobody is there any more
    return Math.round(this.#message.readDoubleLE(1) * 1000);
  }

  #skip(skippedMs) {
    const milliseconds = skippedMs - this.#clocks.skippedMs;
    if (milliseconds === 0) return false;
    this.#lists.skip(milliseconds);
    this.#clocks.skippedMs = skippedMs;
    return true;
  }
}

/** Take what is for this process alone out of the environment: processes that it starts wait as they always do. */
function takeSettings() {
  const text = process.env[CLOCK];
  delete process.env[CLOCK];
  if (text === undefined || !isMainThread) return undefined;
  const settings = JSON.parse(text);
  for (const [name, value] of Object.entries(settings.environment)) {
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  return settings;
}

const settings = takeSettings();
if (settings !== undefined && activeHandles && activeRequests && activeResources) {
  const threads = new Threads();
  const lists = new TimerLists();
  if (lists.areKnown()) {
    const awaited = new Awaited(settings.address, settings.port);
    const clocks = new Clocks();
    clocks.skippedMs = settings.skipped_ms;
    new Idleness(settings.link, lists, clocks, awaited, threads).watch();
  }
}
