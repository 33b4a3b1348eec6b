// An agent with a vendor's SDK for Node: `sdk.mjs AGENT defect|sound FOLDER_OF_THE_SDKS`.
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

const AGENTS = {
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
