// Takes over the tools of a Node program: every call asks offbook, as guest/tools.py does, which has the protocol.
//
// Node preloads this file. Modules of frameworks, and those with functions that are named, are changed when they are
// loaded (node_sources.cjs), and hand their tools over here. A function that returns at once cannot wait for an answer
// in its own thread: another one gets it, while this one sleeps.

"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const fs = require("node:fs");
const http = require("node:http");
const nodeModule = require("node:module");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const workers = require("node:worker_threads");

const { Sources } = require("./node_sources.cjs");

const MAX_DEPTH = 50;
const OWN_TYPE = "js:"; // of results that can be rebuilt
const { setImmediate, setTimeout } = globalThis;
const { request: httpRequest } = http;
const { Worker } = workers;

const inside = new AsyncLocalStorage();

/** Where calls are asked about. */
class Server {
  #url;
  #agent = new http.Agent({ keepAlive: true }); // its free connections do not keep the process alive
  #thread;

  constructor(url) {
    this.#url = new URL(url);
  }

  /** Send a message, and return a promise of the answer. */
  ask(message) {
    const body = Buffer.from(JSON.stringify(message));
    const headers = { "content-type": "application/json", "content-length": body.length };
    return new Promise((resolve, reject) => {
      const request = httpRequest(this.#url, { method: "POST", agent: this.#agent, headers }, (response) => {
        const pieces = [];
        response.on("data", (piece) => pieces.push(piece));
        response.on("error", reject);
        response.on("end", () => resolve(JSON.parse(Buffer.concat(pieces).toString() || "{}")));
      });
      request.on("error", reject);
      request.end(body);
    });
  }

  /** Like `ask`, but wait for the answer, and nothing else happens meanwhile. */
  askAndWait(message) {
    this.#thread ??= new AskingThread(this.#url.href);
    return this.#thread.ask(message);
  }
}

const ASKING = `
const http = require("node:http");
const { workerData: { url, port, cell } } = require("node:worker_threads");
const agent = new http.Agent({ keepAlive: true });
function answer(told) {
  port.postMessage(told);
  Atomics.store(cell, 0, 1);
  Atomics.notify(cell, 0);
}
port.on("message", (body) => {
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  const request = http.request(url, { method: "POST", agent, headers }, (response) => {
    const pieces = [];
    response.on("data", (piece) => pieces.push(piece));
    response.on("error", (error) => answer({ problem: error.message }));
    response.on("end", () => answer({ text: Buffer.concat(pieces).toString() }));
  });
  request.on("error", (error) => answer({ problem: error.message }));
  request.end(body);
});
`;

/** A thread that asks for one that cannot. */
class AskingThread {
  #cell = new Int32Array(new SharedArrayBuffer(4));
  #port;

  constructor(url) {
    const { port1, port2 } = new workers.MessageChannel();
    const workerData = { url, port: port2, cell: this.#cell };
    const options = { eval: true, env: {}, execArgv: [], workerData, transferList: [port2] };
    new Worker(ASKING, options).unref();
    this.#port = port1;
    port1.unref();
  }

  ask(message) {
    Atomics.store(this.#cell, 0, 0);
    this.#port.postMessage(JSON.stringify(message));
    Atomics.wait(this.#cell, 0, 0);
    const { problem, text } = workers.receiveMessageOnPort(this.#port).message;
    if (problem !== undefined) throw new Error(problem);
    return JSON.parse(text || "{}");
  }
}

/** Wait in this thread, by the clock of node_time.cjs if the program is on it. */
function sleep(milliseconds) {
  const sleepByClock = globalThis[Symbol.for("offbook.sleep")];
  if (sleepByClock !== undefined) sleepByClock(milliseconds);
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

class ToolRefusedError extends Error {
  name = "ToolRefusedError";
}

/** The tools of this process that are taken over. */
class Tools {
  #server;
  #notes = [];
  #known = new WeakMap();

  constructor(url) {
    this.#server = new Server(url);
  }

  /** Send a note, with the next call or soon. */
  note(note) {
    if (this.#notes.push(note) > 1) return;
    setImmediate(() => {
      if (this.#notes.length > 0) this.#server.ask(this.#noted({})).catch(() => {});
    });
  }

  #noted(message) {
    const notes = this.#notes;
    this.#notes = [];
    return notes.length > 0 ? { ...message, notes } : message;
  }

  /** Note that a tool cannot be taken over. */
  problem(tool, place, problem) {
    this.note({ tool, function: place, problem });
  }

  /** Return what is called instead of a function that a framework awaits. `select` finds what the model gave.
   *
   * The last result of one that `yields` is the model's. Those before it show its progress, and are not recorded.
   */
  awaited(tool, run, select, yields = false) {
    const tools = this;
    if (yields && run.constructor?.name === "AsyncGeneratorFunction") {
      return named(run, (...given) => {
        if (inside.getStore()) return run(...given);
        return tools.#stream({ tool, arguments: argumentsOf(select(given)) }, () => run(...given));
      });
    }
    if (isGenerator(run)) {
      this.note({ tool, problem: `${run.name || tool} is a generator` });
      return run;
    }
    return named(run, function (...given) {
      if (inside.getStore()) return run.apply(this, given);
      const asked = { tool, arguments: argumentsOf(select(given)) };
      const perform = () => run.apply(this, given);
      return tools.#answer(asked, yields ? () => lastOf(perform()) : perform);
    });
  }

  /** Return what is called instead of a function of the program. */
  taken(tool, place, run) {
    if (typeof run !== "function") {
      this.problem(tool, place, run === undefined ? "there is no such function" : `it is a ${typeof run}, not a function`);
      return run;
    }
    if (isGenerator(run)) {
      this.problem(tool, place, "it is a generator");
      return run;
    }
    const tools = this;
    return named(run, function (...given) {
      return tools.call(tool, place, run, this, given);
    });
  }

  /** Call a function of the program. */
  call(tool, place, run, self, given) {
    if (inside.getStore()) return run.apply(self, given);
    const asked = { tool, arguments: argumentsOf(byName(run, given)) };
    const perform = () => run.apply(self, given);
    return run.constructor.name === "AsyncFunction" ? this.#answer(asked, perform) : this.#answerAtOnce(asked, perform);
  }

  /** Take over a function that is in an object, a class or the prototype of one. */
  member(tool, place, owner, names) {
    const name = names.at(-1);
    let holder = names.slice(0, -1).reduce((found, each) => found?.[each], owner);
    if (typeof holder === "function" && holder[name] === undefined) holder = holder.prototype;
    const taken = this.taken(tool, place, holder?.[name]);
    if (taken === holder?.[name]) return;
    const before = Object.getOwnPropertyDescriptor(holder, name);
    try {
      Object.defineProperty(holder, name, { configurable: true, enumerable: before?.enumerable ?? false, writable: true, value: taken });
    } catch (error) {
      this.problem(tool, place, error.message);
    }
  }

  /** Return an object whose `value` is set to one that has a function in it. */
  slot(tool, place, names) {
    const take = (value) => this.member(tool, place, value, names);
    return {
      set value(value) {
        take(value);
      },
    };
  }

  /** Return an object like a tool of a framework, whose `execute` is taken over. */
  replaced(tool, name, select, yields = false) {
    if (typeof tool?.execute !== "function") return tool;
    const known = this.#known.get(tool) ?? new Map();
    this.#known.set(tool, known);
    if (!known.has(name)) known.set(name, withExecute(tool, this.awaited(name, tool.execute.bind(tool), select, yields)));
    return known.get(name);
  }

  async #answer(asked, perform) {
    const answer = await this.#server.ask(this.#noted(asked));
    return answer.run === undefined ? this.#outcomeLater(answer) : this.#finish(answer.run, perform, false);
  }

  async *#stream(asked, perform) {
    const answer = await this.#server.ask(this.#noted(asked));
    if (answer.run === undefined) {
      yield await this.#outcomeLater(answer);
      return;
    }
    const ended = {};
    try {
      const results = inside.run(true, perform);
      for (;;) {
        const { done, value } = await inside.run(true, () => results.next());
        if (done) break;
        ended.value = value;
        yield value;
      }
    } catch (error) {
      ended.error = error;
    }
    const told = await this.#server.ask({ call: answer.run, ...described(ended, false) });
    if (Object.keys(told).length > 0 || "error" in ended) yield ending(told, ended);
  }

  async #outcomeLater(answer) {
    if (answer.wait_s) await new Promise((resolve) => setTimeout(resolve, answer.wait_s * 1000));
    return outcome(answer);
  }

  async #finish(call, perform, isPromise) {
    const ended = {};
    try {
      ended.value = await inside.run(true, perform);
    } catch (error) {
      ended.error = error;
    }
    const told = await this.#server.ask({ call, ...described(ended, isPromise) });
    return ending(told, ended);
  }

  #answerAtOnce(asked, perform) {
    const answer = this.#server.askAndWait(this.#noted(asked));
    if (answer.run === undefined) {
      if (answer.wait_s) sleep(answer.wait_s * 1000);
      return outcome(answer);
    }
    const ended = {};
    try {
      ended.value = inside.run(true, perform);
    } catch (error) {
      ended.error = error;
    }
    if (typeof ended.value?.then === "function") return this.#finish(answer.run, () => ended.value, true);
    return ending(this.#server.askAndWait({ call: answer.run, ...described(ended, false) }), ended);
  }
}

const MAX_NOTED_CALLS = 1000; // of a function: a tool is known by then

/** The calls of a program's own functions, each a line of JSON in a file, as `guest/calls.py` notes them. */
class Notes {
  #path;
  #counts = new Map();

  constructor(path) {
    this.#path = path;
    fs.appendFileSync(path, ""); // says that a process of Node was observed
  }

  /** Return what is called instead of a function. */
  noted(name, place, run) {
    if (typeof run !== "function") return run;
    const notes = this;
    return named(run, function (...given) {
      notes.#write(name, place, run, given);
      return new.target ? Reflect.construct(run, given, new.target) : run.apply(this, given);
    });
  }

  /** Note a call of a function of the program, and make it. */
  call(name, place, run, self, given) {
    this.#write(name, place, run, given);
    return run.apply(self, given);
  }

  /** Note the calls of the functions in an object, or of the methods of a class. */
  members(name, place, owner) {
    for (const holder of typeof owner === "function" ? [owner, owner.prototype] : [owner]) {
      for (const [key, { value, configurable, writable }] of Object.entries(Object.getOwnPropertyDescriptors(holder ?? {}))) {
        if (typeof value !== "function" || key === "constructor" || !configurable || !writable) continue;
        Object.defineProperty(holder, key, { value: this.noted(`${name}.${key}`, place, value) });
      }
    }
  }

  #write(name, place, run, given) {
    const count = this.#counts.get(name) ?? 0;
    if (count === MAX_NOTED_CALLS) return;
    this.#counts.set(name, count + 1);
    try {
      const problem = isGenerator(run) ? "generator" : "";
      const at = Number(process.hrtime.bigint()) / 1e9;
      const noted = { function: name, place, arguments: argumentsOf(byName(run, given)), at_s: at, problem };
      fs.appendFileSync(this.#path, `${JSON.stringify(noted)}\n`);
    } catch {
      // it must not become an error of the program
    }
  }
}

/** Return the result that offbook has for a call, or throw the error. */
function outcome(answer) {
  if (answer.error === undefined || answer.error === null) return rebuilt(answer.result, answer.type);
  if (answer.refused) throw new ToolRefusedError(answer.error.message);
  const { type, message = "" } = answer.error;
  const known = globalThis[type];
  const isKnown = typeof known === "function" && known.prototype instanceof Error && known.length === 1;
  const error = isKnown ? new known(message) : new Error(message);
  if (error.name !== type) Object.defineProperty(error, "name", { value: type, configurable: true, writable: true });
  throw error;
}

/** Return or throw what a tool has, unless offbook has told something else. */
function ending(told, ended) {
  if (Object.keys(told).length > 0) return outcome(told);
  if ("error" in ended) throw ended.error;
  return ended.value;
}

/** Return what a tool has returned or thrown as JSON: with a type of ours if it can be rebuilt, else with its own. */
function described(ended, isPromise) {
  if ("error" in ended) {
    const { error } = ended;
    const isError = error instanceof Error || typeof error?.message === "string";
    return { error: isError ? { type: String(error.name ?? "Error"), message: error.message } : { type: "Error", message: textOf(error) } };
  }
  const { value } = ended;
  const kind = isPromise ? `${OWN_TYPE}Promise` : "";
  if (value === undefined) return { result: null, type: `${kind || OWN_TYPE}${kind && ":"}undefined` };
  if (!hasJsonForm(value)) return { result: textOf(value), type: value.constructor?.name || typeof value };
  return kind ? { result: value, type: kind } : { result: value };
}

function rebuilt(result, type) {
  if (!type?.startsWith(OWN_TYPE)) return result;
  const value = type.endsWith("undefined") ? undefined : result;
  return type.startsWith(`${OWN_TYPE}Promise`) ? Promise.resolve(value) : value;
}

function textOf(value) {
  try {
    return String(value);
  } catch {
    return typeof value;
  }
}

/** Return whether JSON has all of a value. What is undefined in an object is not in it. */
function hasJsonForm(value, depth = 0) {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.every((each) => hasJsonForm(each, depth + 1));
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return false;
  if (typeof value.toJSON === "function") return false;
  return Object.values(value).every((each) => each === undefined || hasJsonForm(each, depth + 1));
}

/** Return what of the arguments has a JSON form. Contexts and the like have none, and are not the model's. */
function argumentsOf(given) {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && hasJsonForm(value)));
}

/** Find what the model gave in the first argument. */
function first([given]) {
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given;
  return given === undefined || given === null ? {} : { input: given };
}

/** Return the arguments of a function by name. One object is all of them. */
function byName(run, given) {
  const isObject = typeof given[0] === "object" && given[0] !== null && !Array.isArray(given[0]);
  if (given.length === 1 && isObject) return given[0];
  const names = parameterNames(Function.prototype.toString.call(run));
  return Object.fromEntries(given.map((value, index) => [names[index] ?? String(index), value]));
}

/** Return the names of parameters as they are written, until one has none. */
function parameterNames(source) {
  const alone = /^(?:async\s+)?([\w$]+)\s*=>/.exec(source);
  if (alone !== null) return [alone[1]];
  const names = [];
  let depth = 0;
  let text = "";
  for (const letter of source.slice(source.indexOf("(") + 1)) {
    if (depth === 0 && (letter === "," || letter === ")")) {
      names.push(/^\s*([\w$]+)/.exec(text)?.[1]);
      text = "";
      if (letter === ")") break;
      continue;
    }
    depth += "([{".includes(letter) ? 1 : ")]}".includes(letter) ? -1 : 0;
    text += letter;
  }
  return names;
}

function isGenerator(run) {
  return /Generator/.test(run.constructor?.name ?? "");
}

function named(run, taken) {
  for (const key of ["name", "length"]) Object.defineProperty(taken, key, { value: run[key], configurable: true });
  return Object.assign(taken, run);
}

/** Return the last of the results that a function yields, or its only one. */
async function lastOf(result) {
  let value = await result;
  if (typeof value?.[Symbol.asyncIterator] !== "function") return value;
  const results = value;
  value = undefined;
  for await (const each of results) value = each;
  return value;
}

function withExecute(tool, execute) {
  const properties = Object.getOwnPropertyDescriptors(tool);
  properties.execute = { value: execute, configurable: true, enumerable: true, writable: true };
  return Object.create(Object.getPrototypeOf(tool), properties);
}

/** Return which module of the same package calls a function of a framework; empty if none does. */
function callerInside(packageName) {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 3;
  const line = new Error().stack.split("\n")[3] ?? "";
  Error.stackTraceLimit = stackTraceLimit;
  return line.includes(`/node_modules/${packageName}/`) ? line : "";
}

/** How the tools of each framework are taken over, by what its module declares or exports. */
const FRAMEWORKS = {
  ai(tools, { executeToolCall }) {
    const execute = executeToolCall.get();
    if (!/^async function \w+\(\{[^}]*\btoolCall\b[^}]*\btools\b/.test(String(execute))) throw new Error("executeToolCall has other parameters");
    executeToolCall.set(function (given, ...more) {
      const { toolName } = given.toolCall;
      const tool = Object.hasOwn(given.tools ?? {}, toolName) ? given.tools[toolName] : undefined;
      const taken = tool && { ...given, tools: { ...given.tools, [toolName]: tools.replaced(tool, toolName, first, true) } };
      return execute(taken ?? given, ...more);
    });
  },

  // A tool that the framework makes itself hands over to another agent or to MCP. It steers, and always runs.
  "@openai/agents-core"(tools, { tool }) {
    const make = tool.get();
    if (!/await options\.execute\(/.test(String(make))) throw new Error("tool does not call options.execute");
    tool.set(function (options, ...more) {
      const caller = callerInside("@openai/agents-core");
      if (typeof options?.execute !== "function" || caller) {
        const steering = make(options, ...more);
        if (/\/agent\.m?js/.test(caller)) tools.note({ tool: steering.name, is_steering: true });
        return steering;
      }
      const own = { ...options };
      const made = make(own, ...more);
      own.execute = tools.awaited(made.name, options.execute, first);
      return made;
    });
  },

  "@langchain/core"(tools, { StructuredTool }) {
    const { call } = StructuredTool.prototype;
    if (!/\bthis\._call\(/.test(String(call))) throw new Error("StructuredTool.call does not use _call");
    const taken = new WeakSet();
    StructuredTool.prototype.call = function (...given) {
      if (!taken.has(this)) {
        taken.add(this);
        const value = tools.awaited(this.name, this._call.bind(this), first);
        Object.defineProperty(this, "_call", { value, configurable: true, writable: true });
      }
      return call.apply(this, given);
    };
  },

  "@mastra/core"(tools, { Agent }) {
    const { listTools, listToolsets } = Agent.prototype;
    if (typeof listTools !== "function" || typeof listToolsets !== "function") throw new Error("Agent has no listTools and listToolsets");
    const replaced = (given) => Object.fromEntries(Object.entries(given ?? {}).map(([name, tool]) => [name, tools.replaced(tool, name, first)]));
    Agent.prototype.listTools = async function (...given) {
      return replaced(await listTools.apply(this, given));
    };
    Agent.prototype.listToolsets = function (given, ...more) {
      const sets = Object.entries(given?.toolsets ?? {}).map(([name, set]) => [name, replaced(set)]);
      return listToolsets.call(this, { ...given, toolsets: Object.fromEntries(sets) }, ...more);
    };
  },
};

const hooked = new WeakSet();

/** Take over the tools of a framework, whose module is loaded. */
function takeFramework(tools, { package: name, file }, names) {
  const note = { framework: name, version: versionOf(name, file) };
  try {
    if (names.Agent !== undefined && (hooked.has(names.Agent) || !hooked.add(names.Agent))) return;
    FRAMEWORKS[name](tools, names);
  } catch (error) {
    note.problem = `${error.name}: ${error.message}`;
  }
  tools.note(note);
}

function versionOf(name, file) {
  try {
    const folder = file.slice(0, file.lastIndexOf(`/node_modules/${name}/`));
    return JSON.parse(fs.readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8")).version;
  } catch {
    return "";
  }
}

/** Change modules when they are loaded. */
function followModules(sources, settings) {
  if (nodeModule.registerHooks !== undefined) {
    nodeModule.registerHooks({
      load(url, context, nextLoad) {
        const loaded = nextLoad(url, context);
        if (loaded.source == null || !sources.isKnown(url)) return loaded;
        const isModule = (loaded.format ?? context.format ?? "").startsWith("module");
        const source = sources.changed(url, Buffer.from(loaded.source).toString(), isModule);
        return source === undefined ? loaded : { ...loaded, source };
      },
    });
  } else if (sources.areExpected) {
    nodeModule.register?.(pathToFileURL(path.join(__dirname, "node_loader.mjs")).href, { data: settings });
  }
  // What is required is compiled by a method of its module, as the tools that compile other languages know it.
  const extensions = nodeModule._extensions;
  const load = extensions[".js"];
  extensions[".js"] = function (module, filename) {
    if (sources.isKnown(filename)) {
      const compile = module._compile;
      module._compile = function (text, ...more) {
        module._compile = compile;
        return compile.call(this, sources.changed(filename, text, false) ?? text, ...more);
      };
    }
    return load.call(this, module, filename);
  };
}

function install(url) {
  const lines = (process.env.OFFBOOK_TOOL_FUNCTIONS ?? "").split("\n").filter((line) => line.includes("="));
  const functions = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
  const notes = process.env.OFFBOOK_CALLS ? new Notes(process.env.OFFBOOK_CALLS) : undefined;
  const settings = { functions, main: process.argv[1], notesAll: notes !== undefined };
  const tools = new Tools(url);
  const hook = {
    framework: (framework, names) => takeFramework(tools, framework, names),
    taken: (...given) => tools.taken(...given),
    call: (...given) => tools.call(...given),
    member: (...given) => tools.member(...given),
    slot: (...given) => tools.slot(...given),
    problem: (...given) => tools.problem(...given),
    noted: (...given) => notes.noted(...given),
    notedCall: (...given) => notes.call(...given),
    notedMembers: (...given) => notes.members(...given),
    notedSlot: (...given) => ({
      set value(value) {
        notes.members(...given, value);
      },
    }),
  };
  Object.defineProperty(globalThis, Symbol.for("offbook.tools"), { value: hook });
  followModules(new Sources(settings), settings);
}

if (process.env.OFFBOOK_TOOLS_URL && globalThis[Symbol.for("offbook.tools")] === undefined) install(process.env.OFFBOOK_TOOLS_URL);
