// Agents with the vendors' SDKs for Node: `sdk.mjs AGENT defect|sound FOLDER_OF_THE_SDKS`.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , agent, twin, folder] = process.argv;
const load = async (name) => (await import(pathToFileURL(createRequire(`${folder}/`).resolve(name)))).default;
const GAVE_UP = 3;
const isSound = twin === "sound";
const SCHEMA = { type: "object", properties: { order_id: { type: "integer" } }, required: ["order_id"] };

class GaveUp extends Error {}

function refund({ order_id }) {
  const line = JSON.stringify({ tool: "refund", arguments: { order_id } }) + "\n";
  appendFileSync(process.env.ZOO_LEDGER, line);
  if (process.env.ZOO_REPORTS) appendFileSync(process.env.OFFBOOK_EFFECTS, line);
  return `paid for ${order_id}`;
}

const isRefund = (name, args) => name === "refund" && args?.order_id === 42;

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const AGENTS = {
  // Calls whatever tool the model names; the twin looks whether there is one.
  async calls_any_tool() {
    const OpenAI = await load("openai");
    const client = new OpenAI({ maxRetries: 1, timeout: 800 });
    const tools = [{ type: "function", function: { name: "refund", parameters: SCHEMA } }];
    const messages = [{ role: "user", content: "Order 42 never came." }];
    let paid = null;
    for (let turn = 0; turn < 5; turn++) {
      const answer = await client.chat.completions.create({ model: "gpt-4o", messages, tools }).catch(giveUp);
      const choice = answer.choices?.[0] ?? giveUp("there is no answer");
      if (!["stop", "tool_calls"].includes(choice.finish_reason)) giveUp("the answer is not complete");
      if (!choice.message.tool_calls?.length) return finish(paid, choice.message.content);
      messages.push(choice.message);
      for (const call of choice.message.tool_calls) {
        const args = parsed(call.function.arguments);
        const handlers = { refund: (given) => (isRefund("refund", given) ? (paid ??= refund(given)) : "error: no") };
        const handler = isSound ? (handlers[call.function.name] ?? (() => "error: no such tool")) : handlers[call.function.name];
        messages.push({ role: "tool", tool_call_id: call.id, content: handler(args) });
      }
    }
    throw new GaveUp("the model does not come to an end");
  },

  // Prints what there is of an answer; the twin minds why it ended.
  async ignores_stop_reason() {
    const Anthropic = await load("@anthropic-ai/sdk");
    const client = new Anthropic({ maxRetries: 1, timeout: 800 });
    const tools = [{ name: "refund", input_schema: SCHEMA }];
    const messages = [{ role: "user", content: "Order 42 never came." }];
    let paid = null;
    for (let turn = 0; turn < 5; turn++) {
      const params = { model: "claude", max_tokens: 100, messages, tools };
      const answer = await client.messages.create(params).catch(giveUp);
      const content = answer.content ?? giveUp("there is no answer");
      if (isSound && !["end_turn", "tool_use"].includes(answer.stop_reason)) giveUp("the answer is not complete");
      const calls = content.filter((part) => part.type === "tool_use");
      if (!calls.length) return finish(paid, content.find((part) => part.type === "text")?.text);
      const results = calls.map((call) => ({
        type: "tool_result",
        tool_use_id: call.id,
        content: isRefund(call.name, call.input) ? (paid ??= refund(call.input)) : "error: no",
      }));
      messages.push({ role: "assistant", content }, { role: "user", content: results });
    }
    throw new GaveUp("the model does not come to an end");
  },
};

function giveUp(reason) {
  throw new GaveUp(String(reason));
}

function finish(paid, text) {
  if (!paid) giveUp(`nothing was paid: ${text}`);
  if (!text) giveUp("the answer is empty");
  return text;
}

try {
  console.log(await AGENTS[agent]());
} catch (error) {
  if (!(error instanceof GaveUp)) throw error;
  console.error(error.message);
  process.exitCode = GAVE_UP;
}
