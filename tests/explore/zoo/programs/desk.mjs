// Agents that are one program in Node: `desk.mjs AGENT`. The sound twin of all of them is `serves`.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const GAVE_UP = 3;
const TICKET = [
  { role: "system", content: "You refund orders." },
  { role: "user", content: "Order 42 never came." },
];
const PARAMETERS = { type: "object", properties: { order_id: { type: "integer" } }, required: ["order_id"] };
const TOOLS = [{ type: "function", function: { name: "refund", parameters: PARAMETERS } }];
const RETRYABLE = [408, 409, 425, 500, 502, 504, 529];
const env = process.env;

class GaveUp extends Error {}
class Busy extends Error {}

function note(tool, args) {
  appendFileSync(env.ZOO_LEDGER, JSON.stringify({ tool, arguments: args, run: env.OFFBOOK_URL }) + "\n");
  if (env.ZOO_REPORTS) appendFileSync(env.OFFBOOK_EFFECTS, JSON.stringify({ tool, arguments: args }) + "\n");
}

function refund(order_id) {
  note("refund", { order_id });
  return `paid for ${order_id}`;
}

async function post(messages, { timeoutMs = 800, tools = TOOLS } = {}) {
  return await fetch(`${env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(tools ? { model: "gpt-4o", messages, tools } : { model: "gpt-4o", messages }),
    signal: timeoutMs ? AbortSignal.timeout(timeoutMs) : undefined,
  });
}

function checked(choice) {
  const { message, finish_reason: reason } = choice;
  if (!["stop", "tool_calls"].includes(reason)) throw new GaveUp(`the answer is not complete: ${reason}`);
  if (!message.tool_calls?.length && !message.content?.trim()) throw new GaveUp("the answer is empty");
  return message;
}

async function askOnce(messages, options) {
  let choice;
  try {
    const answer = await post(messages, options);
    if (RETRYABLE.includes(answer.status)) throw new Busy(`HTTP ${answer.status}`);
    if (answer.status !== 200) throw new GaveUp(`HTTP ${answer.status}`);
    choice = (await answer.json()).choices[0];
    choice.message.content;
  } catch (error) {
    if (error.name === "TimeoutError") throw new GaveUp("the model is silent");
    throw error instanceof GaveUp ? error : new Busy(String(error));
  }
  return checked(choice);
}

async function ask(messages, { tries = 2, ...options } = {}) {
  for (let attempt = 0; attempt < tries; attempt++) {
    await sleep(attempt * 50);
    try {
      return await askOnce(messages, options);
    } catch (error) {
      if (!(error instanceof Busy)) throw error;
    }
  }
  throw new GaveUp("the model does not answer");
}

function argumentsOf(call) {
  try {
    const args = JSON.parse(call.function.arguments);
    return call.function.name === "refund" && args.order_id === 42 ? args : null;
  } catch {
    return null;
  }
}

class Till {
  paid = null;

  use(call) {
    const args = argumentsOf(call);
    if (!args) return "error: there is no such tool, or it is not the customer's order";
    this.paid ??= refund(args.order_id);
    return this.paid;
  }

  finish(text) {
    if (!this.paid) throw new GaveUp(`nothing was paid: ${text}`);
    return text;
  }
}

async function converse(asking, use, turns = 5) {
  const messages = [...TICKET];
  for (let turn = 0; turn < turns; turn++) {
    const message = await asking(messages);
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const call of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: call.id, content: await use(call) });
  }
  throw new GaveUp("the model does not come to an end");
}

function withNoise(text) {
  return `${new Date().toISOString()} ${process.pid}: ${text} ${process.hrtime.bigint()} ns, ${performance.now()} ms`;
}

const AGENTS = {
  // The desk as it should be.
  async serves() {
    const till = new Till();
    return till.finish(await converse(ask, (call) => till.use(call)));
  },

  // Prints undefined where an answer has another shape or no text.
  async prints_undefined() {
    const till = new Till();
    const asking = async (messages) => {
      try {
        return await ask(messages);
      } catch (error) {
        if (!till.paid) throw error;
        return {};
      }
    };
    return till.finish(String(await converse(asking, (call) => till.use(call))));
  },

  // Reads the arguments of a tool as they are.
  async trusts_arguments() {
    const till = new Till();
    const use = (call) => {
      if (call.function.name === "refund") JSON.parse(call.function.arguments).order_id.toFixed();
      return till.use(call);
    };
    return till.finish(await converse(ask, use));
  },

  // Refunds again when the model asks again.
  async refunds_when_asked() {
    const till = new Till();
    const use = (call) => {
      till.paid = null;
      return till.use(call);
    };
    return till.finish(await converse(ask, use));
  },

  // Both, with what is another in every run.
  async serves_with_noise() {
    return withNoise(await AGENTS.serves());
  },

  async refunds_when_asked_with_noise() {
    return withNoise(await AGENTS.refunds_when_asked());
  },

  // Goes on as long as its model asks for tools.
  async has_no_turn_limit() {
    const till = new Till();
    return till.finish(await converse(ask, (call) => till.use(call), Infinity));
  },
};

try {
  console.log(await AGENTS[process.argv[2]]());
} catch (error) {
  if (!(error instanceof GaveUp)) throw error;
  console.error(error.message);
  process.exitCode = GAVE_UP;
}
