// Puts a Node program on the clock of the server: see wire/server/session_clock.py.
//
// Node preloads this file. All timers of Node, its own (sockets, fetch, AbortSignal) as well as the program's, are in
// lists, one for each duration. Time passes by making every timer in them earlier by the same amount, and Node itself
// runs what is due, in its own order. While the program works, time stands still: timers are made later again by as much
// as it took. One that is set meanwhile may be a little late by that, and none is early.
//
// An immediate, which keeps the event loop from waiting, looks at every turn of it. If nothing happened in one, and all
// that the program waits for are timers and answers of the server, it says so over the link, and is told the time. Where
// anything else may happen (a child process, a file, another host, a worker), the loop waits as it always does, and that
// takes time.

"use strict";

const fs = require("node:fs");
const { syncBuiltinESMExports } = require("node:module");
const net = require("node:net");
const { performance, Performance } = require("node:perf_hooks");
const workers = require("node:worker_threads");

const CLOCK = "OFFBOOK_NODE_CLOCK";
const TASKS = "/proc/self/task";
const MESSAGE_BYTES = 9;
const [IDLE, LATE] = Buffer.from("il");
const DUE_MS = 1.5; // what is due within this time is due now: Node counts milliseconds
const AGED_MS = 3; // how much older than it is a timer is left that is due
const READ_MS = 1e-4; // how long it takes to read a clock
const SPIN_MS = 1e-2; // and after so many times without a wait: a loop that looks at it until a moment comes to its end
const SPIN_READS = 1000;
const SECOND_NS = 1000000000n;
const NAP_MS = 0.2;
const BUSY_TURNS = 1000; // after so many turns in which something happened, time is real: it may wait for a timer so
const PROBE_MS = 2147483646; // a timer that is never due, and knows Node's time

const { setImmediate, clearImmediate, setTimeout, clearTimeout } = globalThis;
const activeHandles = process._getActiveHandles?.bind(process);
const activeRequests = process._getActiveRequests?.bind(process);
const activeResources = process.getActiveResourcesInfo?.bind(process);
const { readFileSync, readdirSync, readSync, writeSync } = fs;
const realNow = performance.now.bind(performance);
const exitNow = process.reallyExit.bind(process);

/** The lists of timers that Node has, by duration: each timer is told the list that it is put into. */
class TimerLists {
  #lists = new Map();
  #probe;
  #alarm;

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
      if (!this.#isEmpty(list)) leftMs = Math.min(leftMs, list.expiry - nowMs);
    }
    return leftMs;
  }

  /** Make every timer earlier, or later. Lists that are empty stay in the order of the others. */
  shift(milliseconds) {
    for (const list of this.#lists.values()) {
      list.expiry -= milliseconds;
      for (let timer = list._idlePrev; timer !== list; timer = timer._idlePrev) timer._idleStart -= milliseconds;
    }
  }

  /** Have Node look at its lists soon, whatever it has planned. */
  wake() {
    if (!this.#alarm?._idleNext) this.#alarm = setTimeout(() => {}, 1).unref();
  }

  /** Return whether a list has no timers but ours. */
  #isEmpty(list) {
    return [list, this.#probe, this.#alarm].includes(list._idleNext) && list._idleNext === list._idlePrev;
  }
}

/** All clocks of JavaScript and of Node. `nowMs` is the time of the server. */
class Clocks {
  nowMs;
  #readMs = 0;
  #reads = 0;

  constructor(nowMs) {
    this.nowMs = nowMs;
    const { hrtime } = process;
    this.#replaceDate(this.#after(Date.now()));
    Performance.prototype.now = this.#after(realNow());
    const uptime = this.#after(process.uptime() * 1000);
    process.uptime = () => uptime() / 1000;
    this.#replaceHrtime(hrtime, hrtime.bigint());
  }

  /** Let time pass up to a moment. */
  move(nowMs) {
    this.#reads = 0;
    this.nowMs = Math.max(this.nowMs, nowMs);
  }

  /** Return a clock that is at `startMs` now. */
  #after(startMs) {
    const zeroMs = startMs - this.nowMs;
    return () => zeroMs + this.#read();
  }

  #read() {
    this.#reads += 1;
    this.#readMs += this.#reads < SPIN_READS ? READ_MS : SPIN_MS;
    return this.nowMs + this.#readMs;
  }

  #replaceDate(now) {
    const RealDate = Date;
    RealDate.now = () => Math.floor(now());
    globalThis.Date = new Proxy(RealDate, {
      apply: () => new RealDate(RealDate.now()).toString(),
      construct: (target, given, newTarget) =>
        Reflect.construct(target, given.length ? given : [RealDate.now()], newTarget),
    });
    RealDate.prototype.constructor = globalThis.Date;
  }

  #replaceHrtime(real, start) {
    const passed = this.#after(0);
    const bigint = () => start + BigInt(Math.round(passed() * 1e6));
    process.hrtime = (since) => {
      if (since !== undefined) real(since); // it throws if that is no time
      const now = bigint() - (since === undefined ? 0n : BigInt(since[0]) * SECOND_NS + BigInt(since[1]));
      return [Number(now / SECOND_NS), Number(now % SECOND_NS)];
    };
    process.hrtime.bigint = bigint;
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
  #workers = new Set();

  constructor() {
    this.#followWorkers();
    for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming"]) {
      const real = globalThis.WebAssembly?.[name];
      if (real !== undefined) WebAssembly[name] = (...given) => this.#follow(real.apply(WebAssembly, given));
    }
  }

  areWorking() {
    return this.#compilations + this.#workers.size > 0 || readdirSync(TASKS).some((task) => !this.#ownTasks.has(task) && isRunning(task));
  }

  /** Count workers until they say that they have ended: before that, their handles are gone, and their threads wait. */
  #followWorkers() {
    const awaited = this.#workers;
    workers.Worker = class Worker extends workers.Worker {
      #hasEnded = false;

      constructor(...given) {
        super(...given);
        awaited.add(this);
        this.once("exit", () => {
          this.#hasEnded = true;
          awaited.delete(this);
        });
      }

      ref() {
        if (!this.#hasEnded) awaited.add(this);
        return super.ref();
      }

      unref() {
        awaited.delete(this); // the program does not wait for it
        return super.unref();
      }
    };
    syncBuiltinESMExports();
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

/** Notices when nothing is left to do, and asks the server for the time then. */
class Idleness {
  #link;
  #lists;
  #clocks;
  #awaited;
  #threads;
  #next = undefined;
  #quietTurns = 0;
  #busyTurns = 0;
  #events = -1;
  #sinceMs = realNow(); // when time stopped
  #isWaiting = false; // for something that takes real time
  #lateMs = 0; // how much of that the server does not know of
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

  /** Let time pass while the program's thread does nothing else. */
  sleep(milliseconds) {
    const dueMs = this.#clocks.nowMs + milliseconds;
    while (this.#clocks.nowMs < dueMs) this.#move(this.#ask(IDLE, dueMs - this.#clocks.nowMs));
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
    const leftMs = this.#stopTime();
    this.#busyTurns = isNew ? this.#busyTurns + 1 : 0;
    if (this.#awaited.isNothing()) {
      this.#wait();
    } else if (isNew) {
      this.#quietTurns = 0;
      this.#isWaiting = this.#busyTurns > BUSY_TURNS;
      this.#again();
    } else if (leftMs <= DUE_MS) {
      this.#lists.wake();
      this.#nap();
      this.#again();
    } else if (!this.#awaited.isOurs()) {
      this.#isWaiting = true;
      this.#wait();
    } else {
      this.#moveIfQuiet(leftMs);
      this.#again();
    }
  }

  #nap() {
    Atomics.wait(this.#cell, 0, 0, NAP_MS);
  }

  /** Let no time have passed since the last look, unless the loop had to wait. Returns what is left of it. */
  #stopTime() {
    const nowMs = realNow();
    const tookMs = nowMs - this.#sinceMs;
    if (this.#isWaiting) {
      this.#isWaiting = false;
      this.#sinceMs = nowMs;
      this.#lateMs += tookMs;
      this.#clocks.move(this.#clocks.nowMs + tookMs);
      return this.#lists.leftMs();
    }
    const leftMs = this.#lists.leftMs() + tookMs;
    const backMs = leftMs <= DUE_MS ? tookMs - AGED_MS : tookMs;
    if (backMs > 0) {
      this.#lists.shift(-backMs);
      this.#sinceMs += backMs;
    }
    return leftMs;
  }

  /** Let time pass if nobody had anything to do before the last turn, in which nothing happened. */
  #moveIfQuiet(leftMs) {
    if (this.#threads.areWorking() || this.#awaited.isInTransit()) {
      this.#quietTurns = 0;
      this.#nap();
    } else if (this.#quietTurns++ > 0) {
      this.#quietTurns = 0;
      if (this.#lateMs > 0) this.#ask(LATE, 0);
      this.#lateMs = 0;
      this.#move(this.#ask(IDLE, leftMs));
    }
  }

  /** Say in how many milliseconds something happens here, and return the time of the server. */
  #ask(kind, leftMs) {
    this.#message[0] = kind;
    this.#message.writeDoubleLE((this.#clocks.nowMs + leftMs) / 1000, 1);
    writeSync(this.#link, this.#message);
    if (readSync(this.#link, this.#message) < MESSAGE_BYTES) exitNow(1); // nobody is there any more
    return this.#message.readDoubleLE(1) * 1000;
  }

  #move(nowMs) {
    this.#lists.shift(Math.max(0, nowMs - this.#clocks.nowMs));
    this.#clocks.move(nowMs);
  }
}

/** Take what is for this process alone out of the environment: processes that it starts wait as they always do. */
function takeSettings() {
  const text = process.env[CLOCK];
  delete process.env[CLOCK];
  if (text === undefined || !workers.isMainThread) return undefined;
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
    const clocks = new Clocks(settings.now_s * 1000);
    const idleness = new Idleness(settings.link, lists, clocks, awaited, threads);
    Object.defineProperty(globalThis, Symbol.for("offbook.sleep"), { value: (milliseconds) => idleness.sleep(milliseconds) });
    idleness.watch();
  }
}
